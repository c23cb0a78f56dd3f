"""Empties a folder with foreign content: by descriptor, never through a symbolic link, never into a mount.

However deep it is, only some levels are open at a time: what is deeper is moved up to the top, for the next round.
"""

import errno
import os
import stat
from pathlib import Path

from api.errors import ConflictError
from runtime.drivers.host.volumes.mount import mount_id

LEVELS = 64
"""Folders that are open at the same time at most."""
ROUNDS = 10_000
"""Of that many levels each: a deeper tree is one that a process keeps creating."""
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_PATH = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_OWNERS = 0o700
_TAKEN = (errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR)


def empty_tree(folder: Path) -> None:
    """Remove everything in a folder that no mount is below. Raises `ConflictError` at one, `OSError` for what stays."""
    top = os.open(folder, _FOLDER)
    try:
        _Emptying(top, str(folder)).run()
    finally:
        os.close(top)


class _Emptying:
    def __init__(self, top: int, path: str) -> None:
        self._top, self._path, self._mount = top, path, mount_id(top)
        self._moved = 0

    def run(self) -> None:
        # What was moved up is found in the next round.
        for _ in range(ROUNDS):
            if not os.listdir(self._top):  # noqa: PTH208  # pathlib has no folders by descriptor
                return
            self._empty(self._top, self._path, LEVELS)
        raise ConflictError(f"{self._path} does not become empty; see what writes into it")

    def _empty(self, fd: int, path: str, levels: int) -> None:
        for name in os.listdir(fd):
            try:
                status = os.stat(name, dir_fd=fd, follow_symlinks=False)
            except FileNotFoundError:
                continue
            if stat.S_ISDIR(status.st_mode):
                self._remove_folder(fd, name, f"{path}/{name}", status, levels)
            else:
                os.unlink(name, dir_fd=fd)

    def _remove_folder(self, parent: int, name: str, path: str, status: os.stat_result, levels: int) -> None:
        held = os.open(name, _PATH, dir_fd=parent)
        try:
            if mount_id(held) != self._mount:
                raise ConflictError(f"{path} is a mount; nothing is deleted through it")
            if status.st_mode & _OWNERS != _OWNERS:
                # Its owner closed it to himself; only he and root can open it again.
                os.chmod(f"/proc/self/fd/{held}", _OWNERS)  # noqa: PTH101
            if levels == 0:
                self._move_up(parent, name)
                return
            fd = os.open(".", _FOLDER, dir_fd=held)
        finally:
            os.close(held)
        try:
            self._empty(fd, path, levels - 1)
        finally:
            os.close(fd)
        os.rmdir(name, dir_fd=parent)

    def _move_up(self, fd: int, name: str) -> None:
        while True:
            self._moved += 1
            try:
                os.rename(name, f"deep-{self._moved}", src_dir_fd=fd, dst_dir_fd=self._top)
            except OSError as error:
                if error.errno not in _TAKEN:
                    raise
            else:
                return
