"""One pod's life, call by call."""

import itertools

import msgspec
import pytest

from actors.pod.actor import PodActor
from actors.pod.core import RECALL_TRIES, blank
from actors.pod.explain import explain
from actors.pod.state import (
    MEMO_SECTION,
    STATUS_SECTION,
    Finished,
    Gone,
    PodMemo,
    PodSettings,
    PodState,
    Recalling,
    Syncing,
    Terminated,
    Terminating,
)
from api import paths
from api.errors import FailureKind
from api.ids import Path
from api.kube.objects.container import Container
from api.lifecycle import Start
from api.messages.eviction import PodKilled
from api.messages.kernel import Outcome, Restarted
from api.messages.pod import ClearPod, KillCause
from api.messages.status import PodStatusComposed
from api.messages.supervisor import PodLife, PodMoved
from api.ports.ledger import Forget, Recall, RecallAll, Remember
from api.ports.podfiles import MakePodFolders, RemovePodFolders
from api.ports.runtime import (
    QUEUE_S,
    QUEUED,
    CreateContainer,
    InspectPod,
    RemoveContainer,
    RemoveSandbox,
    RunSandbox,
    RuntimePod,
    StartContainer,
    StopContainer,
    StopSandbox,
)
from runtime.drivers.memory.host import MemoryLedger
from tests.unit.actors.pods import IMAGE, UID, WALL, box, instance, shown, wanted
from tests.unit.actors.tiny import ASKER, STARTING, Hand, TinyWorld, crashed, running_pod


def kinds(calls):
    return [type(call) for call in calls]


def test_a_pod_is_brought_up_one_stage_at_a_time():
    hand = Hand()
    hand.update(wanted("a", "b"))
    seen = kinds(hand.settle().started)
    assert seen == [
        *(Recall, Recall, InspectPod, Remember, MakePodFolders, RunSandbox),
        *(CreateContainer, StartContainer, CreateContainer, StartContainer),
    ]
    assert hand.status.phase == "Running"
    assert [c.ready for c in hand.status.container_statuses] == [True, True]


def test_nothing_is_started_while_a_call_is_in_flight():
    hand = Hand()
    hand.update(wanted()), hand.settle_until(RunSandbox)
    assert hand.observe() == []
    assert hand.update(wanted("a", "b"), generation=2) == []
    assert hand.kill() == []
    assert len(hand.open) == 1


@pytest.mark.parametrize("kind", QUEUED)
def test_what_may_have_to_wait_for_its_turn_has_time_for_it(kind):
    hand = Hand(call_deadline_s=7.0)
    hand.update(wanted()), hand.settle_until(kind)
    start, _ = hand.open[hand.op_of(kind)]
    assert start.deadline_s == (14.0 if kind is RunSandbox else 7.0) + QUEUE_S


def test_a_kill_shortens_grace_but_never_extends_it():
    hand = running_pod(wanted(grace=60))
    hand.kill(grace=20), hand.settle_until(StopContainer)
    (first,) = (c for c in hand.started if isinstance(c, StopContainer))
    assert first.grace_s == 20
    hand.kill(grace=40)
    assert hand.cancelled == []
    hand.kill(grace=5)
    assert hand.cancelled == [hand.op_of(StopContainer)]
    hand.fail(StopContainer, FailureKind.CANCELLED), hand.settle()
    graces = [c.grace_s for c in hand.started if isinstance(c, StopContainer)]
    assert graces == [20, 5]


def test_a_later_kill_counts_its_grace_from_its_own_time():
    hand = running_pod(wanted(grace=60))
    hand.kill(), hand.settle_until(StopContainer)
    hand.wait(30)
    hand.kill(grace=20)
    hand.fail(StopContainer, FailureKind.CANCELLED), hand.settle()
    assert [c.grace_s for c in hand.started if isinstance(c, StopContainer)][-1] == 20


def test_a_later_kill_never_moves_the_end_of_the_first_one():
    hand = running_pod(wanted(grace=30))
    hand.kill(), hand.settle_until(StopContainer)
    hand.wait(25)
    hand.kill(grace=20)
    hand.fail(StopContainer, FailureKind.CANCELLED), hand.settle()
    assert [c.grace_s for c in hand.started if isinstance(c, StopContainer)][-1] == 5


def test_a_used_up_grace_leaves_two_seconds():
    hand = running_pod(wanted(grace=30))
    hand.kill(), hand.settle_until(StopContainer)
    hand.wait(100)
    hand.fail(StopContainer, FailureKind.TIMED_OUT)
    hand.settle(), hand.ring(), hand.settle()
    assert [c.grace_s for c in hand.started if isinstance(c, StopContainer)] == [30, 2]


def test_a_start_that_fails_after_the_kill_delays_no_stop():
    hand = running_pod(wanted("a", "b"))
    hand.world.exit("b", 1, hand.wall)
    hand.wait(0.1), hand.observe(), hand.settle_until(CreateContainer)
    hand.kill()
    hand.fail(CreateContainer, FailureKind.DENIED), hand.settle()
    assert isinstance(hand.state.life, Gone)


@pytest.mark.parametrize("kind", STARTING)
def test_what_starts_something_is_never_cancelled(kind):
    hand = Hand()
    hand.update(wanted()), hand.settle_until(kind)
    hand.kill(grace=1)
    assert hand.cancelled == []
    started = len(hand.started)
    hand.settle()
    assert not [c for c in hand.started[started:] if isinstance(c, STARTING)]
    assert isinstance(hand.state.life, Gone)


def test_a_stale_observation_is_ignored():
    hand = running_pod(wanted())
    settled = hand.state.view.settled_at
    assert hand.observe(shown(), as_of=settled - 0.001) == []
    assert hand.status.phase == "Running"
    assert hand.observe(shown(), as_of=hand.now + 1) != []


def test_after_a_failure_it_looks_before_it_decides():
    hand = Hand()
    hand.update(wanted()), hand.settle_until(CreateContainer)
    # The create timed out and happened all the same: it must not be made twice.
    assert hand.fail(CreateContainer, FailureKind.TIMED_OUT, happens=True) == [InspectPod(uid="u1")]
    hand.settle(), hand.ring(), hand.settle()
    assert kinds(hand.started).count(CreateContainer) == 1
    assert hand.status.phase == "Running"


def test_failures_of_the_sandbox_back_off_further_each_time():
    hand = Hand()
    hand.update(wanted()), hand.settle_until(RunSandbox)
    waits = []
    for _ in range(7):
        hand.fail(RunSandbox), hand.settle()
        waits.append(round(hand.wake_at - hand.now))
        hand.ring()
    assert waits == [1, 2, 4, 8, 16, 30, 30]


def test_one_good_stop_beside_a_failing_one_does_not_reset_the_wait():
    hand = running_pod(wanted("a", "b"))
    hand.kill(), hand.settle_until(StopContainer)
    first, second = hand.open
    hand.end(first, FailureKind.UNAVAILABLE, happens=False)
    hand.end(second)
    hand.settle()
    assert hand.wake_at > hand.now


def test_a_kill_does_not_wait_for_the_retry_of_a_failed_start():
    hand = Hand()
    hand.update(wanted()), hand.settle_until(RunSandbox)
    hand.fail(RunSandbox, FailureKind.DENIED), hand.settle()
    assert hand.wake_at - hand.now > 5
    hand.kill(), hand.settle()
    assert isinstance(hand.state.life, Gone)


def test_a_failing_removal_of_an_old_instance_keeps_nothing_else_waiting():
    old = [instance(attempt=n, state="exited", code=1, at=-9000) for n in (2, 1, 0)]
    hand = Hand(TinyWorld(shown(box(), *old)))
    hand.update(wanted()), hand.settle_until(RemoveContainer)
    hand.fail(RemoveContainer), hand.settle()
    assert hand.status.phase == "Running"


def test_a_container_that_cannot_be_started_is_removed_before_the_next_try():
    hand = Hand()
    hand.update(wanted("a", "b")), hand.settle_until(StartContainer)
    hand.fail(StartContainer), hand.settle()
    by_name = {c.name: c for c in hand.status.container_statuses}
    assert by_name["b"].state.running
    assert by_name["a"].state.waiting.reason == "RunContainerError"
    assert hand.ring() == [RemoveContainer(uid="u1", container_id=by_name["a"].container_id)]
    hand.settle()
    assert hand.state.call_backoffs == ()
    assert all(c.ready for c in hand.status.container_statuses)


def test_an_instance_that_was_made_and_is_shown_no_more_has_used_up_its_number():
    hand = Hand()
    hand.update(wanted()), hand.settle_until(StartContainer)
    hand.world.pages["status"] = msgspec.msgpack.encode(hand.status)
    hand.world.view = shown(box())
    again = Hand(hand.world, now=hand.now + 1)
    again.update(wanted()), again.settle()
    assert [c.spec.attempt for c in again.started if isinstance(c, CreateContainer)] == [1]


def test_an_instance_that_was_removed_before_its_start_used_up_no_number():
    hand = Hand()
    hand.update(wanted()), hand.settle_until(StartContainer)
    hand.fail(StartContainer), hand.settle(), hand.ring(), hand.settle()
    assert [c.spec.attempt for c in hand.started if isinstance(c, CreateContainer)] == [0, 0]
    assert hand.status.container_statuses[0].restart_count == 0


def test_a_terminal_phase_is_published_only_when_everything_is_proven_stopped():
    hand = running_pod(wanted(policy="Never", source="api"))
    hand.world.exit("a", 0, hand.wall)
    hand.observe()
    for _ in range(30):
        if not hand.open:
            break
        if not isinstance(hand.state.life, Terminated | Finished):
            assert hand.status.phase == "Running"
        hand.end(min(hand.open))
    assert hand.status.phase == "Succeeded"
    assert isinstance(hand.state.life, Finished)
    last = hand.messages(PodStatusComposed)[-1]
    assert (last.status.phase, last.finished) == ("Succeeded", True)


def test_no_end_is_proven_by_a_look_that_began_before_the_last_stop_ended():
    hand = running_pod(wanted())
    hand.kill(), hand.settle_until(StopSandbox)
    hand.observe(shown())
    assert isinstance(hand.state.life, Terminating)
    assert hand.end(hand.op_of(StopSandbox)) == [InspectPod(uid="u1")]


def test_what_comes_back_after_the_end_is_stopped_again():
    hand = running_pod(wanted(policy="Never"))
    hand.world.exit("a", 0, hand.wall)
    hand.observe(), hand.settle()
    assert isinstance(hand.state.life, Finished)
    hand.wait(5)
    hand.observe(shown(box(), instance("a")))
    assert isinstance(hand.started[-1], StopContainer)
    assert isinstance(hand.state.life, Finished)


@pytest.mark.parametrize(("grace", "stops_with"), [(0, 2), (1, 1), (2, 2), (3, 3), (None, 30)])
def test_a_stop_has_its_grace_and_two_seconds_where_there_is_none(grace, stops_with):
    hand = running_pod(wanted(grace=30))
    hand.kill(grace=grace), hand.settle()
    assert [c.grace_s for c in hand.started if isinstance(c, StopContainer)] == [stops_with]


def test_a_kill_is_durable_before_anything_is_stopped():
    hand = running_pod(wanted())
    (page,) = hand.kill()
    assert page.durable
    assert msgspec.msgpack.decode(page.data, type=PodMemo).kill.cause is KillCause.REMOVED
    (stop,) = hand.end(hand.op_of(Remember))
    assert isinstance(stop, StopContainer)


def test_a_restart_is_counted_in_the_ledger_before_the_container_is_made():
    hand = running_pod(wanted())
    made = kinds(hand.started).count(CreateContainer)
    hand.world.exit("a", 1, hand.wall)
    hand.wait(0.1)
    (page,) = hand.observe()
    (entry,) = msgspec.msgpack.decode(page.data, type=PodMemo).backoffs
    assert (entry.container, entry.for_attempt, entry.delay_s) == ("a", 1, 10)
    assert kinds(hand.started).count(CreateContainer) == made


def test_a_ledger_that_cannot_be_written_blocks_nothing_and_is_told():
    hand = Hand()
    hand.update(wanted())
    while hand.open:
        kind = Remember if any(isinstance(s.call, Remember) for s, _ in hand.open.values()) else None
        hand.fail(Remember) if kind else hand.end(min(hand.open))
    assert hand.status.phase == "Running"
    assert "LedgerUnavailable" in {e.reason for e in hand.state.events}
    hand.kill()
    while hand.open:
        remembers = any(isinstance(s.call, Remember) for s, _ in hand.open.values())
        hand.fail(Remember) if remembers else hand.end(min(hand.open))
    assert isinstance(hand.state.life, Gone)


def test_a_ledger_that_cannot_be_read_is_tried_again_and_then_done_without():
    hand = Hand()
    hand.update(wanted())
    rounds = 0
    while isinstance(hand.state.life, Recalling):
        rounds += 1
        hand.fail(Recall), hand.fail(Recall), hand.end(hand.op_of(InspectPod))
        if isinstance(hand.state.life, Recalling):
            assert not hand.open, "it must wait between tries"
            hand.ring()
    assert rounds == -(-RECALL_TRIES // 2)
    hand.settle() if hand.open else hand.ring()
    hand.settle()
    assert hand.status.phase == "Running"
    assert "LedgerUnavailable" in {e.reason for e in hand.state.events}


@pytest.mark.parametrize(
    ("section", "lost"), [(MEMO_SECTION, "restart counts"), (STATUS_SECTION, "last status")]
)
def test_a_page_that_holds_something_else_is_told_and_counts_as_missing(section, lost):
    hand = Hand()
    hand.world.pages[section] = b"nonsense"
    hand.update(wanted())
    hand.settle()
    [event] = [e for e in hand.state.events if e.reason == "LedgerDamaged"]
    assert f"ledger entry {section}/{UID} holds what no agent of this version writes" in event.message
    assert lost in event.message
    assert hand.status.phase == "Running"


def test_a_status_that_cannot_be_read_at_first_is_not_forgotten():
    hand = Hand()
    hand.update(wanted())
    hand.fail(Recall)
    hand.settle()
    assert isinstance(hand.state.life, Recalling)


@pytest.mark.parametrize(
    "stop_at", [StopContainer, StopSandbox, Remember, RemoveSandbox, RemovePodFolders, Forget]
)
def test_a_new_incarnation_goes_on_where_the_ledger_says_it_was(stop_at):
    hand = running_pod(wanted())
    hand.kill(), hand.settle_until(stop_at)
    again = Hand(hand.world, now=hand.now + 1)
    started = again.settle().started
    assert not [c for c in started if isinstance(c, STARTING)]
    if stop_at is Remember:
        # The kill was not durable: the supervisor repeats it.
        again.kill(), again.settle()
    assert isinstance(again.state.life, Gone)
    assert (again.world.view.sandboxes, again.world.pages, again.world.folders) == ((), {}, False)


class Incarnation:
    """As much of a context as an actor needs to begin, in a life of this number."""

    def __init__(self, number):
        self.incarnation = number
        self.numbers = itertools.count(1)

    def watch(self, path): ...

    def in_flight(self):
        return ()

    def now(self):
        return 10.0

    def wall(self):
        return WALL

    def new_op(self):
        return next(self.numbers)


def test_an_actor_asks_nobody_about_a_pod_of_which_nothing_is_anywhere_but_after_its_own_death_it_does():
    actor = PodActor(PodState(uid=UID, settings=PodSettings(log_root="/logs")), {}, blank_as_of=9.0)
    first = actor.begin(Incarnation(0))
    assert [a.call for a in first.actions if isinstance(a, Start)] == []
    assert isinstance(first.state.life, Syncing)
    assert first.state.view.as_of == 9.0
    again = PodActor(PodState(uid=UID, settings=PodSettings(log_root="/logs")), {}, blank_as_of=9.0).begin(
        Incarnation(1)
    )
    assert kinds(a.call for a in again.actions if isinstance(a, Start)) == [Recall, Recall, InspectPod]
    assert isinstance(again.state.life, Recalling)


def test_a_pod_of_which_nothing_is_anywhere_comes_up_as_any_other():
    hand, other = Hand(), running_pod(wanted())
    hand.settle()
    hand.state = blank(PodState(uid=UID, settings=PodSettings(log_root="/logs")), hand.now)
    hand.started.clear()
    hand.update(wanted()), hand.settle()
    assert kinds(hand.started) == kinds(other.started)[3:], "but for two pages and a look"
    assert hand.status.phase == other.status.phase == "Running"


def test_a_finished_pod_stays_finished_in_a_new_incarnation():
    hand = running_pod(wanted(policy="Never"))
    crashed(hand, code=0)
    again = Hand(hand.world, now=hand.now + 1)
    again.update(wanted(policy="Never"))
    again.settle()
    assert isinstance(again.state.life, Finished)
    assert kinds(again.started) == [Recall, Recall, InspectPod]


def test_a_number_that_was_seen_before_the_spec_came_is_never_used_again():
    hand = running_pod(wanted())
    hand.world.pages.pop("status", None)  # Its last status was lost with whoever was to write it.
    again = Hand(hand.world, now=hand.now + 1)
    again.settle()
    assert isinstance(again.state.life, Syncing)
    again.world.lose("a")
    again.wait(1)
    again.observe()
    again.update(wanted())
    again.settle()
    (made,) = (call for call in again.started if isinstance(call, CreateContainer))
    assert made.spec.attempt == 1
    assert again.state.remembered.used == (("a", 0),), "nor in a later life"


def test_a_number_that_was_seen_while_the_ledger_was_slow_is_never_used_again():
    hand = running_pod(wanted())
    hand.world.pages.pop("status", None)
    again = Hand(hand.world, now=hand.now + 1)
    again.update(wanted())
    again.end(again.op_of(InspectPod))
    again.world.lose("a")
    again.observe()
    again.fail(Recall), again.fail(Recall)
    again.ring(), again.settle()
    (made,) = (call for call in again.started if isinstance(call, CreateContainer))
    assert made.spec.attempt == 1
    assert again.state.remembered.used == (("a", 0),)


def test_back_off_and_restart_counts_survive_a_new_incarnation():
    hand = crashed(crashed(running_pod(wanted())))
    status = hand.status
    hand.world.pages["status"] = msgspec.msgpack.encode(status)
    again = Hand(hand.world, now=hand.now + 1)
    again.update(wanted())
    again.settle()
    assert again.status == status
    assert again.state.memo.backoffs == hand.state.memo.backoffs
    assert not [c for c in again.started if isinstance(c, STARTING)]


def test_a_status_without_a_page_of_its_own_is_of_an_earlier_life():
    hand = crashed(running_pod(wanted()))
    world = TinyWorld()
    world.pages["status"] = msgspec.msgpack.encode(hand.status)
    again = Hand(world)
    again.update(wanted())
    again.settle()
    assert again.status.container_statuses[0].restart_count == 0


def test_the_status_of_an_earlier_life_does_not_come_back_after_a_death_before_this_ones_was_written():
    hand = running_pod(wanted(policy="Never"))
    crashed(hand, code=1)
    hand.settle()
    assert hand.status.phase == "Failed"
    world = TinyWorld()
    world.pages["status"] = msgspec.msgpack.encode(hand.status)
    again = Hand(world, now=hand.now + 100)
    again.update(wanted(policy="Never"))
    again.settle()
    assert again.status.phase == "Running"
    # Its own status is not in the ledger yet, what it started runs, and the agent dies.
    last = Hand(world, now=again.now + 1)
    last.update(wanted(policy="Never"))
    last.settle()
    assert last.status.phase == "Running"
    assert not [c for c in last.started if isinstance(c, StopContainer)]


def test_an_orphan_takes_its_grace_from_its_containers():
    hand = Hand(TinyWorld(shown(box(), instance(grace=7))))
    hand.kill(cause=KillCause.ORPHAN)
    hand.settle()
    (stop,) = (c for c in hand.started if isinstance(c, StopContainer))
    assert stop.grace_s == 7
    assert isinstance(hand.state.life, Gone)
    assert hand.messages(PodStatusComposed) == []


def test_an_orphan_gets_all_of_its_grace_though_it_is_asked_to_go_before_anything_is_known_of_it():
    for cause in (KillCause.ORPHAN, KillCause.REPLACED):
        hand = Hand(TinyWorld(shown(box(), instance(grace=90))))
        hand.kill(cause=cause)
        hand.settle()
        (stop,) = (c for c in hand.started if isinstance(c, StopContainer))
        assert (stop.grace_s, hand.state.killed.grace_s) == (90, 90)


def test_what_nothing_is_known_of_gets_a_kubelets_grace():
    plain = msgspec.structs.replace(instance(), annotations=())
    hand = Hand(TinyWorld(shown(box(), plain)))
    hand.kill(cause=KillCause.ORPHAN), hand.settle()
    assert [c.grace_s for c in hand.started if isinstance(c, StopContainer)] == [30]


def test_a_kill_without_a_grace_of_its_own_takes_none_from_the_one_before():
    long = wanted(grace=90)
    first = running_pod(long)
    first.kill(), first.settle_until(StopContainer)
    again = Hand(first.world, now=first.now + 5)
    again.kill(cause=KillCause.ORPHAN), again.settle()
    kill = again.state.killed
    assert (kill.cause, kill.grace_s, kill.stop_by) == (
        KillCause.REMOVED,
        90,
        first.state.killed.stop_by,
    )


def test_an_override_that_comes_before_anything_is_known_still_shortens():
    for grace, given in ((3, 3), (60, 60), (100, 90)):
        hand = Hand(TinyWorld(shown(box(), instance(grace=90))))
        hand.kill(cause=KillCause.ORPHAN), hand.kill(grace=grace, cause=KillCause.EVICTED), hand.settle()
        assert [c.grace_s for c in hand.started if isinstance(c, StopContainer)] == [given]


def test_containers_of_an_orphan_whose_sandbox_is_gone_are_stopped_and_removed():
    hand = Hand(TinyWorld(shown(instance(), instance("b", "exited", sandbox="s9"))))
    hand.kill(cause=KillCause.ORPHAN)
    hand.settle()
    assert [c.container_id for c in hand.started if isinstance(c, StopContainer)] == ["tiny://a0"]
    assert {c.container_id for c in hand.started if isinstance(c, RemoveContainer)} == {
        "tiny://a0",
        "tiny://b0",
    }
    assert hand.world.view.containers == ()
    assert isinstance(hand.state.life, Gone)


@pytest.mark.parametrize("state", ["ready", "not-ready"])
def test_a_sandbox_of_an_orphan_without_containers_is_removed(state):
    hand = Hand(TinyWorld(shown(box(state=state))))
    hand.kill(cause=KillCause.ORPHAN)
    hand.settle()
    assert [c.sandbox_id for c in hand.started if isinstance(c, StopSandbox)] == ["s0"]
    assert [c.sandbox_id for c in hand.started if isinstance(c, RemoveSandbox)] == ["s0"]
    assert (hand.world.view.sandboxes, type(hand.state.life)) == ((), Gone)


def test_a_deleted_pod_leaves_nothing_and_its_page_goes_last():
    hand = running_pod(wanted())
    hand.kill(), hand.settle()
    assert kinds(hand.started)[-3:] == [RemoveSandbox, RemovePodFolders, Forget]
    assert hand.started[-2] == RemovePodFolders(uid=UID, log_directory="/logs/default_web_u1")
    assert hand.started[-1].durable, "it would be the end of a static pod that is put back"
    assert (hand.world.view.sandboxes, hand.world.pages, hand.world.folders) == ((), {}, False)


def test_the_logs_of_a_pod_that_nothing_names_any_more_are_found_by_its_uid():
    hand = Hand(TinyWorld(RuntimePod(uid=UID, name="", namespace="")))
    hand.kill(cause=KillCause.ORPHAN), hand.settle()
    (removal,) = [call for call in hand.started if isinstance(call, RemovePodFolders)]
    assert (removal.log_directory, removal.find_logs) == ("", True)


def test_the_end_of_an_orphans_container_is_told():
    hand = Hand(TinyWorld(shown(box(), instance("a"))))
    hand.kill(cause=KillCause.ORPHAN), hand.settle()
    (event,) = (event for event in hand.state.events if event.reason == "Exited")
    assert (event.type, event.container, event.count) == ("Normal", "a", 1)
    assert event.message == "Container a exited with code 143 (Error)"


def test_folders_that_cannot_be_removed_keep_the_page():
    hand = running_pod(wanted())
    hand.kill(), hand.settle_until(RemovePodFolders)
    hand.fail(RemovePodFolders)
    assert isinstance(hand.state.life, Finished)
    hand.settle()
    assert hand.world.pages
    hand.ring(), hand.settle()
    assert isinstance(hand.state.life, Gone)


def test_a_pod_that_is_not_deleted_keeps_its_records():
    hand = running_pod(wanted())
    hand.kill(deleted=False, cause=KillCause.DEADLINE), hand.settle()
    assert isinstance(hand.state.life, Finished)
    assert hand.world.view.containers
    assert hand.world.folders
    hand.kill(deleted=True), hand.settle()
    assert isinstance(hand.state.life, Gone)


def test_whoever_asked_is_answered_exactly_once():
    hand = running_pod(wanted())
    others = [Path("/node/eviction"), Path("/node/shutdown")]
    for asker in (ASKER, *others, ASKER):
        hand.kill(asked_by=asker)
    assert hand.messages(PodKilled) == []
    hand.settle()
    answered = sorted(to for to, message in hand.told if isinstance(message, PodKilled))
    assert answered == sorted([ASKER, *others])
    hand.kill(asked_by=Path("/node/late"))
    assert [to for to, m in hand.told if isinstance(m, PodKilled)][-1] == "/node/late"


def test_the_supervisor_follows_the_life_of_the_pod_and_gets_no_answer_of_its_own():
    hand = running_pod(wanted())
    hand.kill(asked_by=paths.PODS), hand.settle()
    assert hand.messages(PodMoved)[-1].life is PodLife.GONE
    assert hand.messages(PodKilled) == []


def test_who_asked_an_incarnation_that_crashed_is_answered_by_the_next():
    hand = running_pod(wanted())
    hand.kill(), hand.settle_until(StopContainer)
    again = Hand(hand.world, now=hand.now + 1)
    again.settle()
    assert [to for to, m in again.told if isinstance(m, PodKilled)] == [ASKER]


def test_a_new_incarnation_waits_for_the_calls_of_the_one_before():
    hand = Hand(inherited=(7, 8))
    hand.update(wanted())
    assert hand.started == []
    for op in (7, 8):
        assert hand.started == []
        hand.give(Outcome(op=op, call="StopContainer", started_at=9.0, ended_at=10.5))
    assert kinds(hand.started) == [Recall, Recall, InspectPod]


def test_what_is_told_is_told_again_to_who_lost_it():
    hand = running_pod(wanted())
    hand.told.clear()
    hand.give(Restarted(path=paths.PODS, incarnation=1, cause="x"))
    assert [type(m) for _, m in hand.told] == [PodMoved]
    hand.told.clear()
    hand.give(Restarted(path=paths.STATUS, incarnation=1, cause="x"))
    assert [type(m) for _, m in hand.told] == [PodStatusComposed]


def test_an_older_update_is_stale_until_a_new_supervisor_counts_anew():
    hand = running_pod(wanted())
    hand.update(wanted("a", "b"), generation=5), hand.settle()
    hand.update(wanted("a"), generation=4)
    assert len(hand.state.desired.spec.containers) == 2
    hand.give(Restarted(path=paths.PODS, incarnation=1, cause="x"))
    hand.update(wanted("a"), generation=1)
    assert len(hand.state.desired.spec.containers) == 1


def test_waits_between_restarts_are_those_of_kubernetes():
    hand = running_pod(wanted())
    waits = []
    for _ in range(8):
        hand.world.exit("a", 1, hand.wall)
        ended = hand.now
        hand.wait(0.01)
        hand.observe(), hand.settle()
        if hand.wake_at is not None and hand.status.container_statuses[0].state.waiting:
            assert hand.status.container_statuses[0].state.waiting.reason == "CrashLoopBackOff"
            hand.ring(), hand.settle()
        waits.append(round(hand.now - ended, -1))
    assert waits == [0, 10, 20, 40, 80, 160, 300, 300]
    assert hand.status.container_statuses[0].restart_count == 8


def test_a_death_and_its_back_off_are_events():
    hand = crashed(crashed(running_pod(wanted())))
    texts = [(e.reason, e.message, e.count) for e in hand.state.events if e.reason in ("Exited", "BackOff")]
    assert texts == [
        ("Exited", "Container a exited with code 3 (Error)", 2),
        ("BackOff", "Back-off restarting failed container a in pod web_default(u1)", 1),
    ]


def test_between_the_end_of_a_wait_and_the_next_start_the_reason_stays():
    hand = crashed(crashed(running_pod(wanted())))
    hand.told.clear()
    hand.ring(), hand.settle()
    shown_states = [m.status.container_statuses[0].state for m in hand.messages(PodStatusComposed)]
    assert [s.terminated for s in shown_states] == [None] * len(shown_states)


def test_a_changed_definition_stops_the_container_first():
    hand = running_pod(wanted())
    changed = wanted(msgspec.structs.replace(wanted().spec.containers[0], image=f"{IMAGE}2"))
    (stop,) = hand.update(changed, generation=2)
    assert isinstance(stop, StopContainer)
    hand.settle()
    assert hand.world.view.containers[0].image == f"{IMAGE}2"


def test_a_dead_sandbox_is_replaced_after_what_is_left_was_stopped():
    hand = Hand(TinyWorld(shown(box(state="not-ready"), instance())))
    hand.update(wanted()), hand.settle()
    assert kinds(hand.started)[5:8] == [StopContainer, StopSandbox, RunSandbox]
    assert hand.started[7].spec.attempt == 1


def test_a_never_pod_that_lost_its_sandbox_before_all_containers_ran_fails():
    hand = Hand(TinyWorld(shown(box(state="not-ready"), instance("a", "exited", code=0))))
    hand.update(wanted("a", "b", policy="Never", source="api")), hand.settle()
    assert isinstance(hand.state.life, Finished)
    assert hand.status.phase == "Failed"
    assert not [c for c in hand.started if isinstance(c, STARTING)]


def test_a_pod_that_is_killed_before_it_ever_ran_fails():
    hand = Hand()
    hand.update(wanted(source="api")), hand.settle_until(RunSandbox)
    hand.kill(deleted=False), hand.settle()
    assert hand.status.phase == "Failed"


def test_an_evicted_pod_says_so_even_when_it_exits_well():
    hand = running_pod(wanted(source="api", policy="OnFailure"))
    hand.kill(deleted=False, evict=True, cause=KillCause.EVICTED, reason="Evicted", message="low on memory")
    hand.settle()
    assert (hand.status.phase, hand.status.reason) == ("Failed", "Evicted")
    assert hand.world.view.sandboxes == ()


def moves(hand):
    """Return what the supervisor was told last of what is left: kept, leaving."""
    last = [message for _, message in hand.told if isinstance(message, PodMoved)][-1]
    return last.kept, last.leaving


def test_an_evicted_pod_is_told_of_as_leaving_until_the_runtime_has_nothing_of_it():
    hand = running_pod(wanted(source="api", policy="OnFailure"))
    hand.kill(deleted=False, evict=True, cause=KillCause.EVICTED, reason="Evicted", message="low on memory")
    hand.settle_until(RemoveSandbox)
    assert moves(hand) == (True, True)
    hand.settle()
    assert moves(hand) == (True, False)


@pytest.mark.parametrize("evicted", [False, True])
def test_what_is_kept_of_an_ended_pod_goes_when_asked_for_and_its_status_stays(evicted):
    hand = running_pod(wanted(source="api", policy="OnFailure"))
    hand.give(ClearPod(uid=hand.state.uid)), hand.settle()
    assert isinstance(hand.state.life, Syncing), "it runs: that is nothing to it"
    hand.kill(deleted=False, evict=evicted, cause=KillCause.EVICTED, reason="Evicted", message="low on disk")
    hand.settle()
    assert bool(hand.world.view.sandboxes) is not evicted
    assert not [call for call in hand.started if isinstance(call, RemovePodFolders)]
    status = hand.status
    assert moves(hand) == (True, False)
    hand.give(ClearPod(uid=hand.state.uid)), hand.settle()
    assert (hand.world.view.sandboxes, hand.world.view.containers) == ((), ())
    [files] = [call for call in hand.started if isinstance(call, RemovePodFolders)]
    assert files.log_directory == hand.state.memo.log_directory
    assert (hand.status, isinstance(hand.state.life, Finished)) == (status, True)
    assert hand.status.container_statuses[0].state.terminated is not None
    assert moves(hand) == (False, False)
    hand.kill(), hand.settle()
    assert isinstance(hand.state.life, Gone)


def test_an_unsupported_field_keeps_the_pod_pending_with_its_path():
    hand = Hand()
    hand.update(wanted(host_users=False)), hand.settle()
    assert (hand.status.phase, hand.status.reason) == ("Pending", "Unsupported")
    assert "spec.hostUsers" in hand.status.message
    assert not [c for c in hand.started if isinstance(c, STARTING)]
    hand.kill(), hand.settle()
    assert isinstance(hand.state.life, Gone)


def test_looking_again_at_a_pod_that_waits_does_nothing():
    hand = crashed(crashed(running_pod(wanted())))
    before = hand.state
    hand.told.clear()
    assert hand.give(None) == []
    assert (hand.state, hand.told) == (before, [])


def test_explain_says_what_it_waits_for_since_when_and_what_comes_next():
    hand = crashed(crashed(running_pod(wanted())))
    hand.wait(4)
    answer = explain(hand.state, hand.now, hand.wall)
    assert answer.waits_for == "back-off of container a (exit code 3) before restart 2"
    assert answer.since_s == pytest.approx(4, abs=0.1)
    [coming] = answer.next
    assert coming.in_s == pytest.approx(6, abs=0.1)
    assert coming.what == "wait for image example/app:1 of container a: looking it up"
    assert isinstance(hand.state.life, Syncing)


def test_explain_counts_failures_from_the_first():
    hand = Hand()
    hand.update(wanted()), hand.settle_until(RunSandbox)
    hand.fail(RunSandbox), hand.settle(), hand.ring()
    hand.fail(RunSandbox), hand.settle()
    answer = explain(hand.state, hand.now, hand.wall)
    assert answer.waits_for == "retrying (2 failures): it broke"
    assert 1 <= answer.since_s < 1.5
    assert [step.what for step in answer.next] == ["RunSandbox default/web attempt=0"]


def test_what_the_ledger_did_not_take_is_written_again_when_the_pod_is_idle():
    hand = Hand()
    hand.update(wanted())
    hand.settle_until(Remember).fail(Remember)
    hand.settle()
    assert (hand.status.phase, MEMO_SECTION in hand.world.pages) == ("Running", False)
    hand.ring(), hand.settle()
    assert (MEMO_SECTION in hand.world.pages, hand.state.rewrite_at) == (True, None)


def test_what_the_ledger_did_not_take_is_written_at_an_orderly_stop_if_there_is_room_again():
    hand, ledger = Hand(), MemoryLedger()
    hand.update(wanted())
    PodActor(hand.state, {"ledger": ledger}).on_stop(None)
    assert not ledger.perform(RecallAll(section=MEMO_SECTION), 1.0).entries, "nothing was refused"
    hand.settle_until(Remember).fail(Remember)
    hand.settle()
    PodActor(hand.state, {"ledger": ledger}).on_stop(None)
    [(key, _)] = ledger.perform(RecallAll(section=MEMO_SECTION), 1.0).entries
    assert key == hand.state.uid


def test_a_container_that_never_started_and_whose_definition_changed_is_removed_not_stopped():
    hand = Hand()
    hand.update(wanted()), hand.settle_until(StartContainer)
    hand.fail(StartContainer), hand.settle()
    changed = wanted(Container(name="a", image=f"{IMAGE}2"))
    hand.update(changed, generation=2), hand.settle()
    after = [type(c) for c in hand.started if isinstance(c, StopContainer | RemoveContainer | StartContainer)]
    assert after == [StartContainer, RemoveContainer, StartContainer]
    assert hand.status.container_statuses[0].state.running
