"""Errors of the operating system in our few kinds."""

import errno

from api.errors import (
    ConflictError,
    DeniedError,
    ExhaustedError,
    OperatingError,
    UnavailableError,
)

FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EMFILE, errno.ENFILE})
DENIED = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})
IN_THE_WAY = frozenset({errno.EBUSY, errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR, errno.EISDIR, errno.ELOOP})


def translate(error: OSError, what: str) -> OperatingError:
    """Return `error`, raised by `what` (with its path), as an operating error with a remedy."""
    why = f"{what}: {error.strerror or error}"
    if error.errno in FULL:
        if error.errno in (errno.EMFILE, errno.ENFILE):
            return ExhaustedError(f"{why}; raise the limit on open files")
        return ExhaustedError(f"{why}; free space on that file system, the agent tries again")
    if error.errno in DENIED:
        return DeniedError(f"{why}; give the agent's user the right to it, or choose another folder")
    if error.errno in IN_THE_WAY:
        return ConflictError(f"{why}; see what is there")
    return UnavailableError(why)
