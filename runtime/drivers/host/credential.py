"""Reads the node's own credentials for registries, where a kubelet looks for them.

```text
config.json   <root>   $HOME/.docker   /.docker        the first file that is there and whole counts
.dockercfg    <root>   $HOME           /               read when there is no such config.json
```
"""

import os
import stat
from collections.abc import Callable
from pathlib import Path

import msgspec

from api.errors import RejectedError
from api.kube import dockerconfig
from api.messages.images import Credential
from api.ports.credentials import NodeCredentials, ReadNodeCredentials
from api.ports.manifests import Problem

LIMIT_BYTES = 1 << 20
"""A file over this size is refused unread."""

Reader = Callable[[bytes], tuple[Credential, ...]]


class NodeCredentialFiles:
    """The port ``credentials``; `home` is where the agent's user lives, None when it has no such place."""

    name = "credentials"

    def __init__(self, root: Path, home: Path | None, top: Path = Path("/")) -> None:
        homes = (home,) if home is not None else ()
        config_json = (root, *(place / ".docker" for place in homes), top / ".docker")
        config = (root, *homes, top)
        self._files: tuple[tuple[Path, Reader], ...] = (
            *((place / "config.json", dockerconfig.read_config_json) for place in config_json),
            *((place / ".dockercfg", dockerconfig.read_config) for place in config),
        )

    def perform(self, call: msgspec.Struct, deadline_s: float) -> msgspec.Struct:  # noqa: ARG002  # small local files
        """Carry out a call. Files are read at each call: they may change while the agent runs."""
        if not isinstance(call, ReadNodeCredentials):
            raise RejectedError(f"port credentials: {type(call).__name__} is no call of this port")
        problems: list[Problem] = []
        for path, reader in self._files:
            try:
                content = _content(path)
                if content is None:
                    continue
                return NodeCredentials(credentials=reader(content), problems=tuple(problems))
            except OSError as error:
                problems.append(Problem(where=str(path), message=error.strerror or type(error).__name__))
            except RejectedError as error:
                problems.append(Problem(where=str(path), message=str(error)))
        return NodeCredentials(problems=tuple(problems))


def _content(path: Path) -> bytes | None:
    try:
        # Not blocking: a pipe in its place must not block the thread.
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    except (FileNotFoundError, NotADirectoryError):
        return None
    try:
        # Python's own file object would not close a folder that it refuses.
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise RejectedError("not a regular file")
        with open(fd, "rb", closefd=False) as file:  # already open
            content = file.read(LIMIT_BYTES + 1)
    finally:
        os.close(fd)
    if len(content) > LIMIT_BYTES:
        raise RejectedError(f"more than {LIMIT_BYTES} bytes")
    return content
