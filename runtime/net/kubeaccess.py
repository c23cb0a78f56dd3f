"""How an API server is reached and who we are there: what a kubeconfig comes to."""

import os

import msgspec

FileMark = tuple[int, ...]
"""Device, inode, size, and times of the last change of content and of inode in nanoseconds; empty while there is no such file."""


class AccessFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file that an access was read from."""

    path: str
    mark: FileMark
    """As it was before the file was read: another one now means that it must be read again."""


class Access(msgspec.Struct, frozen=True, kw_only=True):
    """One API server and one identity. Certificates and keys are PEM; its repr shows no secret."""

    server: str
    """``https://host[:port][/prefix]``, without a slash at its end."""
    ca: bytes = b""
    """Empty: the authorities that the machine trusts."""
    cert: bytes = b""
    key: bytes = b""
    token: str = ""
    server_name: str = ""
    """The name that the server's certificate must have; empty for that of the URL."""
    insecure: bool = False
    """Do not verify the server's certificate."""
    expires_at: float | None = None
    """Seconds of wall clock from which on it must be found out again; None for never."""
    ca_file: str = ""
    """The file with `ca`; empty where the kubeconfig holds it."""
    cert_file: str = ""
    """The file with `cert`, which may be the kubeconfig itself; empty without one, and for one of an exec plugin."""
    files: tuple[AccessFile, ...] = ()
    """The kubeconfig and what it names: absolute paths, links not resolved."""

    def __repr__(self) -> str:
        has = [word for word in ("ca", "cert", "key", "token", "insecure") if getattr(self, word)]
        return f"Access({self.server}, {' '.join(has) or 'no identity'}, expires_at={self.expires_at})"


def file_mark(path: str) -> FileMark:
    """Return what changes with a file's content, by one stat call: written in place, renamed over, or a link that is swapped."""
    try:
        seen = os.stat(path)  # noqa: PTH116  # a mark is made of what no Path method returns at once
    except (OSError, ValueError):
        return ()
    return seen.st_dev, seen.st_ino, seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns
