"""Messages to the source actors (file, http).

Sent by: the admin socket and tests. Order: none needed. Delivery: at most once; a lost one is repaired by the periodic
reading.
"""

from api.messages import Message


class ReadNow(Message, frozen=True, kw_only=True):
    """Read the source at once instead of at the next period."""

    def conflation_key(self) -> str | None:
        """Keep one."""
        return "read"


SourceMessage = ReadNow
