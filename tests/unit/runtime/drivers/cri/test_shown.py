"""What the runtime shows becomes our words, with the same rules for every runtime."""

import pytest

from api.errors import DeniedError, FailureKind, NotFoundError, RejectedError, UnavailableError
from api.ports.confinement import Resources
from api.ports.images import ImageAuth, PullImage
from api.ports.runtime import (
    ANNOTATION_TERMINATION_PATH,
    ContainerIds,
    RuntimeContainerState,
    SandboxState,
)
from runtime.drivers.cri import annotation, shown
from runtime.drivers.cri.image import pull_error
from runtime.drivers.cri.known import Known, overtakes
from runtime.drivers.cri.view import in_time
from runtime.wire.generated import cri_pb2 as pb

ID = "ab" * 32
CREATED, RUNNING, EXITED, UNKNOWN = (
    RuntimeContainerState.CREATED,
    RuntimeContainerState.RUNNING,
    RuntimeContainerState.EXITED,
    RuntimeContainerState.UNKNOWN,
)


def row(state=pb.CONTAINER_RUNNING, identity=ID, **fields):
    values = {
        "id": identity,
        "pod_sandbox_id": "cd" * 32,
        "metadata": pb.ContainerMetadata(name="main", attempt=1),
        "image": pb.ImageSpec(image="shop/web:1"),
        "image_ref": "sha256:1",
        "state": state,
        "created_at": 10,
        "labels": {"b": "2", "a": "1"},
        "annotations": {"x": "y", annotation.SPEC: "d"},
    }
    return pb.Container(**(values | fields))


def status(state=pb.CONTAINER_EXITED, **fields):
    values = {
        "id": ID,
        "state": state,
        "created_at": 10,
        "started_at": 20,
        "finished_at": 30,
        "exit_code": 0,
        "image": pb.ImageSpec(image="shop/web:latest"),
        "image_ref": "shop/web@sha256:2",
        "log_path": "/l/main/1.log",
    }
    return pb.ContainerStatus(**(values | fields))


def inspected(*, listed=None, pid=0, **fields):
    return shown.with_details(shown.container(listed or row(), "containerd"), status(**fields), pid)


def test_a_listed_container_has_its_scheme_sorted_pairs_and_none_of_the_drivers_own():
    container = shown.container(row(), "cri-o")
    assert container.id == f"cri-o://{ID}"
    assert container.labels == (("a", "1"), ("b", "2"))
    assert container.annotations == (("x", "y"),)
    assert (container.image, container.image_id) == ("shop/web:1", "sha256:1")


def test_labels_that_the_driver_added_are_not_shown():
    added = row(
        labels={"a": "1", "io.kubernetes.pod.uid": "u"},
        annotations={annotation.ADDED: "io.kubernetes.pod.uid"},
    )
    assert shown.container(added, "x").labels == (("a", "1"),)


@pytest.mark.parametrize(
    ("code", "reason", "expected"),
    [
        (0, "", (0, "Completed")),
        (3, "", (3, "Error")),
        (137, "OOMKilled", (137, "OOMKilled")),
        (255, "", (255, "Error")),
        (-1, "", (255, "Error")),
        (128, "StartError", (128, "StartError")),
    ],
)
def test_an_exit_has_a_code_and_a_reason(code, reason, expected):
    ended = inspected(exit_code=code, reason=reason)
    assert (ended.state, ended.exit_code, ended.reason, ended.finished_at) == (EXITED, *expected, 30)


def test_an_exit_that_is_not_recorded_yet_is_not_shown_as_one():
    ended = inspected(finished_at=0)
    assert (ended.state, ended.exit_code, ended.finished_at) == (RUNNING, None, None)


def test_a_start_is_never_after_its_end():
    assert inspected(started_at=40).started_at == 30


def test_a_container_that_never_started_has_no_start():
    assert inspected(started_at=0).started_at is None


def test_a_pid_is_shown_while_it_runs():
    assert inspected(state=pb.CONTAINER_RUNNING, finished_at=0, pid=7).pid == 7
    assert inspected(pid=7).pid == 0


def test_an_image_that_was_asked_for_by_id_is_shown_by_its_name():
    by_id = row(image=pb.ImageSpec(image="sha256:" + "ef" * 32))
    assert inspected(listed=by_id).image == "shop/web:latest"
    assert inspected().image == "shop/web:1"


def test_the_file_of_its_last_words_is_found_whatever_way_the_path_is_written():
    listed = row(annotations={ANNOTATION_TERMINATION_PATH: "dev//term/"})
    mounts = [pb.Mount(container_path="/dev/term", host_path="/pods/u/x")]
    assert inspected(listed=listed, mounts=mounts).termination_log == "/pods/u/x"
    assert inspected(listed=listed).termination_log == ""


def test_images_mounted_as_volumes_are_told():
    mounts = [pb.Mount(container_path="/m", image=pb.ImageSpec(image="m:1")), pb.Mount(container_path="/d")]
    assert inspected(mounts=mounts).image_mounts == ("m:1",)


def test_of_a_verbose_answer_only_the_pid_is_read():
    assert shown.pid_of({"info": '{"sandboxID": "x", "pid": 77, "runtimeSpec": {"env": ["A=b"]}}'}) == 77
    assert shown.pid_of({"info": "no json"}) == 0
    assert shown.pid_of({"info": '{"pid": "text"}'}) == 0
    assert shown.pid_of({}) == 0


def sandbox_row(state=pb.SANDBOX_READY, **fields):
    meta = pb.PodSandboxMetadata(name="web", uid="u", namespace="n", attempt=1)
    return pb.PodSandbox(id="cd" * 32, metadata=meta, state=state, created_at=5, **fields)


def with_network(network=None, mode=pb.POD, state=pb.SANDBOX_READY):
    told = pb.PodSandboxStatus(id="cd" * 32, state=state, network=network)
    told.linux.namespaces.options.network = mode
    return shown.with_network(shown.sandbox(sandbox_row()), told)


def test_addresses_come_in_order_and_their_absence_is_not_unknown():
    network = pb.PodSandboxNetworkStatus(ip="10.0.0.1", additional_ips=[pb.PodIP(ip="fd00::1")])
    assert with_network(network).ips == ("10.0.0.1", "fd00::1")
    assert (
        with_network(pb.PodSandboxNetworkStatus()).ips,
        with_network(pb.PodSandboxNetworkStatus()).network_known,
    ) == ((), True)
    assert with_network(None).network_known is False


def test_on_the_hosts_network_there_are_no_addresses_of_its_own():
    sandbox = with_network(pb.PodSandboxNetworkStatus(ip="192.0.2.1"), mode=pb.NODE)
    assert (sandbox.host_network, sandbox.ips, sandbox.network_known) == (True, (), True)


def test_only_two_conditions_matter():
    conditions = [
        pb.RuntimeCondition(type="RuntimeReady", status=True),
        pb.RuntimeCondition(type="NetworkReady", status=False, reason="Why", message="no plugin"),
        pb.RuntimeCondition(type="ContainerdHasNoDeprecationWarnings", status=False),
    ]
    reply = pb.StatusResponse(status=pb.RuntimeStatus(conditions=conditions))
    info = shown.runtime_info(pb.VersionResponse(runtime_name="r", runtime_version="1"), reply, "")
    assert (info.ready, info.network_ready) == (True, False)
    assert info.detail == "NetworkReady: false: Why: no plugin"
    assert info.ready_condition == ""
    assert info.network_condition == "NetworkReady=false reason:Why message:no plugin"


def test_a_condition_that_is_not_told_is_not_well():
    info = shown.runtime_info(pb.VersionResponse(runtime_name="r"), pb.StatusResponse(), "systemd")
    assert (info.ready_condition, info.network_condition) == ("<nil>", "<nil>")
    assert (info.ready, info.network_ready, info.cgroup_driver) == (False, False, "systemd")


def test_a_server_that_is_no_runtime_is_told_so():
    with pytest.raises(UnavailableError, match="socket /s"):
        shown.check_version(pb.VersionResponse(version="0.2.0", runtime_name="x"), "socket /s")


# -- what is known


def known():
    lives, gone = [], []
    book = Known(lambda *what: lives.append(what), gone.append)
    book.scheme = "containerd"
    return book, lives, gone


@pytest.mark.parametrize(
    ("state", "before", "newer"),
    [
        (RUNNING, CREATED, True),
        (EXITED, CREATED, True),
        (EXITED, RUNNING, True),
        (CREATED, RUNNING, False),
        (RUNNING, EXITED, False),
        (UNKNOWN, EXITED, False),
        (UNKNOWN, RUNNING, True),
        (RUNNING, UNKNOWN, True),
        (RUNNING, RUNNING, False),
    ],
)
def test_states_go_forward_only(state, before, newer):
    assert overtakes(state, before) is newer


def test_what_was_inspected_holds_until_a_listing_shows_a_newer_state():
    book, lives, _ = known()
    book.absorb_container_row(row())
    assert not book.settled(ID)
    book.absorb_container_status(status(state=pb.CONTAINER_RUNNING, finished_at=0), 7, book.moment)
    assert book.settled(ID)
    assert lives == [(ID, "", 7, False)]
    book.absorb_container_row(row())
    assert book.settled(ID)
    book.absorb_container_row(row(state=pb.CONTAINER_EXITED))
    assert not book.settled(ID)
    assert not book.absorb_container_status(status(exit_code=4), 0, book.moment)
    assert (book.settled(ID), book.container(ID).exit_code) == (True, 4)


def test_an_answer_that_was_overtaken_changes_nothing():
    book, _, _ = known()
    book.absorb_container_row(row())
    book.absorb_container_status(status(exit_code=4), 0, book.moment)
    book.absorb_container_status(status(state=pb.CONTAINER_RUNNING, finished_at=0), 7, book.moment)
    book.absorb_container_row(row())
    assert (book.container(ID).state, book.container(ID).exit_code) == (EXITED, 4)


def test_an_unfinished_exit_stays_to_be_asked_for():
    book, _, _ = known()
    book.absorb_container_row(row(state=pb.CONTAINER_EXITED))
    assert book.absorb_container_status(status(finished_at=0), 0, book.moment)
    assert (book.settled(ID), book.container(ID).state) == (False, RUNNING)


@pytest.mark.parametrize(("given", "shares"), [(Resources(cpu_shares=9), 9), (None, 7)])
def test_what_was_asked_before_the_amounts_may_have_changed_is_to_be_asked_again(given, shares):
    def answer(cpu_shares):
        linux = pb.LinuxContainerResources(cpu_shares=cpu_shares)
        return status(state=pb.CONTAINER_RUNNING, resources=pb.ContainerResources(linux=linux))

    book, _, _ = known()
    book.absorb_container_row(row())
    begun = book.moment
    book.absorb_container_status(answer(7), 0, begun)
    book.set_amounts(ID, given)
    assert book.absorb_container_status(answer(7), 0, begun)
    assert (book.settled(ID), book.container(ID).resources.cpu_shares) == (False, shares)
    assert not book.absorb_container_status(answer(8), 0, book.moment)
    assert (book.settled(ID), book.container(ID).resources.cpu_shares) == (True, 8)


def test_what_a_complete_listing_does_not_hold_is_forgotten_unless_it_is_newer():
    book, _, gone = known()
    book.absorb_container_row(row())
    before = book.moment
    book.absorb_container_row(row(identity="new"))
    book.keep([], before)
    assert gone == [ID]
    assert book.container(ID) is None
    assert book.container("new") is not None


def test_a_sandbox_that_stopped_has_no_addresses_and_does_not_come_back():
    book, _, _ = known()
    book.absorb_sandbox_row(sandbox_row())
    told = pb.PodSandboxStatus(id="cd" * 32, network=pb.PodSandboxNetworkStatus(ip="10.0.0.1"))
    book.absorb_sandbox_status(told, 0)
    assert book.settled("cd" * 32)
    book.absorb_sandbox_row(sandbox_row(state=pb.SANDBOX_NOTREADY))
    book.absorb_sandbox_status(told, 0)
    sandbox = book.sandbox("cd" * 32)
    assert (sandbox.state, sandbox.ips, sandbox.network_known) == (SandboxState.NOT_READY, (), False)


def test_creation_times_strictly_increase_also_where_the_clock_stood():
    sandbox = shown.sandbox(sandbox_row())
    containers = [
        shown.container(
            row(identity=name, created_at=5, metadata=pb.ContainerMetadata(name=name, attempt=a)), "x"
        )
        for name, a in (("c", 1), ("a", 0), ("b", 0))
    ]
    [first], later = in_time([sandbox], containers)
    assert [(k.name, k.created_at) for k in later] == [("c", 8), ("b", 7), ("a", 6)]
    assert first.created_at == 5


# -- pulls

CALL = PullImage(image="shop/web:1", auth=ImageAuth(username="me", password="s3cret", auth="bWU6czNjcmV0"))


@pytest.mark.parametrize(
    ("said", "kind", "reason"),
    [
        ("pull access denied, repository does not exist or may require authorization", DeniedError, ""),
        ("unexpected status code https://r/v2/: 401 Unauthorized", DeniedError, ""),
        ("failed to parse image reference: invalid reference format", RejectedError, "InvalidImageName"),
        ("dial tcp 127.0.0.1:1: connect: connection refused", UnavailableError, ""),
        ("RegistryUnavailable: gone", UnavailableError, "RegistryUnavailable"),
        ("SignatureValidationFailed: no", UnavailableError, "SignatureValidationFailed"),
    ],
)
def test_a_failed_pull_says_what_to_do(said, kind, reason):
    error = pull_error(UnavailableError(f"image shop/web:1: {said}"), CALL)
    assert (type(error), error.reason) == (kind, reason)
    assert said in str(error)


def test_an_image_that_the_registry_does_not_have_may_come_later():
    assert pull_error(NotFoundError("image x: not found"), CALL).kind is FailureKind.UNAVAILABLE


def test_no_secret_of_a_pull_is_in_its_failure():
    said = "image x: Get https://me:s3cret@r/v2: token bWU6czNjcmV0 refused"
    text = str(pull_error(UnavailableError(said), CALL))
    assert "s3cret" not in text
    assert "bWU6czNjcmV0" not in text
    assert "s3cret" not in repr(CALL)


def test_as_whom_a_container_runs_is_shown_where_the_runtime_says_so():
    user = pb.ContainerUser(linux=pb.LinuxContainerUser(uid=1000, gid=2000, supplemental_groups=[2000, 3000]))
    assert inspected(user=user).ids == ContainerIds(user=1000, group=2000, groups=(2000, 3000))
    assert inspected().ids is None


@pytest.mark.parametrize(
    ("name", "version", "honours"),
    [
        ("containerd", "v2.3.0", True),
        ("containerd", "2.10.1", True),
        ("containerd", "v2.2.4", False),
        ("containerd", "1.6.20~ds1", False),
        ("cri-o", "1.34.0", True),
        ("cri-o", "1.33.9", False),
        ("another", "9.9", False),
        ("containerd", "unknown", False),
    ],
)
def test_a_stop_signal_is_honoured_from_the_versions_that_do(name, version, honours):
    assert shown.honours_stop_signals(name, version) is honours
