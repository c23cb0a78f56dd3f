"""The node's credentials for registries, in memory: none, unless some are put there."""

import msgspec

from api.errors import RejectedError
from api.ports.credentials import NodeCredentials, ReadNodeCredentials


class MemoryCredentials:
    """The port ``credentials``."""

    name = "credentials"

    def __init__(self) -> None:
        self.now = NodeCredentials()
        """What the next call finds."""

    def perform(self, call: msgspec.Struct, deadline_s: float) -> msgspec.Struct:  # noqa: ARG002  # at once
        """Carry out a call."""
        if not isinstance(call, ReadNodeCredentials):
            raise RejectedError(f"port credentials: {type(call).__name__} is no call of this port")
        return self.now
