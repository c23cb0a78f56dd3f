"""What all calls on the ports of the host have in common."""

import msgspec


class HostCall(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """One call on a port of the host."""

    def brief(self) -> str:
        """Return one line for traces."""
        return type(self).__name__


class Done(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """A call that has no other result was carried out."""
