"""The API source: what it sends to whom, what it restores, and what it remembers."""

import itertools

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from msgspec.structs import replace

from actors.sources.api.checkpoint import GATHER_S, WRITES_AT_ONCE, encoded_entry, last_writes, of_api
from actors.sources.api.core import REPEAT_S, begin, decide
from actors.sources.api.state import SECTION, entry_key, rows
from api import paths
from api.errors import Failure, FailureKind
from api.ids import Path
from api.kube.objects.meta import ManagedFieldsEntry, ObjectMeta
from api.kube.objects.pod import Pod, PodSpec
from api.kube.objects.podstatus import ContainerStatus, PodCondition, PodStatus
from api.kube.objects.strmap import StrMap
from api.lifecycle import Listen, Start, Tell
from api.messages.apistatus import ApiPodsSeen
from api.messages.events import LedgerDamaged
from api.messages.kernel import Alarm, Heard, Outcome, Restarted, StreamEnded
from api.messages.podconfig import PodsSeen
from api.ports.call import Done
from api.ports.kube import PODS, ApiPodsListed, WatchChecked
from api.ports.ledger import Forget, RecallAll, RecalledAll, Remember

CONFIG, WRITER, MIRRORS = Path("/node/config"), Path("/node/apistatus"), Path("/node/mirrors")
DOWN = Failure(kind=FailureKind.UNAVAILABLE, message="https://api:6443 refuses connections")
SOURCE = "kubernetes.io/config.source"


def pod(name, *, version="1", status=None, **annotations):
    meta = ObjectMeta(
        name=name,
        namespace="d",
        uid=f"uid-{name}",
        resource_version=version,
        annotations=StrMap(
            {key.replace("__", "/").replace("_", "."): text for key, text in annotations.items()}
        ),
        managed_fields=(ManagedFieldsEntry(manager="kubectl"),),
    )
    return Pod(metadata=meta, status=status or PodStatus(phase="Pending"))


def mirror(name):
    return pod(name, kubernetes_io__config_mirror="h1")


class World:
    """The core, a ledger and a clock."""

    def __init__(self, held=None, in_flight=()):
        self.now, self.ops, self.disk = 0.0, itertools.count(1), dict(held or {})
        self.open, self.told, self.listens = {}, [], 0
        followers = (WRITER, MIRRORS)
        self.take(begin("https://api:6443", CONFIG, followers, self.now, lambda: next(self.ops), in_flight))

    def take(self, decision):
        self.state, self.wake_at = decision.state, decision.wake_at
        for action in decision.actions:
            match action:
                case Start(op=op, call=call):
                    self.open[op] = call
                case Tell(to=to, message=message):
                    self.told.append((to, message))
                case Listen(stream=stream):
                    assert stream == PODS
                    self.listens += 1

    def give(self, message):
        self.take(decide(self.state, message, self.now, lambda: next(self.ops)))

    def list(self, *pods):
        self.give(Heard(stream=PODS, item=ApiPodsListed(pods=pods)))

    def end(self, op, kind=None, damaged=()):
        call, result = self.open.pop(op), Done()
        match call:
            case RecallAll(section=section):
                assert section == SECTION
                result = RecalledAll(entries=tuple(sorted(self.disk.items())), damaged=damaged)
            case Remember(key=key, data=data) if kind is None:
                assert call.durable
                self.disk[key] = data
            case Forget(key=key) if kind is None:
                assert call.durable
                self.disk.pop(key, None)
        failure = Failure(kind=kind, message="no space left on the disk") if kind else None
        self.give(
            Outcome(
                op=op,
                call=type(call).__name__,
                result=None if kind else result,
                failure=failure,
                started_at=self.now,
                ended_at=self.now,
            )
        )

    def settle(self):
        while self.open:
            self.end(next(iter(self.open)))

    def later(self, seconds):
        self.now += seconds
        self.give(Alarm(at=self.now))

    def take_told(self, kind):
        found = [(to, message) for to, message in self.told if isinstance(message, kind)]
        self.told = [one for one in self.told if one not in found]
        return found


def names(message):
    return [one.metadata.name for one in message.pods]


def held(*pods):
    return {entry_key(one.metadata.uid): encoded_entry(of_api(one)) for one in pods}


def test_pods_go_to_the_merge_and_mirrors_only_to_those_who_report():
    world = World()
    world.list(pod("a", kubernetes_io__config_source="file"), mirror("m"))
    [(to, seen)] = world.take_told(PodsSeen)
    assert (to, seen.source, seen.restored, names(seen)) == (CONFIG, "api", False, ["a"])
    assert seen.pods[0].metadata.annotations[SOURCE] == "api", (
        "what the pod says of its source does not count"
    )
    assert seen.pods[0].metadata.managed_fields == ()
    both = world.take_told(ApiPodsSeen)
    assert [to for to, _ in both] == [WRITER, MIRRORS]
    assert [names(both[0][1]), [one.metadata.name for one in both[0][1].mirrors]] == [["a"], ["m"]]
    assert SOURCE not in both[0][1].mirrors[0].metadata.annotations


def test_a_pod_that_did_not_change_stays_the_same_object():
    world, one = World(), pod("a")
    world.list(one, pod("b"))
    world.list(one, pod("b", version="2"))
    (_, first), (_, second) = world.take_told(PodsSeen)
    assert first.pods[0] is second.pods[0]
    assert first.pods[1] is not second.pods[1]


@pytest.mark.parametrize("uid", ["", "../../etc", "x" * 300, "a b"])
def test_a_pod_whose_uid_cannot_be_a_folder_is_left_out_and_shown(uid):
    world = World()
    bad = replace(pod("bad"), metadata=replace(pod("bad").metadata, uid=uid))
    world.list(bad, pod("a"))
    assert names(world.take_told(PodsSeen)[0][1]) == ["a"]
    assert [(row.where, row.status) for row in rows(world.state)][-1] == ("d/bad", "ignored")


def test_nothing_is_sent_before_the_first_list_and_an_empty_list_is_one():
    world = World()
    world.settle()
    world.give(Restarted(path=CONFIG, incarnation=1, cause="x"))
    world.give(Heard(stream=PODS, item=WatchChecked(failure=DOWN)))
    assert world.told == []
    assert [(row.status, row.problems) for row in rows(world.state)] == [
        ("unreachable", (DOWN.message, "has not listed its pods yet"))
    ]
    world.give(Heard(stream=PODS, item=WatchChecked()))
    world.list()
    assert [message for _, message in world.told] == [PodsSeen(source="api"), ApiPodsSeen(), ApiPodsSeen()]


def test_each_receiver_that_restarts_gets_the_level_again_and_all_get_it_once_a_minute():
    world = World()
    world.list(pod("a"))
    world.told.clear()
    for path, kind in ((CONFIG, PodsSeen), (WRITER, ApiPodsSeen), (MIRRORS, ApiPodsSeen)):
        world.give(Restarted(path=path, incarnation=1, cause="x"))
        [(to, message)] = world.told
        assert (to, type(message), names(message)) == (path, kind, ["a"])
        world.told.clear()
    world.give(Restarted(path=paths.PODS, incarnation=1, cause="x"))
    world.later(REPEAT_S - 1)
    assert world.told == []
    world.later(1)
    assert [to for to, _ in world.told] == [CONFIG, WRITER, MIRRORS]


def test_an_outage_keeps_what_was_listed():
    world = World()
    world.list(pod("a"))
    world.told.clear()
    world.give(Heard(stream=PODS, item=WatchChecked(failure=DOWN)))
    assert world.told == []
    assert [(row.status, row.pod) for row in rows(world.state)] == [("unreachable", ""), ("accepted", "d/a")]


def test_a_stream_that_ends_is_opened_again():
    world = World()
    world.give(StreamEnded(stream=PODS, failure=DOWN))
    assert world.listens == 1
    world.now = world.wake_at
    world.give(Alarm(at=world.now))
    assert world.listens == 2


# ---------------------------------------------------------------- the checkpoint


def test_the_last_list_is_restored_to_the_merge_alone_before_the_server_answers():
    world = World(held(pod("b"), pod("a")))
    world.settle()
    [(to, seen)] = world.told
    assert (to, seen.source, seen.restored, names(seen)) == (CONFIG, "api", True, ["a", "b"])
    assert [one.metadata.annotations[SOURCE] for one in seen.pods] == ["api", "api"]
    world.told.clear()
    for path in (WRITER, CONFIG):
        world.give(Restarted(path=path, incarnation=1, cause="x"))
    assert world.told == [(CONFIG, seen)], "those who report are never sent what is restored"
    assert [row.status for row in rows(world.state)] == ["waiting", "accepted", "accepted"]


def test_a_list_that_came_before_the_ledger_answered_counts_alone():
    world = World(held(pod("old")))
    world.list(pod("new"))
    world.told.clear()
    world.settle()
    assert world.told == []
    world.later(GATHER_S)
    world.settle()
    assert world.disk == held(pod("new"))


def test_one_change_writes_one_entry_and_changes_are_gathered():
    world = World()
    world.settle()
    world.list(pod("a"), pod("b"))
    world.later(GATHER_S / 2)
    assert world.open == {}
    world.list(pod("a"), pod("c"))
    world.later(GATHER_S / 2)
    assert len(world.open) == 2
    world.settle()
    assert world.disk == held(pod("a"), pod("c"))
    world.list(pod("a"), pod("c", example="x"))
    world.later(GATHER_S)
    assert [call.key for call in world.open.values()] == [entry_key("uid-c")]
    world.settle()
    assert world.wake_at == world.state.repeat_at


def test_what_is_deleted_is_written_at_once_for_it_must_not_run_again():
    world = World()
    world.settle()
    world.list(pod("a"), pod("b"))
    world.later(GATHER_S)
    world.settle()
    deleted = pod("a", version="2")
    deleted = replace(deleted, metadata=replace(deleted.metadata, deletion_timestamp="2026-01-01T00:00:30Z"))
    world.list(deleted, pod("b"))
    assert [call.key for call in world.open.values()] == [entry_key("uid-a")]
    world.settle()
    assert world.disk == held(deleted, pod("b"))
    world.list(pod("b"), pod("c"))
    assert {type(call) for call in world.open.values()} == {Forget, Remember}
    world.settle()
    assert world.disk == held(pod("b"), pod("c"))


def test_a_spec_that_changed_is_written_at_once_and_what_is_said_beside_it_is_gathered():
    world = World()
    world.settle()
    world.list(pod("a"))
    world.later(GATHER_S)
    world.settle()
    world.list(pod("a", example="label"))
    assert world.open == {}
    changed = replace(pod("a", version="3"), spec=PodSpec(node_name="n"))
    world.list(changed)
    assert [call.key for call in world.open.values()] == [entry_key("uid-a")]
    world.settle()
    assert world.disk == held(changed)


def test_what_this_node_reports_and_a_new_resource_version_write_nothing():
    world = World()
    world.settle()
    world.list(pod("a"))
    world.later(GATHER_S)
    world.settle()
    status = PodStatus(
        phase="Pending",
        conditions=(PodCondition(type="Ready", status="False"),),
        container_statuses=(ContainerStatus(name="c"),),
    )
    world.list(pod("a", version="2", status=status))
    world.later(GATHER_S)
    assert world.open == {}
    of_others = replace(status, conditions=(PodCondition(type="example.com/gate", status="True"),))
    world.list(pod("a", version="3", status=of_others))
    world.later(GATHER_S)
    assert len(world.open) == 1


def test_few_writes_are_under_way_at_once():
    world = World()
    world.settle()
    world.list(*(pod(f"p{number}") for number in range(10)))
    world.later(GATHER_S)
    while world.open:
        assert len(world.open) <= WRITES_AT_ONCE
        world.end(next(iter(world.open)))
    assert len(world.disk) == 10


def test_a_write_that_fails_is_tried_again_and_shown():
    world = World()
    world.settle()
    world.list(pod("a"))
    world.later(GATHER_S)
    waits = []
    for _ in range(8):
        world.end(next(iter(world.open)), FailureKind.EXHAUSTED)
        waits.append(world.state.checkpoint.write_at - world.now)
        assert "no space left" in rows(world.state)[0].problems[-1]
        world.later(waits[-1])
    assert waits == [1, 2, 4, 8, 16, 32, 60, 60]
    world.settle()
    assert world.disk == held(pod("a"))
    assert rows(world.state)[0].problems == ()


def test_damaged_entries_are_said_and_the_others_count():
    good = held(pod("a"))
    wrong = {entry_key("uid-x"): b"{", "0" * 32: encoded_entry(pod("y"))}
    world = World({**good, **wrong})
    world.end(next(iter(world.open)), damaged=(("k", "ledger entry apipods/k is damaged"),))
    [(to, damaged)] = world.take_told(LedgerDamaged)
    assert (to, damaged.section, len(damaged.whys)) == (paths.EVENTS, SECTION, 3)
    assert names(world.take_told(PodsSeen)[0][1]) == ["a"]
    assert "3 remembered pods were damaged" in rows(world.state)[0].problems[-1]
    world.later(1)
    assert world.told == [], "once"


def test_a_ledger_that_cannot_be_read_keeps_nothing_from_running_and_is_asked_again():
    world = World(held(pod("a")))
    world.end(next(iter(world.open)), FailureKind.UNAVAILABLE)
    assert "before the agent started is not known" in rows(world.state)[0].problems[-1]
    world.list(pod("b"))
    assert names(world.take_told(PodsSeen)[0][1]) == ["b"]
    world.later(0.5)
    assert world.open == {}, "what is there is not known: nothing is written"
    world.later(0.5)
    world.end(next(iter(world.open)), damaged=(("", "the section cannot be read"),))
    assert "the section cannot be read" in rows(world.state)[0].problems[-1]
    world.later(2)
    world.settle()
    assert world.disk == held(pod("b")), "the pod that is gone is not restored by the next life"
    assert rows(world.state)[0].problems == ()


def test_the_ledger_is_read_when_the_writes_of_an_earlier_incarnation_have_ended():
    world = World(held(pod("a")), in_flight=(90, 91))
    for op in (90, 91):
        assert world.open == {}
        world.open[op] = Remember(section=SECTION, key=f"late-{op}", data=b"x", durable=True)
        world.end(op)
    assert [type(call) for call in world.open.values()] == [RecallAll]
    world.settle()
    assert names(world.take_told(PodsSeen)[0][1]) == ["a"]


def test_an_orderly_end_writes_what_was_gathered():
    world = World()
    world.list(pod("a"))
    assert last_writes(world.state) == (), "what the ledger holds is not known yet"
    world.settle()
    world.list(pod("a"), pod("b"))
    [call] = last_writes(world.state)
    assert call.key == entry_key("uid-b")


def test_an_entry_is_no_text_of_a_trace():
    world = World()
    world.settle()
    world.list(pod("a", secret="s3cr3t"))
    world.later(GATHER_S)
    assert "s3cr3t" not in repr(world.state.checkpoint.unwritten)


class LedgerMachine(RuleBasedStateMachine):
    """Lists, failures, delays and new lives: in the end the ledger holds the last list and nothing else."""

    NAMES = st.lists(st.sampled_from("abcdefg"), unique=True, max_size=7)

    @initialize()
    def start(self):
        self.world, self.listed = World(), None

    @rule(found=NAMES, label=st.sampled_from("xyz"))
    def lists(self, found, label):
        self.listed = [pod(name, example=label) for name in sorted(found)]
        self.world.list(*self.listed)

    @rule(seconds=st.sampled_from([0.1, 1.0, GATHER_S, 30.0]))
    def passes(self, seconds):
        self.world.later(seconds)

    @rule(data=st.data(), fails=st.booleans())
    def ends(self, data, fails):
        if self.world.open:
            op = data.draw(st.sampled_from(sorted(self.world.open)))
            self.world.end(op, FailureKind.TIMED_OUT if fails else None)

    @rule()
    def begins_again(self):
        self.world, self.listed = World(self.world.disk), None

    @invariant()
    def one_write_of_a_pod_at_a_time(self):
        keys = [call.key for call in self.world.open.values() if not isinstance(call, RecallAll)]
        assert len(keys) == len(set(keys))

    def teardown(self):
        if self.listed is None:
            return
        for _ in range(50):
            self.world.settle()
            self.world.later(61.0)
        assert self.world.disk == held(*self.listed)
        assert self.world.open == {}


TestLedgerMachine = LedgerMachine.TestCase
TestLedgerMachine.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)
