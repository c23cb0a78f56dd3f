"""Real parts of the machine that tests need: what is missing, and which Debian package brings it.

A test that cannot run says which part and how to get it. Where the parts are mandatory (``NODEAGENT_REQUIRE=1``, as in
CI) a missing one is a failure.
"""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

SECOND_CONTAINERD = "NODEAGENT_CONTAINERD_17"
"""Names the folder of a containerd 1.7 or later with its shim: the first that streams container events. Optional."""
CNI_PLUGINS = Path("/usr/lib/cni")


def busybox_path() -> Path | None:
    """Return the static busybox of the machine, None when there is none: a dynamic one cannot run in an empty root."""
    found = next((p for p in (Path("/bin/busybox"), Path("/usr/bin/busybox")) if p.exists()), None)
    if found is None or b"/ld-linux" in found.read_bytes()[:4096]:
        return None
    return found


def _has(program: str) -> Callable[[], bool]:
    return lambda: shutil.which(program, path=SEARCH_PATH) is not None


SEARCH_PATH = f"{os.environ.get('PATH', '')}:/usr/local/sbin:/usr/sbin:/sbin"
"""Where programs are looked for: system programs are not in everybody's own path."""

PARTS: dict[str, tuple[str, Callable[[], bool]]] = {
    "root": ("", lambda: os.geteuid() == 0),
    "containerd": ("containerd", _has("containerd")),
    "runc": ("runc", _has("runc")),
    "cni": (
        "containernetworking-plugins",
        lambda: all((CNI_PLUGINS / name).exists() for name in ("bridge", "host-local", "loopback")),
    ),
    "ip": ("iproute2", _has("ip")),
    "iptables": ("iptables", _has("iptables")),
    "busybox": ("busybox-static", lambda: busybox_path() is not None),
    "registry": ("docker-registry", _has("docker-registry")),
    "openssl": ("openssl", _has("openssl")),
}
"""Every part: the Debian package that brings it, and how to see that it is there."""

CONTAINERD_PARTS = ("root", "containerd", "runc", "cni", "ip", "busybox")


def missing(*names: str) -> list[str]:
    """Return one line for each part that is missing; raises KeyError for an unknown name."""
    lines = []
    for name in names:
        package, is_there = PARTS[name]
        if not is_there():
            lines.append(f"{name} (Debian package {package})" if package else name)
    return lines


def need(*names: str) -> None:
    """Skip the test when a part is missing; fail it where the parts are mandatory."""
    if lines := missing(*names):
        text = f"needs on this machine: {', '.join(lines)}"
        if os.environ.get("NODEAGENT_REQUIRE"):
            pytest.fail(f"a mandatory part is missing; {text}")
        pytest.skip(text)


def containerd_folder(version: str) -> str:
    """Return the folder of the containerd of a test's parameter, `1.6` or `1.7`; skip when it is not there.

    ``1.6`` stands for the distribution's own, which is mandatory in CI; ``1.7`` for the optional second one.
    """
    need(*CONTAINERD_PARTS)
    if version == "1.6":
        found = shutil.which("containerd", path=SEARCH_PATH)
        assert found is not None
        return str(Path(found).parent)
    folder = os.environ.get(SECOND_CONTAINERD, "")
    if not folder:
        pytest.skip(f"the optional second containerd is not there: {SECOND_CONTAINERD} names its folder")
    assert (Path(folder) / "containerd").exists(), f"{SECOND_CONTAINERD}={folder}: there is no containerd"
    return folder
