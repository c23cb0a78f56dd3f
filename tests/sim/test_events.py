"""Pages of events over kills of the agent at any instant: all is there but what happened in the last seconds."""

from random import Random

import msgspec
import pytest

from actors.events.core import WRITE_S
from actors.events.state import SECTION, PodEvents
from api import paths
from api.faults import FaultPlan
from api.messages.events import EventSeen
from tests.harness.world.fault import Seam
from tests.harness.world.workload import draw_wish
from tests.harness.world.world import World

SLACK_S = 3.0
"""For writes of other pages that go first, one by one."""


class Listener:
    """Notes what the keeper of events is told, and when."""

    def __init__(self, seed):
        self.told = []
        self.world = World(seed, with_url=False)
        self.world.seam = Seam(FaultPlan(), self.world.kill, self.see)

    def see(self, path, message):
        if path == paths.EVENTS and isinstance(message, EventSeen):
            self.told.append((self.world.time.now(), message))

    def counts(self, until_s):
        """Return how often each event happened until then, by pod and words."""
        found = {}
        for at, event in self.told:
            if at <= until_s:
                key = (event.uid, event.kind, event.reason, event.message, event.field_path)
                found[key] = found.get(key, 0) + event.times
        return found


def pages(world):
    """Return how often each event happened as the ledger has it."""
    found = {}
    for uid, data in world.ledger.read(SECTION).items():
        for event in msgspec.msgpack.decode(data, type=PodEvents).events:
            found[uid, event.type, event.reason, event.message, event.field_path] = event.count
    return found


@pytest.mark.parametrize("seed", range(6))
def test_a_kill_of_the_agent_loses_at_most_the_last_seconds(seed):
    random = Random(f"{seed}/events")
    listener = Listener(seed)
    world = listener.world
    for index in range(8):
        wish = draw_wish(random, f"p{index}", Random(f"{seed}/asks"))
        world.manifests.put(wish.path, wish.document())
    world.start()
    for _ in range(4):
        world.run_until(world.time.now() + random.uniform(5.0, 70.0))
        killed_at = world.time.now()
        world.kill()
        held, told = pages(world), listener.counts(killed_at - WRITE_S - SLACK_S)
        short = {key: (count, held.get(key, 0)) for key, count in told.items() if held.get(key, 0) < count}
        assert not short, f"told and not held: {short}"
        ahead = {key: count for key, count in held.items() if count > listener.counts(killed_at).get(key, 0)}
        assert not ahead, f"held and never told: {ahead}"
        # What was lost is nobody's any more: the next life counts on from what the ledger holds.
        listener.told = [(killed_at, event) for event in rest(held)]
        world.start()
    assert held


def rest(held):
    """Return the events that are held, as if they were told anew."""
    return [
        EventSeen(
            uid=uid,
            namespace="default",
            pod="",
            at=0,
            kind=kind,
            reason=reason,
            message=message,
            field_path=path,
            times=count,
        )
        for (uid, kind, reason, message, path), count in held.items()
    ]


def test_an_orderly_stop_loses_nothing_and_a_pod_that_is_gone_is_remembered_for_an_hour():
    listener = Listener(7)
    world = listener.world
    wish = draw_wish(Random("7/events"), "p0", Random("7/asks"))
    world.manifests.put(wish.path, wish.document())
    world.start()
    world.run_until(12.0)
    assert world.stop() == ()
    assert pages(world) == listener.counts(world.time.now()) != {}
    world.manifests.remove(wish.path)
    world.start()
    world.run_until(world.time.now() + 300.0)
    assert world.system.committed_children("/node/pods") == ()
    kept = {uid for uid, *_ in pages(world)}
    assert len(kept) == 1
    world.run_until(world.time.now() + 3700.0)
    assert pages(world) == {}
