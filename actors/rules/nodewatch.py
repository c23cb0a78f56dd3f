"""When a subscriber asks for the node's facts, or for another level: at once, soon again while they do not come, and from time to time.

A lost message is repaired by the next one. On a restart of NodeManager a subscriber asks at once.
"""

from api import paths
from api.ids import Instant, Path
from api.lifecycle import Action, Tell
from api.messages.node import WatchNode

SOON_S, AGAIN_S = 5.0, 60.0
NEVER_ASKED = float("-inf")


def follow_node(
    me: Path, asked_at: Instant, now: Instant, *, known: bool
) -> tuple[Instant, tuple[Action, ...], Instant]:
    """Return when the subscriber `me` asked last, with the message if it asks now, and when it asks again."""
    is_due, again_at = when_to_ask(asked_at, now, known=known)
    if not is_due:
        return asked_at, (), again_at
    return now, (Tell(to=paths.NODE, message=WatchNode(asked_by=me)),), again_at


def when_to_ask(asked_at: Instant, now: Instant, *, known: bool) -> tuple[bool, Instant]:
    """Return whether to ask now for a level that was asked for last at `asked_at`, and when to ask after that."""
    pause_s = AGAIN_S if known else SOON_S
    is_due = now >= asked_at + pause_s
    return is_due, (now if is_due else asked_at) + pause_s
