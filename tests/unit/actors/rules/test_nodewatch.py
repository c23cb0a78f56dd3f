"""Who follows the node asks soon again while nothing comes, and once a minute after that."""

from actors.rules.nodewatch import AGAIN_S, NEVER_ASKED, SOON_S, follow_node
from api import paths
from api.lifecycle import Tell
from api.messages.node import WatchNode

ASKING = (Tell(to=paths.NODE, message=WatchNode(asked_by=paths.USAGE)),)


def test_it_asks_at_once_and_then_soon_or_seldom():
    assert follow_node(paths.USAGE, NEVER_ASKED, 7.0, known=False) == (7.0, ASKING, 7.0 + SOON_S)
    assert follow_node(paths.USAGE, 7.0, 11.9, known=False) == (7.0, (), 7.0 + SOON_S)
    assert follow_node(paths.USAGE, 7.0, 12.0, known=False) == (12.0, ASKING, 12.0 + SOON_S)
    assert follow_node(paths.USAGE, 7.0, 12.0, known=True) == (7.0, (), 7.0 + AGAIN_S)
    assert follow_node(paths.USAGE, 7.0, 67.0, known=True) == (67.0, ASKING, 67.0 + AGAIN_S)
