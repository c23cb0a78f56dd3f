"""What all calls on the port ``runtime`` have in common."""

import msgspec


class Call(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """One call on the container runtime's port."""

    def brief(self) -> str:
        """Return one line for traces."""
        return type(self).__name__
