"""Which machine this is: read from files that anybody may have written, so each text is short, on one line and printable."""

import platform
from pathlib import Path

from api.ports.node import MachineIdentity

ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64", "armv7l": "arm", "i686": "386"}
"""What Kubernetes calls machines that the kernel calls otherwise."""
MACHINE_IDS = ("etc/machine-id", "var/lib/dbus/machine-id")
RELEASES = ("etc/os-release", "usr/lib/os-release")
SYSTEM_IDS = (
    "class/dmi/id/product_uuid",
    "firmware/devicetree/base/system-id",
    "firmware/devicetree/base/vm,uuid",
)
READ_LIMIT = 64 << 10
TEXT_LIMIT = 256
"""Characters of a text of the identity."""


def identity_of(proc: Path, sys: Path, root: Path) -> MachineIdentity:
    """Return which machine this is; what cannot be read is empty, but for the system's name, as in a kubelet."""
    return MachineIdentity(
        machine_id=first_line(*(root / path for path in MACHINE_IDS)),
        system_uuid=first_line(*(sys / path for path in SYSTEM_IDS)),
        boot_id=first_line(proc / "sys/kernel/random/boot_id"),
        kernel_version=first_line(proc / "sys/kernel/osrelease"),
        os_image=os_image(root),
        architecture=architecture(),
    )


def architecture() -> str:
    """Return the machine's architecture as Kubernetes calls it."""
    return ARCHITECTURES.get(platform.machine(), platform.machine())


def os_image(root: Path) -> str:
    """Return the name that the system gives itself for people; ``Linux`` if it gives none, ``Unknown`` if it cannot be read."""
    for path in RELEASES:
        text = beginning(root / path)
        if text is None:
            continue
        for line in text.splitlines():
            name, equals, value = line.partition("=")
            if equals and name.strip() == "PRETTY_NAME":
                return clean(value.strip().strip("\"'")) or "Linux"
        return "Linux"
    return "Unknown"


def first_line(*paths: Path) -> str:
    """Return the first line of the first of these files that has one, empty if none has."""
    lines = (clean((beginning(path) or "").strip().partition("\n")[0]) for path in paths)
    return next((line for line in lines if line), "")


def clean(text: str) -> str:
    """Return a text without what is not printable, and not too long."""
    return "".join(char for char in text if char.isprintable())[:TEXT_LIMIT].strip()


def beginning(path: Path) -> str | None:
    """Return the beginning of a regular file, None where there is none that can be read."""
    try:
        if not path.is_file():
            return None
        with path.open("rb") as file:
            return file.read(READ_LIMIT).decode(errors="replace")
    except (OSError, ValueError):
        return None
