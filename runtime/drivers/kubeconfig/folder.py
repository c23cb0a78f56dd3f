"""The folder of client certificates, as a kubelet keeps it (``/var/lib/kubelet/pki``), so that either takes over the other's.

```text
kubelet-client-2006-01-02-15-04-05.pem   certificate chain, then key; old ones stay
kubelet-client-current.pem               symbolic link to the one in use, replaced as a whole through kubelet-client-updated.pem
kubelet-client.key.tmp                   the key of a bootstrap that has no certificate yet
```

Files have mode 0600, are on the disk before they are named, and no link in the folder is followed to write one.
"""

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

from api.errors import ConflictError, DeniedError, ExhaustedError, OperatingError, UnavailableError
from runtime.trust import FILE_LIMIT_BYTES, require_trusted

PREFIX = "kubelet-client"
CURRENT, UPDATED, PENDING = f"{PREFIX}-current.pem", f"{PREFIX}-updated.pem", f"{PREFIX}.key.tmp"
UNNAMED = f".{PREFIX}.new"
"""What is being written, until it gets its name: one for all, so that a crash leaves one at most, which the next write removes."""
FOLDER_MODE, FILE_MODE = 0o700, 0o600
FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
REFUSED = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_WRITE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class CertificateFolder:
    """One folder; made at the first use. All methods raise an `OperatingError` that names the file and what to do."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.current = f"{path}/{CURRENT}"

    def has_pending_key(self) -> bool:
        """Return whether a bootstrap left its key; the folder need not be there."""
        return os.path.lexists(f"{self.path}/{PENDING}")

    def pending_key(self) -> bytes:
        """Return the key of a bootstrap that was interrupted, empty when there is none."""
        with self._opened() as folder:
            try:
                descriptor = os.open(PENDING, _READ, dir_fd=folder)
            except FileNotFoundError:
                return b""
            with os.fdopen(descriptor, "rb") as file:
                seen = os.fstat(descriptor)
                if not stat.S_ISREG(seen.st_mode) or seen.st_uid not in (0, os.geteuid()):
                    raise DeniedError(f"{self.path}/{PENDING}: it is no regular file of this user; remove it")
                return file.read(FILE_LIMIT_BYTES)

    def keep_pending_key(self, key: bytes) -> None:
        """Write the key of a bootstrap, so that a restart asks for the same certificate."""
        with self._opened() as folder:
            write_file(folder, PENDING, key, UNNAMED)

    def drop_pending_key(self) -> None:
        """Remove the key of a bootstrap, if there is one."""
        with self._opened() as folder, contextlib.suppress(FileNotFoundError):
            os.unlink(PENDING, dir_fd=folder)

    def check(self) -> None:
        """Refuse a folder that others can write, and one in which the link is a file: that may be somebody's only key."""
        require_trusted(Path(self.path), "the folder of certificates", "--cert-dir")
        with self._opened() as folder, contextlib.suppress(FileNotFoundError):
            if not stat.S_ISLNK(os.stat(CURRENT, dir_fd=folder, follow_symlinks=False).st_mode):
                raise ConflictError(
                    f"{self.current}: it is no symbolic link, as it must be; move it away, or choose another --cert-dir"
                )

    def store(self, certificate: bytes, key: bytes, at: datetime) -> None:
        """Write a certificate chain with its key, and have the link lead to it."""
        self.check()
        name = f"{PREFIX}-{at:%Y-%m-%d-%H-%M-%S}.pem"
        with self._opened() as folder:
            write_file(folder, name, certificate.rstrip() + b"\n" + key, UNNAMED)
            with contextlib.suppress(FileNotFoundError):
                os.unlink(UPDATED, dir_fd=folder)
            os.symlink(f"{self.path}/{name}", UPDATED, dir_fd=folder)
            os.replace(UPDATED, CURRENT, src_dir_fd=folder, dst_dir_fd=folder)
            os.fsync(folder)

    @contextlib.contextmanager
    def _opened(self) -> Iterator[int]:
        with opened(self.path, FOLDER_MODE) as folder:
            yield folder


@contextlib.contextmanager
def opened(path: str, mode: int) -> Iterator[int]:
    """Give the descriptor of a folder, which is made if need be; errors within come out as an `OperatingError` with its path."""
    try:
        Path(path).mkdir(mode, parents=True, exist_ok=True)
        folder = os.open(path, _FOLDER)
        try:
            yield folder
        finally:
            os.close(folder)
    except OSError as error:
        raise _translated(error, path) from error


def _translated(error: OSError, path: str) -> OperatingError:
    why = f"{path}: {error.strerror or type(error).__name__}"
    if error.errno in FULL:
        return ExhaustedError(f"{why}; free space on that file system")
    if error.errno in REFUSED:
        return DeniedError(
            f"{why}; give user {os.geteuid()} the right to write there, or choose another --cert-dir"
        )
    return UnavailableError(f"{why}; see what is there")


def write_file(folder: int, name: str, content: bytes, new: str) -> None:
    """Write a file of a folder as a whole, durably, in the place of one of its name; it is called `new` until then. Raises OSError."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(new, dir_fd=folder)
    with os.fdopen(os.open(new, _WRITE, FILE_MODE, dir_fd=folder), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(new, name, src_dir_fd=folder, dst_dir_fd=folder)
    os.fsync(folder)
