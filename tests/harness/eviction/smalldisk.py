"""A small ext4 file system of its own in a file, mounted by loop: what fills up is not the machine."""

import contextlib
import subprocess
from pathlib import Path
from typing import Self

import pytest


class SmallDisk:
    """Mounted at `folder`/mount as long as the context lasts. Skips the test where a mount is not permitted."""

    def __init__(self, folder: Path, size_mb: int) -> None:
        self.path, self._file = folder / "mount", folder / "disk.img"
        self._size_mb = size_mb

    def __enter__(self) -> Self:
        self.path.mkdir(parents=True)
        with self._file.open("wb") as file:
            file.truncate(self._size_mb * 1_000_000)
        # No blocks are set aside for root, so that what is free to us is free to all.
        self._run("mkfs.ext4", "-q", "-F", "-m", "0", str(self._file))
        self._run("mount", "-o", "loop", str(self._file), str(self.path))
        return self

    def __exit__(self, *_error: object) -> None:
        subprocess.run(["umount", str(self.path)], check=True, capture_output=True)
        assert not self.path.is_mount()
        self._file.unlink()

    def _run(self, *words: str) -> None:
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        if done.returncode:
            with contextlib.suppress(FileNotFoundError):
                self._file.unlink()
            pytest.skip(
                f"a small file system needs root and loop devices: {' '.join(words)}: {done.stderr.strip()}"
            )
