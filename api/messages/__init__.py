"""The messages, one file per receiving actor; this module holds what all of them are."""

import msgspec


class Message(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """An immutable piece of data that one actor sends to another.

    Data only: no callback, future, handle or lock, so that each message can be compared, printed, recorded and
    replayed.
    """

    def brief(self) -> str:
        """Return one line for traces; never an environment value or a secret."""
        return type(self).__name__

    def conflation_key(self) -> str | None:
        """Return the key under which only the newest undelivered message is kept, or None to keep each."""
        return None
