"""More pods than a node has room for, at once: they come, those for whom there is no room are refused, and all of them go."""

from collections import Counter

import pytest

from api.ids import Path
from api.messages.supervisor import PodLife
from tests.harness.world.workload import Wish
from tests.harness.world.world import World

SUPERVISOR = Path("/node/pods")
ROOM = 110
"""As many pods as the node may have."""


class Crowd:
    """A world with many manifests."""

    def __init__(self, count):
        self.world = World(1, with_url=False)
        self.wishes = [
            Wish(
                name=f"p{n:04}",
                policy="Always",
                grace_s=5,
                scripts=(("run",),),
                images=("memory.local/any:1",),
            )
            for n in range(count)
        ]
        for wish in self.wishes:
            self.world.manifests.put(wish.path, wish.document())

    def lives(self):
        """Return how many pods have an entry, by how far they are."""
        state = self.world.system.committed(SUPERVISOR)
        return (
            Counter(entry.reported.life for entry in state.entries.values())
            if state is not None
            else Counter()
        )

    def deliveries(self):
        """Return how many messages were handled so far in this life of the agent."""
        return self.world.system.summarize_actors().handled

    def lost(self):
        """Return which messages found a mailbox full."""
        return [row.message for row in self.world.system.dead_letters() if row.reason == "full"]

    def wait(self, seconds, right):
        """Let the world go on until `right` holds, for at most so many seconds; return how long it took."""
        began = self.world.time.now()
        while not right() and self.world.time.now() < began + seconds:
            self.world.run_until(self.world.time.now() + 1.0)
        assert right(), f"after {seconds} s: {self.lives()}"
        return self.world.time.now() - began

    def has_come(self):
        return self.world.time.now() > 1.0 and self.lives() == {
            PodLife.SYNCING: ROOM,
            PodLife.FINISHED: len(self.wishes) - ROOM,
        }

    def has_gone(self):
        return not self.lives() and self.world.system.committed(SUPERVISOR) is not None


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "count", [300, pytest.param(1000, marks=pytest.mark.slow), pytest.param(5000, marks=pytest.mark.slow)]
)
def test_a_crowd_comes_and_goes_within_a_minute(count):
    crowd = Crowd(count)
    crowd.world.start()
    crowd.wait(30.0, crowd.has_come)
    assert crowd.deliveries() <= 30 * count
    before = crowd.deliveries()
    for wish in crowd.wishes:
        crowd.world.manifests.remove(wish.path)
    crowd.wait(30.0, crowd.has_gone)
    assert crowd.deliveries() - before <= 30 * count
    assert crowd.lost() == []
    # Nothing goes on turning once the pages of events are written: what is left is the agent's own housekeeping.
    crowd.world.run_until(crowd.world.time.now() + max(125.0, count / 8))
    before = crowd.deliveries()
    crowd.world.run_until(crowd.world.time.now() + 60.0)
    assert crowd.deliveries() - before <= 200
    assert crowd.world.runtime.running() == ()
    assert crowd.world.ledger.read("pods") == {}


@pytest.mark.timeout(300)
def test_an_agent_that_is_killed_while_a_crowd_goes_ends_it_afterwards():
    crowd = Crowd(400)
    crowd.world.start()
    crowd.wait(30.0, crowd.has_come)
    for wish in crowd.wishes:
        crowd.world.manifests.remove(wish.path)
    crowd.world.run_until(crowd.world.time.now() + 0.3)
    assert not crowd.has_gone()
    crowd.world.kill()
    crowd.world.start()
    crowd.world.run_until(crowd.world.time.now() + 5.0)
    crowd.wait(60.0, crowd.has_gone)
    assert crowd.lost() == []
    assert crowd.world.runtime.running() == ()
