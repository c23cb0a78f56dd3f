"""Which logs are put aside, in which steps, and what becomes of a step that fails."""

import itertools

import pytest

from actors.logs.core import LINK_PERIOD_S, NOT_OURS_S, decide
from actors.logs.state import LogRotatorState, SayTrouble, event_rows
from api.errors import Failure, FailureKind
from api.lifecycle import Start
from api.messages.kernel import Alarm, Outcome
from api.ports.call import Done
from api.ports.logs import (
    DeadLink,
    DeadLinks,
    FindDeadLinks,
    FindLogs,
    LogRotated,
    LogSeen,
    LogsFound,
    RemoveDeadLink,
    RestoreLog,
    RotateLog,
)
from api.ports.runtime import (
    InspectPod,
    ReopenContainerLog,
    RuntimeContainer,
    RuntimeContainerState,
    RuntimePod,
    Sandbox,
    SandboxState,
)

FOLDER = "/var/log/pods/default_web_u1/main"
PATH = f"{FOLDER}/0.log"
ROTATED = f"{PATH}.20240102-030405"
LINK = DeadLink(name="web_default_main-c1.log", target=PATH, uid="u1")


def big(uid="u1", path=PATH, **fields):
    return LogSeen(uid=uid, container="main", path=path, **{"size_bytes": 1000, **fields})


def container(state=RuntimeContainerState.RUNNING, path=PATH, **fields):
    values = {"id": "x://c1", "sandbox_id": "s1", "name": "main", "attempt": 0, "image": "i", "created_at": 1}
    return RuntimeContainer(**(values | fields), state=state, log_path=path)


def pod(*containers, ours=True, uid="u1"):
    sandbox = Sandbox(
        id="s1",
        uid=uid,
        name="web",
        namespace="default",
        attempt=0,
        state=SandboxState.READY,
        created_at=1,
    )
    return RuntimePod(
        uid=uid, name="web", namespace="default", sandboxes=(sandbox,), containers=containers, ours=ours
    )


def failure(kind, text="no"):
    return Failure(kind=kind, message=text)


class Rotator:
    """A LogRotator core, what it asked for and what it said."""

    def __init__(self, **fields):
        self.now, self.ops, self.open, self.said = 0.0, itertools.count(1), {}, []
        self.state = LogRotatorState(**({"limit_bytes": 100} | fields))
        self.give(None)

    def give(self, message):
        decision = decide(self.state, message, self.now, int(self.now * 1e9), lambda: next(self.ops))
        self.state, self.wake_at = decision.state, decision.wake_at
        for action in decision.actions:
            if isinstance(action, Start):
                self.open[action.op] = action
            elif isinstance(action, SayTrouble):
                self.said.append(action.trouble.message)

    def asked(self, kind):
        """Return the calls of a kind that are under way."""
        return [start.call for start in self.open.values() if isinstance(start.call, kind)]

    def answer(self, kind, result):
        """Answer the oldest call of a kind with a result or a failure."""
        op = next(op for op, start in self.open.items() if isinstance(start.call, kind))
        start = self.open.pop(op)
        parts = {"failure": result} if isinstance(result, Failure) else {"result": result}
        self.give(Outcome(op=op, call=kind.__name__, started_at=self.now, ended_at=self.now, **parts))
        return start.call

    def ring(self):
        self.now = max(self.now, self.wake_at)
        self.give(Alarm(at=self.now))

    def scan(self, *logs):
        """Let the next look through the folders find these logs."""
        while not self.asked(FindLogs):
            self.ring()
        self.answer(FindLogs, LogsFound(logs=logs))


def test_a_big_log_of_a_running_container_is_put_aside_and_then_opened_anew():
    rotator = Rotator(max_files=3)
    rotator.scan(big())
    assert rotator.answer(InspectPod, pod(container())) == InspectPod(uid="u1")
    assert rotator.answer(RotateLog, LogRotated(rotated=ROTATED)) == RotateLog(path=PATH, max_files=3)
    call = rotator.answer(ReopenContainerLog, pod(container()))
    assert call == ReopenContainerLog(uid="u1", container_id="x://c1")
    assert (rotator.state.rotated, rotator.state.reopened, rotator.state.jobs) == (1, 1, {})
    assert rotator.said == []


def test_the_folders_are_looked_through_once_a_period():
    rotator = Rotator(period_s=10.0)
    rotator.answer(FindDeadLinks, DeadLinks())
    rotator.scan()
    assert rotator.wake_at == 10.0
    assert not rotator.asked(FindLogs)
    rotator.ring()
    assert rotator.asked(FindLogs) == [FindLogs(limit_bytes=100)]


def test_a_negative_size_switches_rotation_off_and_leaves_the_links():
    rotator = Rotator(limit_bytes=-1)
    assert not rotator.asked(FindLogs)
    assert rotator.asked(FindDeadLinks)


@pytest.mark.parametrize("workers", [1, 3])
def test_no_more_logs_are_worked_on_than_there_are_workers(workers):
    rotator = Rotator(workers=workers)
    logs = [big(uid=f"u{n}", path=f"/var/log/pods/d_w{n}_u{n}/main/0.log") for n in range(5)]
    rotator.scan(*logs)
    for n in range(5):
        assert len(rotator.asked(InspectPod)) == min(workers, 5 - n)
        rotator.answer(InspectPod, pod())
    assert not rotator.asked(InspectPod)


def test_a_log_in_the_works_is_not_begun_again():
    rotator = Rotator(workers=2)
    rotator.scan(big())
    rotator.scan(big())
    assert len(rotator.asked(InspectPod)) == 1


def test_another_agents_log_is_left_alone_unless_its_pods_are_taken_over():
    rotator = Rotator()
    rotator.scan(big())
    rotator.answer(InspectPod, pod(container(), ours=False))
    rotator.scan(big())
    assert not rotator.asked(RotateLog)
    assert not rotator.asked(InspectPod), "nor is the runtime asked about it at each look"
    rotator.now += NOT_OURS_S
    rotator.scan(big())
    assert rotator.asked(InspectPod)
    keen = Rotator(take_over=True)
    keen.scan(big())
    keen.answer(InspectPod, pod(container(), ours=False))
    assert keen.asked(RotateLog)


def test_a_log_that_no_container_has_is_left_alone():
    rotator = Rotator()
    rotator.scan(big())
    rotator.answer(InspectPod, pod(container(path=f"{FOLDER}/1.log")))
    assert not rotator.asked(RotateLog)
    assert rotator.said == []


def test_the_log_of_an_ended_container_keeps_its_last_lines_and_is_not_opened_anew():
    rotator = Rotator(limit_bytes=100)
    rotator.scan(big())
    rotator.answer(InspectPod, pod(container(RuntimeContainerState.EXITED)))
    (call,) = rotator.asked(RotateLog)
    assert call.keep_bytes == 100
    rotator.answer(RotateLog, LogRotated(rotated=ROTATED + ".gz"))
    assert not rotator.asked(ReopenContainerLog)


@pytest.mark.parametrize("state", [RuntimeContainerState.CREATED, RuntimeContainerState.UNKNOWN])
def test_nothing_is_done_about_a_container_of_which_it_is_not_known_whether_it_writes(state):
    rotator = Rotator()
    rotator.scan(big())
    rotator.answer(InspectPod, pod(container(state)))
    assert not rotator.asked(RotateLog)


def test_a_file_whose_new_one_was_not_opened_gets_its_name_back_and_is_told_once():
    rotator = Rotator()
    for _ in range(3):
        rotator.now += 1000
        rotator.scan(big())
        rotator.answer(InspectPod, pod(container()))
        rotator.answer(RotateLog, LogRotated(rotated=ROTATED))
        rotator.answer(ReopenContainerLog, failure(FailureKind.UNAVAILABLE, "no runtime"))
        assert rotator.answer(RestoreLog, Done()) == RestoreLog(path=PATH, rotated=ROTATED)
    (said,) = rotator.said
    assert "no runtime" in said
    (row,) = event_rows(rotator.state, "u1")
    assert (row.namespace, row.pod, row.count, row.type) == ("default", "web", 3, "Warning")
    assert event_rows(rotator.state, "u2") == ()


def test_a_failure_is_tried_again_ever_more_slowly():
    rotator = Rotator(period_s=10.0)
    tries = []
    for _ in range(120):
        rotator.scan(big())
        if rotator.asked(InspectPod):
            tries.append(rotator.now)
            rotator.answer(InspectPod, failure(FailureKind.UNAVAILABLE))
        rotator.now += 10.0
    waits = [b - a for a, b in itertools.pairwise(tries)]
    assert waits[:3] == sorted(waits[:3])
    assert 200 <= max(waits) <= 310


def test_a_runtime_that_cannot_open_logs_is_not_asked_for_the_same_one_again():
    rotator = Rotator()
    rotator.scan(big())
    rotator.answer(InspectPod, pod(container()))
    rotator.answer(RotateLog, LogRotated(rotated=ROTATED))
    rotator.answer(ReopenContainerLog, failure(FailureKind.REJECTED, "older keeper"))
    rotator.answer(RestoreLog, Done())
    for _ in range(100):
        rotator.now += 1000
        rotator.scan(big())
        assert not rotator.asked(InspectPod)
    assert len(rotator.said) == 1
    rotator.scan()
    rotator.now += 10
    rotator.scan(big())
    assert rotator.asked(InspectPod), "another log of that name is another matter"


def test_a_restore_that_finds_nothing_is_told_as_the_failure_of_the_runtime():
    rotator = Rotator()
    rotator.scan(big())
    rotator.answer(InspectPod, pod(container()))
    rotator.answer(RotateLog, LogRotated(rotated=ROTATED))
    rotator.answer(ReopenContainerLog, failure(FailureKind.NOT_FOUND, "no container"))
    rotator.answer(RestoreLog, failure(FailureKind.DENIED, "read-only disk"))
    assert "no container" in rotator.said[0]
    assert "read-only disk" in rotator.said[0]


@pytest.mark.parametrize("kind", [FailureKind.NOT_FOUND, FailureKind.CONFLICT])
def test_a_log_that_is_gone_or_still_in_the_works_is_no_trouble(kind):
    rotator = Rotator()
    rotator.scan(big())
    rotator.answer(InspectPod, pod(container()))
    rotator.answer(RotateLog, failure(kind))
    assert rotator.said == []
    assert not rotator.asked(ReopenContainerLog)


def test_a_missing_log_of_a_running_container_is_opened_anew():
    for seen in (big(size_bytes=0, missing=True), big(path=FOLDER, size_bytes=0, missing=True)):
        rotator = Rotator()
        rotator.scan(seen)
        rotator.answer(InspectPod, pod(container()))
        call = rotator.answer(ReopenContainerLog, pod(container()))
        assert call.container_id == "x://c1"
        assert not rotator.asked(RotateLog)


def test_a_missing_log_of_an_ended_container_is_left_missing():
    rotator = Rotator()
    rotator.scan(big(size_bytes=0, missing=True))
    rotator.answer(InspectPod, pod(container(RuntimeContainerState.EXITED)))
    assert not rotator.asked(ReopenContainerLog)


def test_what_could_not_be_compressed_is_told_and_holds_nothing_up():
    rotator = Rotator()
    rotator.scan(big())
    rotator.answer(InspectPod, pod(container()))
    rotator.answer(RotateLog, LogRotated(rotated=ROTATED, trouble="disk full"))
    assert rotator.asked(ReopenContainerLog)
    assert rotator.said == ["disk full"]


def test_folders_that_cannot_be_looked_at_are_told_once():
    rotator = Rotator()
    rotator.answer(FindLogs, LogsFound(unreadable=("/x: Permission denied",)))
    rotator.ring()
    rotator.answer(FindLogs, LogsFound(unreadable=("/x: Permission denied",)))
    assert len(rotator.said) == 1


# links


def swept(*links, shown):
    rotator = Rotator()
    rotator.answer(FindDeadLinks, DeadLinks(links=links))
    for found in shown:
        rotator.answer(InspectPod, found)
    return rotator


def test_a_link_to_the_log_of_a_container_that_is_gone_or_ended_is_removed():
    for shown in (
        RuntimePod(uid="u1", name="", namespace=""),
        pod(),
        pod(container(RuntimeContainerState.EXITED)),
    ):
        rotator = swept(LINK, shown=[shown])
        assert rotator.answer(RemoveDeadLink, Done()) == RemoveDeadLink(name=LINK.name, target=LINK.target)
        assert (rotator.state.links_removed, rotator.state.removing) == (1, {})


def test_a_link_in_the_gap_of_a_rotation_stays():
    for state in (
        RuntimeContainerState.RUNNING,
        RuntimeContainerState.UNKNOWN,
        RuntimeContainerState.CREATED,
    ):
        assert not swept(LINK, shown=[pod(container(state))]).asked(RemoveDeadLink)


def test_a_link_stays_where_the_runtime_does_not_answer_or_the_pod_is_another_agents():
    assert not swept(LINK, shown=[failure(FailureKind.UNAVAILABLE)]).asked(RemoveDeadLink)
    foreign = pod(container(RuntimeContainerState.EXITED), ours=False)
    assert not swept(LINK, shown=[foreign]).asked(RemoveDeadLink)


def test_links_are_looked_at_once_a_minute_and_the_runtime_once_for_each_pod():
    other = DeadLink(name="b.log", target="/var/log/pods/d_b_u2/c/0.log", uid="u2")
    again = DeadLink(name="a.log", target=f"{FOLDER}/1.log", uid="u1")
    gone = RuntimePod(uid="u1", name="", namespace="")
    rotator = swept(LINK, again, other, shown=[gone, gone])
    assert not rotator.asked(InspectPod)
    assert len(rotator.asked(RemoveDeadLink)) == 3
    while rotator.now < LINK_PERIOD_S:
        assert not rotator.asked(FindDeadLinks)
        if rotator.asked(FindLogs):
            rotator.answer(FindLogs, LogsFound())
        rotator.ring()
    assert rotator.asked(FindDeadLinks)
