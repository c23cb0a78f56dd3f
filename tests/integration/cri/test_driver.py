"""What only a server that misbehaves, or that counts its calls, can show of the CRI driver."""

import os
import threading
from pathlib import Path

import grpc
import pytest

from api.errors import FailureKind
from api.ports import images as i
from api.ports.confinement import Resources
from api.ports.images import ImageAuth, ImageFsUsage, ImageStatus, ListImages, PullImage, RemoveImage
from api.ports.runtime import (
    ANNOTATION_OWNER,
    LABEL_POD_UID,
    QUEUE_S,
    ContainerSpec,
    CreateContainer,
    ExecInContainer,
    InspectPod,
    ListPods,
    RemoveContainer,
    RemoveSandbox,
    ReopenContainerLog,
    RunSandbox,
    RuntimeContainerState,
    RuntimeStatus,
    SandboxSpec,
    SandboxState,
    StartContainer,
    StopContainer,
    StopSandbox,
    UpdateContainer,
)
from api.ports.streams import OpenExec
from api.ports.usage import ReadContainerStats
from runtime.drivers.cri import concurrency
from runtime.drivers.cri.driver import CriRuntime
from runtime.drivers.cri.follow import BARREN_STREAMS
from runtime.wire.generated import cri_pb2 as pb
from tests.harness.cri.cripersonality import IMAGE, Personality
from tests.harness.cri.criserver import CriError, not_found, outdated_runtime, silent_socket, unknown
from tests.harness.cri.critrait import CONTAINERD_2, CRIO
from tests.harness.runtimeport import port_for
from tests.harness.wait import until


class Hands:
    """A driver and what a test does with it."""

    def __init__(self, endpoint, folder):
        self.runtime = CriRuntime(endpoint=endpoint)
        self.folder = folder
        self.heard = []

    def begin(self, call, deadline_s=10.0):
        answers = []
        port = port_for(self.runtime, call)
        undo = port.begin(call, deadline_s, lambda result, failure: answers.append(result or failure))
        return answers, undo

    def call(self, call, deadline_s=10.0):
        answers, _ = self.begin(call, deadline_s)
        until(lambda: answers, f"an answer to {call.brief()}", deadline_s + 5, every_s=0.002)
        return answers[0]

    def listen(self):
        return self.runtime.events.open(lambda item: self.heard.append(item.uid), lambda _: None)

    def spec(self, uid="u", attempt=0, **fields):
        values = {
            "uid": uid,
            "name": f"pod-{uid}",
            "namespace": "n",
            "attempt": attempt,
            "labels": ((LABEL_POD_UID, uid),),
            "annotations": ((ANNOTATION_OWNER, "nodeagent"),),
            "log_directory": str(self.folder / "logs" / uid),
        }
        return SandboxSpec(**(values | fields))

    def sandbox(self, uid="u", attempt=0):
        return self.call(RunSandbox(spec=self.spec(uid, attempt))).sandboxes[0]

    def create(self, sandbox, *command, name="c", attempt=0, image=IMAGE):
        spec = ContainerSpec(
            name=name, attempt=attempt, image=image, command=command, log_path=f"{name}/{attempt}.log"
        )
        box = self.spec(sandbox.uid, sandbox.attempt)
        return self.call(CreateContainer(uid=sandbox.uid, sandbox_id=sandbox.id, sandbox=box, spec=spec))

    def start(self, sandbox, *command, name="c"):
        pod = self.create(sandbox, *command, name=name)
        made = next(one for one in pod.containers if one.name == name)
        pod = self.call(StartContainer(uid=sandbox.uid, container_id=made.id))
        return next(one for one in pod.containers if one.name == name)


@pytest.fixture
def runtime(tmp_path):
    with Personality(tmp_path, CONTAINERD_2) as personality:
        yield personality


@pytest.fixture
def hands(runtime, tmp_path):
    hands = Hands(runtime.endpoint, tmp_path)
    yield hands
    hands.runtime.close()


# -- what it costs


def test_an_unchanged_pod_costs_two_listings_and_no_inspection(runtime, hands):
    sandbox = hands.sandbox()
    hands.start(sandbox, "sleep", "100", name="runs")
    hands.start(sandbox, "true", name="ends")
    until(
        lambda: all(
            one.state is RuntimeContainerState.EXITED or one.name == "runs"
            for one in hands.call(InspectPod(uid="u")).containers
        ),
        "the exit",
    )
    begun = len(runtime.server.calls)
    hands.call(InspectPod(uid="u"))
    names = [name for name, _ in runtime.server.calls[begun:]]
    assert sorted(names) == ["ListContainers", "ListPodSandbox"]


def test_a_pod_is_listed_by_its_uid(runtime, hands):
    hands.sandbox()
    hands.call(InspectPod(uid="u"))
    filters = [request.filter.label_selector for name, request in runtime.server.calls if "List" in name]
    assert {selector[LABEL_POD_UID] for selector in filters} == {"u"}


def test_a_listing_is_complete_once_everything_was_looked_at(runtime, hands):
    sandbox = hands.sandbox()
    hands.start(sandbox, "sleep", "100")
    assert hands.call(ListPods()).complete
    second = Hands(runtime.endpoint, hands.folder)
    assert not second.call(ListPods()).complete
    shown = second.call(InspectPod(uid="u"))
    assert second.call(ListPods()).pods == (shown,)
    second.runtime.close()


def test_what_runs_already_is_looked_at_when_somebody_listens(runtime, hands):
    container = hands.start(hands.sandbox(), "sleep", "100")
    second = Hands(runtime.endpoint, hands.folder)
    second.listen()
    until(lambda: second.call(ListPods()).complete, "everything is known", every_s=0.1)
    second.heard.clear()
    os.kill(container.pid, 9)
    until(lambda: second.heard, "the hint of the exit", 5.0)
    assert second.call(InspectPod(uid="u")).containers[0].exit_code == 137
    second.runtime.close()


# -- calls that hang


def test_a_hung_inspection_of_one_container_holds_up_no_listing_and_no_other_pod(runtime, hands):
    hands.start(hands.sandbox("sick"), "sleep", "100")
    hands.sandbox("well")
    second = Hands(runtime.endpoint, hands.folder)
    hold = runtime.server.hold("ContainerStatus")
    stuck, _ = second.begin(InspectPod(uid="sick"), 60.0)
    until(lambda: hold.held, "the inspection hangs")
    assert [pod.uid for pod in second.call(ListPods()).pods] == ["sick", "well"]
    assert second.call(InspectPod(uid="well")).sandboxes[0].state is SandboxState.READY
    assert not stuck
    hold.release()
    until(lambda: stuck, "the inspection goes on")
    second.runtime.close()


@pytest.fixture
def two_at_once(runtime, tmp_path):
    """Return hands whose driver makes two heavy calls at once, each of which may take 2 s, a sandbox 4 s."""
    hands = Hands(runtime.endpoint, tmp_path)
    hands.runtime.close()
    hands.runtime = CriRuntime(endpoint=runtime.endpoint, heavy_at_once=2, request_timeout_s=2.0)
    yield hands
    hands.runtime.close()


def test_heavy_calls_wait_for_each_other_and_light_ones_and_stops_for_nobody(
    runtime, two_at_once, monkeypatch
):
    monkeypatch.setattr(concurrency, "PATIENCE_S", 60.0)
    monkeypatch.setattr(concurrency, "LONGEST_S", 60.0)
    hands = two_at_once
    container = hands.start(hands.sandbox("first"), "sleep", "100")
    hold = runtime.server.hold("RunPodSandbox")
    waiting = [hands.begin(RunSandbox(spec=hands.spec(f"w{n}")), 60.0)[0] for n in range(5)]
    until(lambda: hold.held == 2, "as many as the bound are under way")
    stopped = hands.call(StopContainer(uid="first", container_id=container.id, grace_s=0))
    assert stopped.containers[0].exit_code == 137
    assert len(hands.call(ListPods()).pods) == 1
    assert (hold.held, waiting) == (2, [[], [], [], [], []])
    hold.release()
    until(lambda: all(waiting), "all went on")
    assert [answer[0].uid for answer in waiting] == [f"w{n}" for n in range(5)]


def test_heavy_calls_that_hang_hold_up_nobody_else(runtime, two_at_once):
    hands = two_at_once
    hold = runtime.server.hold(
        "RunPodSandbox", lambda request: request.config.metadata.uid.startswith("hung")
    )
    hung = [hands.begin(RunSandbox(spec=hands.spec(f"hung{n}")), 60.0)[0] for n in range(5)]
    assert hands.sandbox("well").state is SandboxState.READY
    until(lambda: hold.held == 5, "all are under way")
    assert not any(hung)
    until(lambda: all(hung), "each has its own deadline", 10.0)
    assert {answer[0].kind for answer in hung} == {FailureKind.TIMED_OUT}


def test_the_time_that_a_heavy_call_waits_is_none_of_its_own(runtime, two_at_once, monkeypatch):
    monkeypatch.setattr(concurrency, "PATIENCE_S", 1.5)
    monkeypatch.setattr(concurrency, "LONGEST_S", 1.5)
    hands = two_at_once
    hands.call(RuntimeStatus())
    hold = runtime.server.hold("RunPodSandbox")
    asked = [hands.begin(RunSandbox(spec=hands.spec(f"u{n}")), 4.0 + QUEUE_S)[0] for n in range(4)]
    until(lambda: hold.held == 4, "all are under way")
    limits = [limit_s for name, limit_s in runtime.server.limits_s if name == "RunPodSandbox"]
    assert [round(limit_s) for limit_s in limits] == [4, 4, 4, 4]
    hold.release()
    until(lambda: all(asked), "all went on")


def test_each_call_may_take_the_request_timeout_as_with_a_kubelet(runtime, tmp_path):
    hands = Hands(runtime.endpoint, tmp_path)
    hands.runtime.close()
    hands.runtime = CriRuntime(endpoint=runtime.endpoint, request_timeout_s=200.0)
    hands.listen()
    sandbox = hands.call(RunSandbox(spec=hands.spec()), 1000.0).sandboxes[0]
    spec = ContainerSpec(name="c", attempt=0, image=IMAGE, command=("sleep", "100"), log_path="c/0.log")
    create = CreateContainer(uid="u", sandbox_id=sandbox.id, sandbox=hands.spec(), spec=spec)
    own = {"uid": "u", "container_id": hands.call(create, 1000.0).containers[0].id}
    for call in (
        StartContainer(**own),
        ExecInContainer(**own, command=("true",), timeout_s=4.0),
        UpdateContainer(**own, resources=Resources()),
        ReopenContainerLog(**own),
        OpenExec(**own, command=("true",), stdout=True),
        ListPods(),
        RuntimeStatus(),
        ListImages(),
        ImageStatus(image=IMAGE),
        ImageFsUsage(),
        ReadContainerStats(),
        PullImage(image=IMAGE),
        StopContainer(**own, grace_s=3.0),
        RemoveContainer(**own),
        StopSandbox(uid="u", sandbox_id=sandbox.id),
        RemoveSandbox(uid="u", sandbox_id=sandbox.id),
        RemoveImage(image=IMAGE),
    ):
        hands.call(call, i.PULL_LIMIT_S)
    hands.runtime.close()
    told = list(runtime.server.limits_s)
    other = {"RunPodSandbox": 400, "ExecSync": 204, "StopContainer": 203, "PullImage": i.PULL_LIMIT_S}
    looks = {"Version", "ListPodSandbox", "ListContainers", "PodSandboxStatus", "ContainerStatus"}
    assert {name for name, _ in told} >= {*other, *looks}
    # gRPC counts long times in hours, and a call takes a moment to arrive.
    assert [(name, s) for name, s in told if s != pytest.approx(other.get(name, 200), rel=0.05)] == []


def test_images_are_asked_of_the_image_service_where_there_is_one_of_its_own(runtime, hands, tmp_path):
    (tmp_path / "images").mkdir()
    with Personality(tmp_path / "images", CRIO) as keeper:
        hands.runtime.close()
        hands.runtime = CriRuntime(endpoint=runtime.endpoint, image_endpoint=keeper.endpoint)
        hands.call(RemoveImage(image=hands.call(ListImages()).images[0].id))
        assert hands.call(ListImages()).images == ()
        assert hands.call(RuntimeStatus()).ready
        asked = {name for name, _ in keeper.server.limits_s}
        assert asked == {"ListImages", "RemoveImage", "ImageFsInfo"}
        assert asked.isdisjoint(name for name, _ in runtime.server.limits_s)
        keeper.server.stop()
        failure = hands.call(ListImages(), 3.0)
        assert failure.kind is FailureKind.UNAVAILABLE
        assert hands.call(ListPods()).pods == ()


def test_a_call_past_its_deadline_is_told_as_unknown(runtime, hands):
    hold = runtime.server.hold("RunPodSandbox")
    failure = hands.call(RunSandbox(spec=hands.spec()), 0.3)
    assert failure.kind is FailureKind.TIMED_OUT
    assert "RunPodSandbox" in failure.message
    assert runtime.endpoint.removeprefix("unix://") in failure.message
    hold.release()


def test_closing_answers_what_is_under_way(runtime, hands):
    hold = runtime.server.hold("RunPodSandbox")
    answers, _ = hands.begin(RunSandbox(spec=hands.spec()), 60.0)
    until(lambda: hold.held, "the call is under way")
    hands.runtime.close()
    until(lambda: answers, "an answer")
    assert answers[0].kind is FailureKind.CANCELLED
    assert hands.call(ListPods()).kind is FailureKind.CANCELLED


# -- sockets


def test_a_socket_that_takes_connections_and_never_answers_times_out_by_name(tmp_path):
    with silent_socket(f"{tmp_path}/s") as endpoint:
        hands = Hands(endpoint, tmp_path)
        failure = hands.call(RuntimeStatus(), 0.5)
        hands.runtime.close()
    assert failure.kind is FailureKind.TIMED_OUT
    assert f"{tmp_path}/s" in failure.message


def test_a_missing_socket_is_one_line_with_what_to_do(tmp_path):
    hands = Hands(f"unix://{tmp_path}/missing", tmp_path)
    failure = hands.call(RuntimeStatus())
    hands.runtime.close()
    assert failure.kind is FailureKind.UNAVAILABLE
    assert f"there is no socket {tmp_path}/missing: start the container runtime" in failure.message
    assert "\n" not in failure.message


def test_a_runtime_that_speaks_only_v1alpha2_is_told_so_with_what_to_do(tmp_path):
    with outdated_runtime(f"{tmp_path}/o") as endpoint:
        hands = Hands(endpoint, tmp_path)
        for call in (RuntimeStatus(), ListPods(), RunSandbox(spec=hands.spec())):
            failure = hands.call(call)
            assert failure.kind is FailureKind.UNAVAILABLE
            assert "does not speak CRI v1" in failure.message
            assert "v1alpha2" in failure.message
            assert "\n" not in failure.message
        hands.runtime.close()


def test_after_a_restart_of_the_runtime_everything_goes_on_by_itself(runtime, hands):
    container = hands.start(hands.sandbox(), "sleep", "100")
    hands.listen()
    runtime.server.stop()
    failure = hands.call(InspectPod(uid="u"))
    assert failure.kind is FailureKind.UNAVAILABLE
    assert "socket" in failure.message
    runtime.server.start()
    until(lambda: hasattr(hands.call(InspectPod(uid="u")), "containers"), "it answers again")
    hands.heard.clear()
    os.kill(container.pid, 9)
    until(lambda: hands.heard, "a hint of the exit", 5.0)
    assert hands.call(InspectPod(uid="u")).containers[0].exit_code == 137


# -- events


def test_without_events_of_the_runtime_exits_are_heard_of_and_the_stream_is_given_up(tmp_path):
    with Personality(tmp_path, CRIO) as runtime:
        hands = Hands(runtime.endpoint, tmp_path)
        hands.runtime._follower._delay_s = 0.001
        hands.listen()
        container = hands.start(hands.sandbox(), "sleep", "100")
        assert not hands.heard, "a start is told by its call"
        os.kill(container.pid, 9)
        until(lambda: hands.heard, "the hint of the exit", 2.0)
        assert hands.call(InspectPod(uid="u")).containers[0].state is RuntimeContainerState.EXITED
        until(lambda: hands.runtime._follower.given_up, "the stream is given up", 15.0)
        assert runtime.server.count("GetContainerEvents") == BARREN_STREAMS
        hands.runtime.close()


def test_a_change_that_another_client_makes_is_heard_of_where_the_runtime_has_events(runtime, hands):
    hands.listen()
    until(lambda: runtime.server.count("GetContainerEvents"), "events are followed")
    other = Hands(runtime.endpoint, hands.folder)
    other.sandbox("theirs")
    until(lambda: "theirs" in hands.heard, "the hint")
    other.runtime.close()


def test_a_process_that_is_not_the_containers_is_not_taken_for_it(runtime, hands):
    container = hands.start(hands.sandbox(), "sleep", "100")
    watch = hands.runtime._watch
    until(lambda: any(entry.fd >= 0 for entry in watch._watched.values()), "it is watched")
    assert [entry.pid for entry in watch._watched.values()] == [container.pid]
    until(lambda: runtime.server.count("ContainerStatus") >= 2, "the runtime was asked whose the process is")


def test_a_listener_that_raises_costs_one_hint_and_no_later_one(tmp_path):
    bugs, heard = [], []

    def push(item):
        heard.append(item.uid)
        assert len(heard) > 1, "the first hint meets a bug"

    # One without events: they have a thread of their own.
    with Personality(tmp_path, CRIO) as runtime:
        hands = Hands(runtime.endpoint, tmp_path)
        hands.runtime.close()
        hands.runtime = CriRuntime(endpoint=runtime.endpoint, on_bug=lambda *bug: bugs.append(bug))
        hands.runtime.events.open(push, lambda _: None)
        for uid in ("first", "second"):
            os.kill(hands.start(hands.sandbox(uid), "sleep", "100").pid, 9)
            until(lambda uid=uid: uid in heard, f"the hint of the exit in {uid}", 5.0)
        [(what, error)] = bugs
        assert what.startswith("ExitWatch.")
        assert isinstance(error, AssertionError)
        hands.runtime.close()


# -- doing a thing twice


def test_a_reserved_name_of_nothing_that_is_shown_is_tried_again_later(runtime, hands):
    runtime.server.fail("RunPodSandbox", unknown('failed to reserve sandbox name "x": name is reserved'))
    failure = hands.call(RunSandbox(spec=hands.spec()))
    assert failure.kind is FailureKind.UNAVAILABLE
    assert "reserve" in failure.message


def test_a_creation_whose_answer_was_lost_is_found(runtime, hands):
    sandbox = hands.sandbox()
    first = hands.create(sandbox, "sleep", "100")
    assert hands.create(sandbox, "sleep", "100") == first
    assert hands.create(sandbox, "sleep", "200").kind is FailureKind.ALREADY_EXISTS


def test_a_later_agent_makes_containers_in_a_sandbox_of_an_earlier_one(runtime, hands):
    sandbox = hands.sandbox()
    second = Hands(runtime.endpoint, hands.folder)
    pod = second.create(sandbox, "sleep", "100")
    assert pod.containers[0].log_path == f"{hands.folder}/logs/u/c/0.log"
    sent = next(r for name, r in runtime.server.calls if name == "CreateContainer").sandbox_config
    made = next(r for name, r in runtime.server.calls if name == "RunPodSandbox").config
    assert sent == made
    second.runtime.close()


def test_containers_are_made_in_a_sandbox_of_another_agent_and_the_runtime_is_told_of_it_again(
    runtime, hands
):
    stub = hands.runtime._link
    meta = pb.PodSandboxMetadata(name="p", namespace="n", uid="foreign")
    config = pb.PodSandboxConfig(metadata=meta, log_directory=str(hands.folder / "f"))
    made = threading.Event()
    from runtime.wire import cri  # noqa: PLC0415

    stub.channel.begin(cri.RUN_SANDBOX, pb.RunPodSandboxRequest(config=config), 5.0, lambda *_: made.set())
    assert made.wait(5)
    [pod] = hands.call(ListPods()).pods
    assert (pod.uid, pod.ours) == ("foreign", False)
    assert hands.call(InspectPod(uid="foreign")).sandboxes == hands.call(ListPods()).pods[0].sandboxes
    [container] = hands.create(pod.sandboxes[0], "true").containers
    assert container.sandbox_id == pod.sandboxes[0].id
    sent = next(r for name, r in runtime.server.calls if name == "CreateContainer").sandbox_config
    assert (sent.metadata.uid, sent.log_directory) == ("foreign", f"{hands.folder}/logs/foreign")


def test_an_image_that_went_away_is_told_by_the_name_that_was_asked_for(runtime, hands):
    sandbox = hands.sandbox()
    refused = hands.create(sandbox, "true", image="gone.test/x:1")
    assert (refused.kind, refused.reason) == (FailureKind.REJECTED, "ImageNotFound")
    assert "gone.test/x:1" in refused.message


def test_a_running_container_is_not_removed(runtime, hands):
    from api.ports.runtime import RemoveContainer  # noqa: PLC0415

    container = hands.start(hands.sandbox(), "sleep", "100")
    refused = hands.call(RemoveContainer(uid="u", container_id=container.id))
    assert refused.kind is FailureKind.CONFLICT
    assert runtime.server.count("RemoveContainer") == 0


def test_a_sandbox_is_stopped_before_it_is_removed(runtime, hands):
    sandbox = hands.sandbox()
    assert hands.call(RemoveSandbox(uid="u", sandbox_id=sandbox.id)).sandboxes == ()
    order = [name for name, _ in runtime.server.calls if name in ("StopPodSandbox", "RemovePodSandbox")]
    assert order == ["StopPodSandbox", "RemovePodSandbox"]


def test_a_log_folder_that_cannot_be_made_is_one_line(runtime, hands):
    blocked = Path(hands.folder / "file")
    blocked.write_text("")
    refused = hands.call(RunSandbox(spec=hands.spec(log_directory=str(blocked / "logs"))))
    assert refused.kind is FailureKind.REJECTED
    assert str(blocked) in refused.message
    assert runtime.server.count("RunPodSandbox") == 0


def test_both_forms_of_a_late_command_are_the_same(tmp_path):
    for number, traits in enumerate((CONTAINERD_2, CRIO)):
        folder = tmp_path / str(number)
        folder.mkdir()
        with Personality(folder, traits) as runtime:
            hands = Hands(runtime.endpoint, folder)
            container = hands.start(hands.sandbox(), "sleep", "100")
            late = hands.call(
                ExecInContainer(uid="u", container_id=container.id, command=("sleep", "50"), timeout_s=0.5)
            )
            assert late.kind is FailureKind.TIMED_OUT
            assert "0.5 s" in late.message
            hands.runtime.close()


def test_grace_is_sent_in_whole_seconds_upwards_and_none_as_none(runtime, hands):
    container = hands.start(hands.sandbox(), "sleep", "100")
    for grace_s in (0.2, 1, 0):
        hands.call(StopContainer(uid="u", container_id=container.id, grace_s=grace_s))
    sent = [request.timeout for name, request in runtime.server.calls if name == "StopContainer"]
    assert sent == [1, 1, 0]


# -- images


def test_images_are_listed_looked_up_pulled_and_removed(runtime, hands):
    assert IMAGE in [name for row in hands.call(ListImages()).images for name in row.names]
    shown = hands.call(ImageStatus(image=IMAGE)).image
    assert IMAGE in shown.names
    assert hands.call(ImageStatus(image="nobody/has:1")).image is None
    hands.call(RemoveImage(image=shown.id))
    hands.call(RemoveImage(image=shown.id))
    assert hands.call(ImageStatus(image=IMAGE)).image is None
    usage = hands.call(ImageFsUsage())
    assert 0 < usage.available_bytes <= usage.capacity_bytes


def test_what_the_runtime_counts_is_shown_and_what_it_leaves_out_is_not_known(runtime, hands):
    sandbox = hands.sandbox()
    container = hands.start(sandbox, "sleep", "1000")
    [row] = hands.call(ReadContainerStats()).rows
    assert row.id == container.id
    assert row.cpu.total_ns == 5_000_000
    assert row.memory.working_set_bytes == row.memory.usage_bytes == 1 << 20
    assert row.layer.used_bytes == 4096
    assert (row.swap, row.memory.rss_bytes, row.layer.inodes_used, row.cpu.nano_cores) == (None,) * 4


def test_a_runtime_without_stats_says_so_once_and_for_all(runtime, hands):
    runtime.server.fail("ListContainerStats", CriError(grpc.StatusCode.UNIMPLEMENTED, "unknown method"))
    assert hands.call(ReadContainerStats()).kind is FailureKind.REJECTED


def test_credentials_reach_the_runtime_and_nothing_else(runtime, hands):
    runtime.server.fail("PullImage", unknown("pull access denied for s3cret, try https://me:s3cret@r/"))
    call = PullImage(image="r/x:1", auth=ImageAuth(username="me", password="s3cret"))
    failure = hands.call(call)
    assert failure.kind is FailureKind.DENIED
    assert "s3cret" not in failure.message
    sent = next(request for name, request in runtime.server.calls if name == "PullImage")
    assert (sent.auth.username, sent.auth.password) == ("me", "s3cret")


def test_a_pull_can_be_given_up(runtime, hands):
    hold = runtime.server.hold("PullImage")
    answers, undo = hands.begin(PullImage(image="r/x:1"), 3600.0)
    until(lambda: hold.held, "the pull is under way")
    undo()
    until(lambda: answers, "an answer")
    assert answers[0].kind is FailureKind.CANCELLED


def test_what_vanishes_between_listing_and_looking_is_left_out(runtime, hands):
    sandbox = hands.sandbox()
    # What was just made is looked at alone first, then its pod is listed.
    runtime.server.fail("ContainerStatus", not_found("gone"), times=2)
    pod = hands.create(sandbox, "true")
    assert runtime.server.count("ListContainers")
    assert pod.containers == ()


# -- amounts that change


@pytest.fixture
def resize(hands):
    """Return the call that gives a container, which nobody but a later driver looks at, other amounts."""
    sandbox = hands.sandbox()
    made = hands.create(sandbox, "sleep", "100").containers[0]
    return UpdateContainer(uid=sandbox.uid, container_id=made.id, resources=Resources(cpu_shares=300))


@pytest.fixture
def later(runtime, tmp_path):
    later = Hands(runtime.endpoint, tmp_path)
    yield later
    later.runtime.close()


def shares(pod):
    return pod.containers[0].resources.cpu_shares


def look_from_before(runtime, later, resize):
    """Begin an inspection that the runtime has carried out, but whose answer is on its way still."""
    first = iter((True,))
    old = runtime.server.hold("ContainerStatus", lambda _: next(first, False), after=True)
    answers, _ = later.begin(InspectPod(uid=resize.uid))
    until(lambda: old.held, "an inspection of before")
    return old, answers


def test_an_inspection_from_before_a_resize_is_not_what_the_resize_returns(runtime, later, resize):
    old, answers = look_from_before(runtime, later, resize)
    listing = runtime.server.hold("ListContainers")
    resized, _ = later.begin(resize)
    until(lambda: listing.held, "the resize to be looked after")
    old.release()
    until(lambda: answers, "the inspection")
    listing.release()
    until(lambda: resized, "the resize")
    assert (shares(answers[0]), shares(resized[0])) == (300, 300)


def test_an_inspection_from_before_a_resize_that_comes_after_it_changes_nothing(runtime, later, resize):
    old, answers = look_from_before(runtime, later, resize)
    assert shares(later.call(resize)) == 300
    old.release()
    until(lambda: answers, "the inspection")
    assert (shares(answers[0]), shares(later.call(InspectPod(uid=resize.uid)))) == (300, 300)


def test_a_resize_that_nobody_answered_may_have_come_through(runtime, later, resize):
    assert shares(later.call(InspectPod(uid=resize.uid))) == 0
    runtime.server.hold("UpdateContainerResources", after=True)
    assert later.call(resize, deadline_s=0.3).kind is FailureKind.TIMED_OUT
    assert shares(later.call(InspectPod(uid=resize.uid))) == 300
