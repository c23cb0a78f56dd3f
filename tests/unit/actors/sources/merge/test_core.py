"""The merge of all sources, towards subscribers that lose messages, restart, and come late."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from msgspec.structs import replace

from actors.sources.merge.core import NUMBERS_PER_INCARNATION, begin, decide, rows
from api.ids import Path
from api.kube.objects.meta import ObjectMeta
from api.kube.objects.pod import Container, Pod, PodSpec, PodStatus
from api.messages.kernel import ChildDied, Restarted
from api.messages.podconfig import PodsSeen, SnapshotWanted
from api.messages.supervisor import PodOp, PodsChanged, PodsSnapshot

WALL = 1_700_000_000_000_000_000
NODE = Path("/node/pods")


def pod(name, uid=None, image="a", phase="", deleted=""):
    return Pod(
        metadata=ObjectMeta(
            name=name, namespace="default", uid=uid or f"uid-{name}", deletion_timestamp=deleted or None
        ),
        spec=PodSpec(containers=(Container(name="c", image=image),)),
        status=PodStatus(phase=phase),
    )


OTHER = Path("/node/other")


def started(incarnation=0, subscribers=(NODE,)):
    return begin(subscribers, incarnation)


def run(state, *messages):
    told = []
    for message in messages:
        decision = decide(state, message, WALL)
        state = decision.state
        told += [a.message for a in decision.actions]
    return state, told


def test_a_subscriber_begins_with_a_snapshot_in_which_no_source_was_seen():
    (action,) = started().actions
    assert action.to == NODE
    assert action.message == PodsSnapshot(number=1, seen=(), pods=())


def test_numbers_have_no_gaps_and_are_counted_for_each_subscriber():
    decision = started(subscribers=(NODE, OTHER))
    state, _ = run(decision.state, SnapshotWanted(asked_by=OTHER))
    decision = decide(state, PodsSeen(source="http"), WALL)
    assert [(a.to, a.message.number) for a in decision.actions] == [(OTHER, 3), (NODE, 2)]


def test_an_empty_first_list_is_told_once():
    _, told = run(started().state, PodsSeen(source="file"), PodsSeen(source="file"))
    assert told == [PodsChanged(number=2, source="file", op=PodOp.ADD)]


def test_a_checkpoint_is_no_list_of_the_source_itself():
    state, told = run(started().state, PodsSeen(source="api", pods=(pod("a"),), restored=True))
    assert [m.op for m in told] == [PodOp.RESTORE]
    state, (snapshot,) = run(state, SnapshotWanted(asked_by=NODE))
    assert (snapshot.seen, len(snapshot.pods)) == ((), 1)
    state, (whole,) = run(state, PodsSeen(source="api", pods=(pod("b"),)))
    # In two changes the source would count as seen before it is known that it wants b: what runs of b would be stopped.
    assert (whole.seen, [one.pod.metadata.name for one in whole.pods]) == (("api",), ["b"])
    _, told = run(state, PodsSeen(source="api", pods=(pod("a"),), restored=True))
    assert told == []


def test_a_restarted_subscriber_is_told_everything():
    state, _ = run(started().state, PodsSeen(source="file", pods=(pod("a"),)))
    _, told = run(state, Restarted(path=NODE, incarnation=1, cause="x"))
    assert [(m.number, len(m.pods)) for m in told] == [(3, 1)]
    assert run(state, Restarted(path=Path("/stranger"), incarnation=1, cause="x"))[1] == []


def test_a_dead_subscriber_is_told_on_since_it_may_not_have_started_yet():
    state, _ = run(started().state, ChildDied(path=NODE, cause="x"))
    decision = decide(state, PodsSeen(source="file"), WALL)
    assert [a.to for a in decision.actions] == [NODE]


def test_a_stranger_that_asks_for_a_snapshot_gets_nothing():
    state, told = run(started().state, SnapshotWanted(asked_by=OTHER))
    assert told == []
    assert [s.path for s in state.subscribers] == [NODE]


def test_a_list_of_several_changes_is_numbered_without_gaps():
    state, _ = run(started().state, PodsSeen(source="file", pods=(pod("a"), pod("b"))))
    _, told = run(state, PodsSeen(source="file", pods=(pod("b", image="x"), pod("c"))))
    assert [(m.number, m.op) for m in told] == [(3, PodOp.REMOVE), (4, PodOp.ADD), (5, PodOp.UPDATE)]


def test_a_new_incarnation_numbers_in_a_range_of_its_own_and_tells_first_lists_whole():
    decision = started(incarnation=2)
    assert decision.actions[0].message.number - started(incarnation=1).actions[0].message.number > 1_000_000
    assert decision.actions[0].message.number == 2 * NUMBERS_PER_INCARNATION + 1
    _, told = run(decision.state, PodsSeen(source="file", pods=(pod("a"),)), PodsSeen(source="file"))
    assert [type(m) for m in told] == [PodsSnapshot, PodsChanged]
    assert told[0].seen == ("file",)


def test_names_that_two_sources_want_are_flagged_on_both():
    state, _ = run(
        started().state,
        PodsSeen(source="file", pods=(pod("a", uid="1"), pod("a", uid="3"))),
        PodsSeen(source="http", pods=(pod("a", uid="2"), pod("b"))),
    )
    assert [(r.source, r.status, r.pod) for r in rows(state)] == [
        ("file", "duplicate", "a_default(3)"),
        ("file", "duplicate", "a_default(1)"),
        ("http", "duplicate", "a_default(2)"),
    ]


class Subscriber:
    """What a supervisor must do: apply numbered changes, ask on a gap, believe only what was seen."""

    def __init__(self):
        self.number = None
        self.pods = {}
        self.lost = False

    def hear(self, message):
        if isinstance(message, PodsSnapshot):
            unseen = {key: p for key, p in self.pods.items() if key[0] not in message.seen}
            self.pods = unseen | {(s.source, s.pod.metadata.uid): s.pod for s in message.pods}
            self.lost = False
        elif self.lost or self.number is None or message.number != self.number + 1:
            self.lost = True
            return
        else:
            for one in message.pods:
                key = (message.source, one.metadata.uid)
                if message.op is PodOp.REMOVE:
                    self.pods.pop(key, None)
                else:
                    self.pods[key] = one
        self.number = message.number


LISTS = st.lists(
    st.builds(
        pod,
        name=st.sampled_from("abc"),
        uid=st.sampled_from(["1", "2", "3", "4"]),
        image=st.sampled_from("xy"),
        phase=st.sampled_from(["", "Running"]),
        deleted=st.sampled_from(["", "2024-01-01T00:00:00Z"]),
    ),
    max_size=4,
).map(tuple)
SOURCES = st.sampled_from(["api", "file", "http"])


class Merge(RuleBasedStateMachine):
    """Sources list, messages get lost, actors restart: a subscriber that asks has what the sources want."""

    @initialize()
    def start(self):
        self.incarnation = 0
        self.lists = {}
        self.dropped = False
        self.subscriber = Subscriber()
        decision = started()
        self.state = decision.state
        self.deliver(decision.actions, ())

    def deliver(self, actions, losses):
        for index, action in enumerate(actions):
            if index in losses:
                self.dropped = True
                continue
            self.subscriber.hear(action.message)
            self.dropped &= not isinstance(action.message, PodsSnapshot)
        assert self.dropped or not self.subscriber.lost, "a gap in the numbers though nothing was lost"

    def message(self, message, losses=()):
        decision = decide(self.state, message, WALL)
        self.state = decision.state
        self.deliver(decision.actions, losses)

    @rule(source=SOURCES, pods=LISTS, losses=st.sets(st.integers(0, 4)), restored=st.booleans())
    def source_lists(self, source, pods, losses, restored):
        if not restored:
            self.lists[source] = pods
        self.message(PodsSeen(source=source, pods=pods, restored=restored), losses)

    @rule(losses=st.sets(st.integers(0, 1)))
    def merge_restarts(self, losses):
        self.incarnation += 1
        decision = started(self.incarnation)
        self.state = decision.state
        self.deliver(decision.actions, losses)

    @rule()
    def sources_send_again(self):
        for source, pods in sorted(self.lists.items()):
            self.message(PodsSeen(source=source, pods=pods))

    @rule()
    def subscriber_restarts(self):
        self.subscriber = Subscriber()
        self.message(Restarted(path=NODE, incarnation=1, cause="x"))

    @rule()
    def subscriber_asks(self):
        self.message(SnapshotWanted(asked_by=NODE))
        assert not self.subscriber.lost
        held = {(s.source, one.metadata.uid): one for s in self.state.sources for one in s.pods if s.seen}
        seen = {s.source for s in self.state.sources if s.seen}
        assert {key: p for key, p in self.subscriber.pods.items() if key[0] in seen} == held

    @invariant()
    def what_is_held_is_what_was_listed_last(self):
        for source in self.state.sources if hasattr(self, "state") else ():
            if not source.seen:
                continue
            names, uids, wanted = set(), set(), {}
            for one in self.lists[source.source]:
                if one.metadata.name in names or (one.metadata.uid in uids):
                    continue
                names.add(one.metadata.name)
                uids.add(one.metadata.uid)
                wanted[one.metadata.uid] = one
            assert {p.metadata.uid: (p.spec, p.status) for p in source.pods} == {
                uid: (p.spec, p.status) for uid, p in wanted.items()
            }

    @invariant()
    def a_subscriber_that_missed_nothing_holds_the_same(self):
        if not hasattr(self, "state") or self.subscriber.lost or self.subscriber.number is None:
            return
        told = self.state.subscribers[0].number
        if self.subscriber.number != told:
            return
        for source in self.state.sources:
            if source.seen:
                mine = {k[1]: p for k, p in self.subscriber.pods.items() if k[0] == source.source}
                assert mine == {p.metadata.uid: p for p in source.pods}


TestMerge = Merge.TestCase
TestMerge.settings = settings(max_examples=60, stateful_step_count=20)


def test_an_unmerged_field_is_not_lost_on_the_way():
    full = replace(pod("a"), spec=PodSpec(containers=(Container(name="c", image="i"),), node_name="n"))
    _, told = run(started().state, PodsSeen(source="file", pods=(full,)))
    assert told[0].pods[0].spec == full.spec
