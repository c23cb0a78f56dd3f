"""What of another user's the agent must not take: folders that he could swap, files that would hold it up."""

import os
import pwd
import stat
from pathlib import Path

from api.errors import DeniedError, NotFoundError, RejectedError

FILE_LIMIT_BYTES = 1 << 20
LINKS_LIMIT = 40
"""So many symbolic links are followed in one path, as the kernel does."""


def require_trusted(root: Path, name: str = "the root directory", flag: str = "--root-dir") -> None:
    """Refuse a directory of ours (`name`, set by `flag`) that another user owns, or could put another one in the place of.

    Each folder and link on the way, as far as it is there, must belong to root or to this user, and no other may make
    names in it; in a sticky folder, as /tmp, he may, but cannot replace ours. Raises DeniedError with the owner's name.
    """
    waiting = list(reversed(root.absolute().parts[1:]))
    at = Path("/")
    links = 0
    named = f"{name} {root}", flag
    _require_own(root, at, at.lstat(), named)
    while waiting:
        name = waiting.pop()
        if name == "..":
            at = at.parent
            continue
        below = at / name
        try:
            seen = below.lstat()
        except OSError:
            # What is not there, or may not be looked at, is for who makes or opens it to say.
            return
        _require_own(root, below, seen, named)
        if not stat.S_ISLNK(seen.st_mode):
            at = below
            continue
        links += 1
        if links > LINKS_LIMIT:
            return
        target = below.readlink()
        at = Path("/") if target.is_absolute() else at
        waiting += reversed([part for part in target.parts if part != "/"])


def _require_own(root: Path, path: Path, seen: os.stat_result, named: tuple[str, str]) -> None:
    name, flag = named
    what = "it" if path == root.absolute() else str(path)
    if seen.st_uid not in (0, os.geteuid()):
        raise DeniedError(
            f"cannot use {name}: {what} belongs to user {user_name(seen.st_uid)}, who could put links or"
            f" files of his own there; choose another with {flag}, or give it to user {user_name(os.geteuid())}"
        )
    if stat.S_ISLNK(seen.st_mode) or seen.st_mode & stat.S_ISVTX:
        return
    # A group of the owner's own number is his alone, where each user has one.
    others = stat.S_IWOTH if seen.st_gid == seen.st_uid else stat.S_IWOTH | stat.S_IWGRP
    if seen.st_mode & others:
        raise DeniedError(
            f"cannot use {name}: {what} (of user {user_name(seen.st_uid)}, mode"
            f" {stat.filemode(seen.st_mode)}) may be written by others, who could swap what is in it; take that right from"
            f" them, or choose another with {flag}"
        )


def user_name(uid: int) -> str:
    """Return a user's name, or the number of one whom the machine does not know."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def read_regular(path: str) -> bytes:
    """Return the bytes of a regular file of at most 1 MiB; anything else, as a pipe without a writer, is not waited for.

    Raises an `OperatingError` of one line.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
        with open(descriptor, "rb") as file:  # noqa: PTH123 a descriptor, not a path
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise RejectedError(f"{path}: it is not a regular file")
            content = file.read(FILE_LIMIT_BYTES + 1)
    except FileNotFoundError as error:
        raise NotFoundError(f"{path}: there is no such file") from error
    except PermissionError as error:
        raise DeniedError(f"{path}: user {os.geteuid()} may not read it") from error
    except IsADirectoryError as error:
        raise RejectedError(f"{path}: it is a folder") from error
    except OSError as error:
        raise RejectedError(f"{path}: {error.strerror}") from error
    if len(content) > FILE_LIMIT_BYTES:
        raise RejectedError(f"{path}: it has more than {FILE_LIMIT_BYTES >> 20} MiB")
    return content
