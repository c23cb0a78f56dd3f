"""Messages to UsageManager, which reads what the node and its pods use, and to its subscribers.

Sent by: subscribers (`WatchUsage`, `UnwatchUsage`, `ReadUsageNow`), UsageManager itself (`UsageRead`), NodeManager (`NodeChanged`). Delivery: a
subscriber that receives nothing for some rounds subscribes again; it also does when UsageManager has a new incarnation. `UsageRead`
is a level: the newest is enough.
"""

from api.ids import Path
from api.messages import Message
from api.messages.node import NodeChanged
from api.usage import Usage


class WatchUsage(Message, frozen=True, kw_only=True):
    """From now on send `asked_by` each round, and at once the last one if there is one."""

    asked_by: Path

    def brief(self) -> str:
        """Return one line for traces."""
        return f"WatchUsage {self.asked_by}"


class UnwatchUsage(Message, frozen=True, kw_only=True):
    """Send `asked_by` nothing more."""

    asked_by: Path

    def brief(self) -> str:
        """Return one line for traces."""
        return f"UnwatchUsage {self.asked_by}"


class ReadUsageNow(Message, frozen=True, kw_only=True):
    """Begin a round at once, which is sent to all subscribers."""

    asked_by: Path
    everything: bool = True
    """Read what is not due yet too: folders, and what the runtime counts."""

    def brief(self) -> str:
        """Return one line for traces."""
        return f"ReadUsageNow {self.asked_by} {'everything' if self.everything else 'what is due'}"

    def conflation_key(self) -> str | None:
        """Keep one of each kind."""
        return f"read-now:{self.everything}"


class UsageRead(Message, frozen=True, kw_only=True):
    """To a subscriber: a round is over. Rows that could not be read again are as old as they say."""

    usage: Usage

    def brief(self) -> str:
        """Return one line for traces."""
        return f"UsageRead {self.usage.brief()}"

    def conflation_key(self) -> str | None:
        """Keep the newest."""
        return "usage"


UsageMessage = WatchUsage | UnwatchUsage | ReadUsageNow | UsageRead | NodeChanged
