"""Container images made on the spot: busybox, pause, variants with a user or an entry point, throw-away ones of any size.

`archive` packs them as ``ctr images import`` takes them; an `Image` has the parts that a push to a registry
(`tests/harness/cri/registry.py`) sends.
"""

import functools
import gzip
import hashlib
import io
import json
import os
import platform
import subprocess
import tarfile
from dataclasses import dataclass

from tests.harness.part import busybox_path

PAUSE_NAME = "localhost/pause:3.9"
BUSYBOX_NAME = "localhost/busybox:1"
USER, USER_ID, GROUP_ID = "app", 1234, 2345
"""A user that every busybox image knows by name, with a group of the same name."""

ARCHITECTURE = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())

# Blocks all signals, then waits for them one by one: SIGTERM and SIGINT end it, SIGCHLD reaps every dead child. A
# process with number 1 is not killed by signals that it leaves alone, but blocked ones still wait for it.
PAUSE_CODE = bytes.fromhex(
    "6aff bf02000000 4889e6 31d2 41ba08000000 b80e000000 0f05"  # rt_sigprocmask(SIG_SETMASK, all)
    "4889e7 31f6 31d2 41ba08000000 b880000000 0f05"  # rt_sigtimedwait(all)
    "83f80f 7428 83f802 7423 83f811 75dd"  # SIGTERM, SIGINT: leave; not SIGCHLD: wait on
    "48c7c7ffffffff 31f6 ba01000000 4531d2 b83d000000 0f05 85c0 7fe4 ebbf"  # wait4(-1, WNOHANG) while it finds any
    "31ff b83c000000 0f05"  # exit(0)
)
PAUSE_SCRIPT = "trap 'exit 0' TERM INT; while :; do sleep 3600 & wait; done"


@dataclass(frozen=True)
class Image:
    """An image: its configuration (JSON) and one layer (tar, not compressed)."""

    name: str
    config: bytes
    layer: bytes

    @property
    def id(self) -> str:
        """Return the id that the runtime shows: the digest of the configuration."""
        return digest(self.config)

    def packed(self) -> bytes:
        """Return the layer as registries keep it: compressed, the same bytes each time."""
        return gzip.compress(self.layer, 1, mtime=0)


def archive(*images: Image) -> bytes:
    """Return a docker archive of images, for ``ctr images import``."""
    manifest = [
        {"Config": f"{i.id[7:]}.json", "RepoTags": [i.name], "Layers": [f"{digest(i.layer)[7:]}.tar"]}
        for i in images
    ]
    files = {f"{i.id[7:]}.json": i.config for i in images}
    files |= {f"{digest(i.layer)[7:]}.tar": i.layer for i in images}
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as packed:
        for name, data in sorted(files.items()):
            _add(packed, name, data)
        _add(packed, "manifest.json", json.dumps(manifest).encode())
    return buffer.getvalue()


def digest(data: bytes) -> str:
    """Return the digest of `data` as images write it."""
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


@functools.cache
def pause(name: str = PAUSE_NAME) -> Image:
    """Return the image of a sandbox's own process: reaps children, ends at once on SIGTERM, uses next to nothing."""
    if platform.machine() != "x86_64":
        return make_image(name, entrypoint=("/bin/sh", "-c", PAUSE_SCRIPT))
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as archive:
        _add(archive, "pause", _elf(PAUSE_CODE), 0o755)
    return _image(name, layer.getvalue(), {"Entrypoint": ["/pause"]})


@functools.cache
def busybox(name: str = BUSYBOX_NAME) -> Image:
    """Return an image with busybox, all its commands, some users and a temporary folder; runs ``sh`` by default."""
    return make_image(name, cmd=("sh",))


def make_image(
    name: str,
    *,
    entrypoint: tuple[str, ...] = (),
    cmd: tuple[str, ...] = (),
    user: str = "",
    env: tuple[str, ...] = (),
    workdir: str = "",
    size_mb: float = 0,
    files: tuple[tuple[str, bytes], ...] = (),
    labels: tuple[tuple[str, str], ...] = (),
) -> Image:
    """Return a busybox image with these settings, `files` (path, content) and `size_mb` MB that compress badly.

    Each one with a size differs from every other, so that it shares no layer with them.
    """
    layer = _busybox_layer()
    if size_mb or files:
        # A tar ends in blocks of zeros; what is added goes before them.
        buffer = io.BytesIO(layer)
        with tarfile.open(fileobj=buffer, mode="a") as archive:
            for path, content in files:
                _add(archive, path.lstrip("/"), content)
            if size_mb:
                _add(archive, "ballast", os.urandom(int(size_mb * 1_000_000)))
        layer = buffer.getvalue()
    settings = {
        "Entrypoint": list(entrypoint) or None,
        "Cmd": list(cmd) or None,
        "User": user,
        "WorkingDir": workdir,
        "Env": ["PATH=/bin:/usr/bin:/sbin:/usr/sbin", *env],
        "Labels": dict(labels) or None,
    }
    return _image(name, layer, settings)


def _image(name: str, layer: bytes, settings: dict[str, object]) -> Image:
    config = {
        "architecture": ARCHITECTURE,
        "os": "linux",
        "created": "2024-01-01T00:00:00Z",
        "config": settings,
        "rootfs": {"type": "layers", "diff_ids": [digest(layer)]},
    }
    return Image(name=name, config=json.dumps(config).encode(), layer=layer)


@functools.cache
def _busybox_layer() -> bytes:
    """Return the layer that all images of this process share."""
    path = busybox_path()
    assert path is not None, "there is no static busybox here: need('busybox') comes first"
    commands = subprocess.run([path, "--list"], capture_output=True, text=True, check=True).stdout.split()
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as archive:
        for folder, mode in (
            ("bin", 0o755),
            ("etc", 0o755),
            ("root", 0o700),
            ("tmp", 0o1777),
            ("home", 0o755),
        ):
            entry = tarfile.TarInfo(folder)
            entry.type, entry.mode = tarfile.DIRTYPE, mode
            archive.addfile(entry)
        _add(archive, "bin/busybox", path.read_bytes(), 0o755)
        for command in sorted(set(commands) - {"busybox"}):
            link = tarfile.TarInfo(f"bin/{command}")
            link.type, link.linkname, link.mode = tarfile.SYMTYPE, "busybox", 0o777
            archive.addfile(link)
        users = ("root:x:0:0::/root:/bin/sh", f"{USER}:x:{USER_ID}:{GROUP_ID}::/home:/bin/sh")
        _add(archive, "etc/passwd", ("\n".join(users) + "\n").encode())
        _add(archive, "etc/group", f"root:x:0:\n{USER}:x:{GROUP_ID}:\nextra:x:3456:{USER}\n".encode())
    return layer.getvalue()


def _add(archive: tarfile.TarFile, name: str, data: bytes, mode: int = 0o644) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(data), mode
    archive.addfile(entry, io.BytesIO(data))


def _elf(code: bytes) -> bytes:
    """Return a program for x86-64 of one read-only segment that begins with its headers."""
    place, headers = 0x400000, 64 + 56
    size = headers + len(code)
    word, long = _little(4), _little(8)
    head = b"\x7fELF\x02\x01\x01" + bytes(9) + b"\x02\x00\x3e\x00" + word(1)
    head += long(place + headers) + long(64) + long(0) + word(0) + b"\x40\x00\x38\x00\x01\x00" + bytes(6)
    segment = word(1) + word(5) + long(0) + long(place) + long(place) + long(size) + long(size) + long(0x1000)
    return head + segment + code


def _little(size: int):
    return lambda number: number.to_bytes(size, "little")
