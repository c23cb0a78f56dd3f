"""Where a container's log is, as the last committed states tell it."""

import pytest
from msgspec.structs import replace

from actors.logs.state import LogRotatorState, Trouble
from actors.pod.state import Finished, Kill, PodMemo, PodSettings, PodState, WantedPod, change_view
from actors.views.asked import AskedPorts
from actors.views.view import AgentView
from api import paths
from api.errors import NotFoundError, RejectedError, UnavailableError
from api.ids import Path
from api.kube.objects.podstatus import (
    ContainerState,
    ContainerStateTerminated,
    ContainerStateWaiting,
    ContainerStatus,
    PodStatus,
)
from api.messages.pod import KillCause
from api.paths import pod_path
from tests.unit.actors.pods import UID, WALL, box, instance, shown, wanted

ROOT = "/var/log/pods/default_web_u1"


class Kernel:
    """An actor system that knows only last states."""

    def __init__(self, pod, rotator=None):
        self.pod, self.rotator = pod, rotator

    def committed(self, path):
        return self.rotator if path == paths.LOGS else None

    def committed_children(self, path):
        assert path == Path("/node/pods")
        return ((pod_path(UID), self.pod),)


KILL = Kill(cause=KillCause.REMOVED, grace_s=1, asked_at=WALL, stop_by=WALL, asked_by=Path("/node/pods"))


def unasked(call, deadline_s):
    raise AssertionError(f"{call.brief()}: what a log is found by is known")


def view(*containers, observed=True, rotator=None, status=None, **fields):
    base = PodStatus(container_statuses=(status,) if status else ())
    state = PodState(
        uid=UID,
        settings=PodSettings(log_root="/var/log/pods"),
        wanted=WantedPod(pod=wanted()),
        base=base,
        **fields,
    )
    if observed:
        state = change_view(state, observed=shown(box(), *containers))
    ports = AskedPorts(runtime=unasked, images=unasked, streams=unasked)
    return AgentView(Kernel(state, rotator), lambda: 1.0, lambda: 1, ports)


def run(state, attempt):
    return instance("a", state, attempt, log_path=f"{ROOT}/a/{attempt}.log")


def test_the_log_is_the_newest_runs_and_the_previous_one_is_the_one_before():
    seen = view(run("running", 2), run("exited", 1), run("exited", 0))
    target = seen.log_target("web", "", previous=False)
    assert (target.path, target.root, target.running) == (f"{ROOT}/a/2.log", ROOT, True)
    before = seen.log_target("web", "a", previous=True)
    assert (before.path, before.running) == (f"{ROOT}/a/1.log", False)


def test_of_a_container_that_waits_for_its_next_run_the_log_is_that_of_the_run_that_ended():
    seen = view(run("created", 2), run("exited", 1), run("exited", 0))
    assert seen.log_target("web", "a", previous=False).path == f"{ROOT}/a/1.log"
    assert seen.log_target("web", "a", previous=True).path == f"{ROOT}/a/1.log"


def test_in_a_crash_loop_the_previous_run_is_the_one_that_crashed_last():
    waiting = ContainerState(waiting=ContainerStateWaiting(reason="CrashLoopBackOff"))
    seen = view(run("exited", 1), run("exited", 0), status=ContainerStatus(name="a", state=waiting))
    for previous in (False, True):
        assert seen.log_target("web", "a", previous=previous).path == f"{ROOT}/a/1.log"
    ended = view(run("exited", 1), run("exited", 0))
    assert ended.log_target("web", "a", previous=True).path == f"{ROOT}/a/0.log"


def test_a_container_without_a_run_before_has_no_previous_log():
    with pytest.raises(NotFoundError, match='previous terminated container "a" in pod "web" not found'):
        view(run("running", 0)).log_target("web", "a", previous=True)


def test_a_container_that_never_ran_waits_to_start():
    with pytest.raises(RejectedError, match="is in an unknown state"):
        view().log_target("web", "a", previous=False)


def test_of_a_container_whose_record_was_removed_it_is_said_where_its_log_is_or_that_it_is_gone():
    ended = ContainerStatus(name="a", state=ContainerState(terminated=ContainerStateTerminated(exit_code=0)))
    seen = view(status=ended, memo=PodMemo(log_directory="/var/log/pods/default_web_u1"))
    with pytest.raises(NotFoundError, match=r"no record of it; .* in /var/log/pods/default_web_u1$"):
        seen.log_target("web", "a", previous=False)
    with pytest.raises(NotFoundError, match=r"its log was removed when the node was short of disk$"):
        view(status=ended, life=Finished(kill=KILL, cleaned=True)).log_target("web", "a", previous=False)


def test_what_the_runtime_has_not_said_yet_is_unavailable_so_that_followers_go_on():
    with pytest.raises(UnavailableError):
        view(observed=False).log_target("web", "a", previous=False)


def test_a_log_that_could_not_be_rotated_is_an_event_of_its_pod():
    trouble = Trouble(uid=UID, namespace="default", pod="web", container="a", message="no", at=5)
    other = replace(trouble, uid="u2", pod="other")
    seen = view(rotator=LogRotatorState(troubles=(trouble, other)))
    assert [(row.pod, row.reason) for row in seen.events("web")] == [("web", "LogRotationFailed")]
    assert [row.pod for row in seen.events("")] == ["web", "other"]
