"""A pod and its images: what it wants when, what it waits for, what it tells."""

import pytest
from msgspec.structs import replace

from actors.pod.container.image import RESEND_WANTS_S
from actors.pod.explain import explain
from api import paths
from api.errors import Failure, FailureKind
from api.kube.objects.pod import Container as Wanted
from api.messages.images import PullPolicy, WantImages
from api.messages.kernel import Outcome, Restarted
from api.messages.pod import ImageProgress
from api.ports.cgroups import RemovePodCgroup
from api.ports.images import IMAGE_MISSING
from api.ports.logs import LinkContainerLog, RemoveContainerLogs
from api.ports.podfiles import PrepareContainer, ReadEnding
from api.ports.runtime import CreateContainer, RunSandbox, StartContainer
from tests.unit.actors.pods import IMAGE, wanted
from tests.unit.actors.tiny import FACTS, Hand, calls


def asked(**settings):
    """Return a hand on a pod whose sandbox runs and whose image is not there yet."""
    hand = Hand(answer_images=False, **settings)
    hand.update(wanted())
    return hand.settle()


def reasons(hand):
    return [event.reason for event in hand.state.events]


def test_images_are_wanted_beside_the_making_of_the_sandbox():
    hand = Hand(answer_images=False)
    hand.update(wanted("a", "b")), hand.settle_until(RunSandbox)
    (first, second) = hand.wants()
    assert (first.container, first.attempt, first.image) == ("a", 0, IMAGE)
    assert (second.container, first.policy) == ("b", PullPolicy.IF_NOT_PRESENT)
    assert [to for to, message in hand.told if isinstance(message, WantImages)][-1] == paths.IMAGES


def test_a_container_is_made_from_what_the_image_was_found_to_be():
    hand = asked()
    assert calls(hand, CreateContainer) == []
    hand.answer(hand.wants()[0], ref="sha256:abc"), hand.settle()
    (made,) = calls(hand, CreateContainer)
    assert (made.spec.image, made.spec.image_asked) == ("sha256:abc", IMAGE)
    assert hand.status.phase == "Running"


def test_nothing_is_wanted_of_a_pod_that_runs():
    hand = asked()
    hand.answer(hand.wants()[0]), hand.settle()
    assert hand.wants() == ()


def test_a_want_ends_with_the_pod():
    hand = asked()
    assert hand.wants()
    hand.kill()
    assert hand.wants() == ()


def test_a_container_whose_image_is_there_does_not_wait_for_another_ones():
    hand = Hand(answer_images=False)
    hand.update(wanted("a", "b")), hand.settle()
    hand.answer(hand.wants()[1]), hand.settle()
    assert [call.spec.name for call in calls(hand, CreateContainer)] == ["b"]


@pytest.mark.parametrize(
    ("reason", "event"),
    [
        ("ErrImagePull", "Failed"),
        ("ImagePullBackOff", "BackOff"),
        ("ErrImageNeverPull", "ErrImageNeverPull"),
        ("InvalidImageName", "InspectFailed"),
        ("ImageInspectError", "InspectFailed"),
    ],
)
def test_why_an_image_is_not_there_is_published_and_told(reason, event):
    hand = asked()
    hand.answer(hand.wants()[0], ImageProgress.WAITING, reason=reason, message="no", retry_at=hand.now + 10)
    (status,) = hand.status.container_statuses
    assert (status.state.waiting.reason, status.state.waiting.message) == (reason, "no")
    assert event in reasons(hand)
    assert hand.wake_at is not None
    assert calls(hand, CreateContainer) == []


def test_an_image_that_is_fetched_is_told_and_explained():
    hand = asked(node=FACTS)
    want = hand.wants()[0]
    since = hand.now
    hand.answer(want, ImageProgress.PULLING, since=since)
    hand.wait(7)
    told = explain(hand.state, hand.now, hand.wall)
    assert told.waits_for == f"image {IMAGE} of container a: pulling"
    assert told.since_s == pytest.approx(7)
    hand.answer(want, pulled=True, took_s=7.0, waited_s=0.5, size_bytes=1234)
    texts = [event.message for event in hand.state.events]
    assert f'Pulling image "{IMAGE}"' in texts
    pulled = f'Successfully pulled image "{IMAGE}" in 6.5s (7s including waiting). Image size: 1234 bytes.'
    assert pulled in texts


def test_wants_that_nobody_answers_are_told_again():
    hand = asked()
    before = len(hand.messages(WantImages))
    assert hand.wake_at == hand.state.sent.wants_sent_at + RESEND_WANTS_S
    hand.ring()
    assert len(hand.messages(WantImages)) == before + 1


def test_a_new_image_puller_is_told_what_is_wanted():
    hand = asked()
    before = len(hand.messages(WantImages))
    hand.give(Restarted(path=paths.IMAGES, incarnation=2, cause=""))
    assert len(hand.messages(WantImages)) == before + 1


def test_an_answer_to_an_older_want_is_ignored():
    hand = asked()
    (want,) = hand.wants()
    hand.update(wanted(Wanted(name="a", image="example/app:2")), generation=2)
    hand.answer(want), hand.settle()
    assert calls(hand, CreateContainer) == []


def test_an_image_removed_before_its_container_was_made_is_looked_up_again_at_once():
    hand = asked()
    (want,) = hand.wants()
    hand.answer(want), hand.settle_until(CreateContainer)
    op = hand.op_of(CreateContainer)
    _, since = hand.open.pop(op)
    gone = Failure(kind=FailureKind.REJECTED, message="no image", reason=IMAGE_MISSING)
    hand.give(Outcome(op=op, call="CreateContainer", failure=gone, started_at=since, ended_at=hand.now))
    hand.settle()
    (again,) = hand.wants()
    assert again.again == want.again + 1
    hand.answer(again), hand.settle()
    assert hand.status.phase == "Running"
    assert len(calls(hand, CreateContainer)) == 2


def confined():
    """Return a hand on a pod that runs on a runtime that confines containers."""
    hand = Hand(node=FACTS)
    hand.update(wanted())
    return hand.settle()


def test_a_containers_files_are_written_before_it_is_made_and_its_log_is_linked_once_it_runs():
    hand = confined()
    steps = (PrepareContainer, CreateContainer, StartContainer, LinkContainerLog)
    hand.world.view = hand.state.observed
    assert [type(call) for call in hand.started if isinstance(call, steps[:3])] == list(steps[:3])
    (prepared,) = calls(hand, PrepareContainer)
    assert "10.0.0.9\tweb" in prepared.hosts


def test_the_last_words_of_a_container_are_its_message():
    hand = confined()
    hand.world.last_words = "the disk is full"
    hand.world.view = with_termination_log(hand.world.view)
    hand.world.exit("a", 3, hand.wall)
    hand.wait(0.1), hand.observe(), hand.settle()
    assert len(calls(hand, ReadEnding)) == 1
    (status,) = hand.status.container_statuses
    assert status.last_state.terminated.message == "the disk is full"


def with_termination_log(view):
    path = "/var/lib/nodeagent/pods/u1/containers/a/00000000"
    return replace(view, containers=tuple(replace(one, termination_log=path) for one in view.containers))


def test_the_cgroup_goes_with_the_pod():
    hand = confined()
    hand.kill(), hand.settle()
    (group,) = calls(hand, RemovePodCgroup)
    assert group.cgroup_parent == "/kubepods/besteffort/podu1"


def test_what_a_pruned_container_left_goes_with_it():
    hand = confined()
    for _ in range(3):
        hand.world.view = with_logs(hand.world.view)
        hand.world.exit("a", 0, hand.wall)
        hand.wait(400), hand.observe(), hand.settle()
        if hand.wake_at is not None:
            hand.ring(), hand.settle()
    gone = calls(hand, RemoveContainerLogs)
    assert gone
    assert gone[0].log_path == "/logs/default_web_u1/a/0.log"
    assert gone[0].link.startswith("web_default_a-")


def with_logs(view):
    return replace(
        view,
        containers=tuple(
            replace(one, log_path=f"/logs/default_web_u1/a/{one.attempt}.log") for one in view.containers
        ),
    )
