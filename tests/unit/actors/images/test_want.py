"""Wants: what is looked up and pulled for them, and what pods are told, in the kubelet's words."""

import pytest

from actors.images.actor import ImagePuller
from actors.images.state import ImagesState, PullerPolicy
from api.errors import FailureKind
from api.ids import Path
from api.lifecycle import Watch
from api.messages.kernel import ChildDied
from api.messages.pod import ImageProgress
from api.ports.credentials import ReadNodeCredentials
from api.ports.images import ImageStatus, PullImage
from tests.unit.actors.images.hand import (
    ABSENT,
    ALWAYS,
    APP,
    ID,
    NEVER,
    Puller,
    failure,
    row,
    want,
)

PULLING, READY, WAITING = ImageProgress.PULLING, ImageProgress.READY, ImageProgress.WAITING


def test_a_want_is_looked_up_in_the_turn_it_arrives_and_a_present_image_is_ready_by_its_id():
    puller = Puller()
    puller.want(want())
    assert puller.calls(ImageStatus) == [ImageStatus(image=APP)]
    puller.look(row(user=7, user_name=""))
    told = puller.report()
    assert (told.progress, told.ref, told.user, told.pulled, told.size_bytes) == (READY, ID, 7, False, 7)
    assert not puller.open


@pytest.mark.parametrize(
    ("image", "asked"),
    [
        ("busybox", "busybox:latest"),
        ("localhost:5000/a", "localhost:5000/a:latest"),
        ("a@sha256:" + "b" * 64, "a@sha256:" + "b" * 64),
        ("a:2@sha256:" + "b" * 64, "a:2@sha256:" + "b" * 64),
        (APP, APP),
    ],
)
def test_a_name_without_tag_and_digest_gets_the_default_tag_and_nothing_else(image, asked):
    puller = Puller()
    puller.want(want(image))
    assert puller.calls(ImageStatus)[0].image == asked


@pytest.mark.parametrize("image", ["Busybox", "a//b", "a:", "a b", ":1", "", "a@sha256:12", "f" * 64, "A/b"])
def test_what_is_no_name_is_never_tried(image):
    puller = Puller()
    puller.want(want(image))
    told = puller.report()
    assert (told.progress, told.reason, told.retry_at) == (WAITING, "InvalidImageName", None)
    named = f'Failed to apply default image tag "{image}": couldn\'t parse image name "{image}": '
    assert told.message.startswith(f"{named}invalid reference format")
    assert not puller.open
    assert puller.wake_at is None


def test_all_who_wait_for_one_image_share_one_look_up():
    puller = Puller()
    puller.want(want(), want(container="side"))
    puller.want(want(), uid="u2")
    assert len(puller.calls(ImageStatus)) == 1
    puller.look(row())
    assert [puller.report(*who).progress for who in (("u1",), ("u1", "side"), ("u2",))] == [READY] * 3


def test_an_absent_image_is_pulled_once_for_all_and_then_looked_at_by_its_reference():
    puller = Puller()
    puller.want(want())
    puller.want(want(), uid="u2")
    puller.look()
    assert puller.report().progress is puller.report("u2").progress is PULLING
    assert len(puller.calls(ReadNodeCredentials)) == 1
    puller.now += 2
    puller.read()
    assert puller.calls(PullImage) == [PullImage(image=APP)]
    puller.now += 3
    puller.pull(ref="registry.local/app@sha256:" + "c" * 64)
    assert puller.calls(ImageStatus)[0].image == "registry.local/app@sha256:" + "c" * 64
    puller.look(row(user_name="web"))
    for uid in ("u1", "u2"):
        told = puller.report(uid)
        assert (told.progress, told.pulled, told.user_name) == (READY, True, "web")
        assert told.ref == "registry.local/app@sha256:" + "c" * 64
        assert told.took_s == pytest.approx(5.02)
        assert told.waited_s == 0
    assert puller.state.pulls == {}


def test_always_pulls_without_looking_first():
    puller = Puller()
    puller.want(want(policy=ALWAYS))
    assert not puller.calls(ImageStatus)
    assert puller.report().progress is PULLING


def test_never_says_so_and_looks_again_later_each_time():
    puller = Puller()
    puller.want(want("app", NEVER))
    waits = []
    for _ in range(7):
        puller.look()
        told = puller.report()
        assert (told.reason, told.message) == (
            "ErrImageNeverPull",
            'Container image "app" is not present with pull policy of Never',
        )
        waits.append(round(told.retry_at - puller.now))
        puller.ring()
    assert waits == [1, 2, 4, 8, 16, 30, 30]
    puller.look(row())
    assert puller.report().progress is READY


def test_a_look_up_that_fails_is_repeated_within_ten_seconds_and_pulls_nothing():
    puller = Puller()
    puller.want(want())
    waits = []
    for _ in range(6):
        puller.look(failure=failure("no answer"))
        told = puller.report()
        assert (told.reason, told.message) == (
            "ImageInspectError",
            f'Failed to inspect image "{APP}": no answer',
        )
        waits.append(round(told.retry_at - puller.now))
        puller.ring()
    assert waits == [1, 2, 4, 8, 10, 10]
    assert not puller.calls(ReadNodeCredentials)


def test_a_failed_pull_is_told_as_such_and_then_as_backing_off():
    puller = Puller()
    puller.want(want(policy=ALWAYS))
    puller.fail_pull(failure("no such host"))
    told = puller.report()
    assert (told.progress, told.reason, told.message) == (WAITING, "ErrImagePull", "no such host")
    assert told.retry_at == pytest.approx(puller.now + 10)
    puller.ring()
    told = puller.report()
    assert told.reason == "ImagePullBackOff"
    assert told.message == f'Back-off pulling image "{APP}": ErrImagePull: no such host'
    assert not puller.open
    puller.ring()
    assert len(puller.calls(ReadNodeCredentials)) == 1
    assert puller.report().progress is PULLING


def test_the_back_off_of_pulls_doubles_up_to_five_minutes_and_is_forgotten_after_ten():
    puller = Puller()
    puller.want(want(policy=ALWAYS))
    waits = []
    for _ in range(7):
        puller.fail_pull()
        waits.append(round(puller.report().retry_at - puller.now))
        puller.wait(waits[-1] + 1)
    assert waits == [10, 20, 40, 80, 160, 300, 300]
    puller.want()
    puller.open.clear()
    puller.wait(601)
    puller = Puller(state=puller.state)
    puller.now = 1e6
    puller.state = type(puller.state)(backoffs=puller.state.backoffs, policy=puller.state.policy)
    puller.want(want(policy=ALWAYS))
    puller.fail_pull()
    assert round(puller.report().retry_at - puller.now) == 10


def test_wanting_anew_does_not_get_around_the_back_off():
    puller = Puller()
    puller.want(want(policy=ALWAYS))
    puller.fail_pull()
    retry_at = puller.report().retry_at
    puller.want()
    puller.want(want(policy=ALWAYS, attempt=1))
    told = puller.report()
    assert (told.reason, told.attempt, told.retry_at) == ("ImagePullBackOff", 1, retry_at)
    assert not puller.open
    puller.want(want(policy=ALWAYS), uid="u2")
    assert puller.calls(ReadNodeCredentials), "another pod has a back-off of its own"


def test_two_containers_of_a_pod_count_one_failure_once():
    puller = Puller()
    puller.want(want(policy=ALWAYS), want(policy=ALWAYS, container="side"))
    puller.fail_pull()
    assert puller.report("u1", "side").retry_at == puller.report().retry_at == pytest.approx(puller.now + 10)


@pytest.mark.parametrize(
    ("reason", "why"),
    [
        ("RegistryUnavailable", "the registry is unavailable"),
        ("SignatureValidationFailed", "the signature validation failed"),
    ],
)
def test_what_a_runtime_knows_better_is_the_reason(reason, why):
    puller = Puller()
    puller.want(want(policy=ALWAYS))
    puller.fail_pull(failure(f"image {APP}: {reason}: it is so", reason=reason))
    told = puller.report()
    assert (told.reason, told.message) == (reason, f"image pull failed for {APP} because {why}: it is so")
    puller.ring()
    assert puller.report().message.startswith(f'Back-off pulling image "{APP}": {reason}: image pull failed')


def test_a_name_that_the_runtime_does_not_take_is_not_tried_again():
    puller = Puller()
    puller.want(want(policy=ALWAYS))
    puller.fail_pull(failure("bad", FailureKind.REJECTED, "InvalidImageName"))
    told = puller.report()
    assert (told.reason, told.message, told.retry_at) == ("InvalidImageName", "bad", None)
    assert puller.wake_at is None


def test_a_pulled_image_that_is_not_shown_is_a_failed_pull():
    puller = Puller()
    puller.want(want(policy=ALWAYS))
    puller.read()
    puller.pull()
    puller.look(None)
    assert puller.report().reason == "ErrImagePull"
    assert "does not show it" in puller.report().message


def test_an_unchanged_want_only_gets_its_report_again():
    puller = Puller()
    puller.want(want())
    puller.look(row())
    puller.told.clear()
    puller.want(want())
    assert puller.report().progress is READY
    assert not puller.open


def test_the_next_attempt_looks_again_and_is_told_with_its_number():
    puller = Puller()
    puller.want(want())
    puller.look(row())
    puller.want(want(attempt=1))
    puller.look(row())
    assert (puller.report().attempt, puller.report().progress) == (1, READY)


def test_an_attempt_that_changes_during_a_pull_keeps_the_pull():
    puller = Puller()
    puller.want(want(policy=ALWAYS))
    puller.want(want(policy=ALWAYS, attempt=1))
    assert puller.cancelled == []
    assert (puller.report().attempt, puller.report().progress) == (1, PULLING)


def test_a_pull_that_nobody_wants_any_more_is_cancelled_but_not_while_another_pod_wants_it():
    puller = Puller()
    puller.want(want(policy=ALWAYS))
    puller.want(want(policy=ALWAYS), uid="u2")
    puller.read()
    puller.want()
    assert puller.cancelled == []
    puller.want(uid="u2")
    assert puller.cancelled == [puller.op(PullImage)]


def test_a_pull_wanted_again_while_it_is_being_cancelled_begins_after_its_end():
    puller = Puller(PullerPolicy(at_once=None, per_second=0))
    puller.want(want(policy=ALWAYS))
    puller.read()
    puller.want()
    puller.want(want(policy=ALWAYS))
    assert not puller.calls(ReadNodeCredentials)
    puller.pull(failure=failure("cancelled", FailureKind.CANCELLED))
    assert puller.calls(ReadNodeCredentials)
    assert puller.report().progress is PULLING


def test_another_pods_pull_ends_the_back_off_of_those_who_would_take_what_is_there():
    puller = Puller()
    puller.want(want())
    puller.look()
    puller.fail_pull()
    puller.want(want(policy=ALWAYS), uid="u2")
    puller.read()
    puller.pull()
    puller.look(row())
    puller.look(row())
    assert (puller.report().progress, puller.report().pulled) == (READY, False)


def test_a_pods_wants_end_with_its_actor():
    puller = Puller()
    actions = []
    give = puller.give
    puller.give = lambda message: actions.extend(give(message))
    puller.want(want(policy=ALWAYS))
    puller.want(want(policy=ALWAYS, attempt=1))
    assert [action for action in actions if isinstance(action, Watch)] == [Watch(path=Path("/node/pods/u1"))]
    puller.read()
    puller.give(ChildDied(path=Path("/node/pods/u1"), cause=""))
    assert puller.state.entries == {}
    assert puller.cancelled


def test_only_so_many_pulls_run_side_by_side():
    for at_once, expected in ((1, 1), (2, 2), (None, 3)):
        puller = Puller(PullerPolicy(at_once=at_once, per_second=0))
        puller.want(*(want(f"r.local/{n}:1", ALWAYS, container=f"c{n}") for n in range(3)))
        assert len(puller.calls(ReadNodeCredentials)) == expected


def test_a_pull_takes_as_long_as_it_takes():
    puller = Puller(PullerPolicy(at_once=1, per_second=0))
    puller.want(want(policy=ALWAYS))
    puller.read()
    assert puller.deadlines[puller.op(PullImage)] >= 30 * 86400.0


def test_a_pull_that_hangs_holds_up_those_behind_it_no_longer_than_its_deadline():
    puller = Puller(state=ImagesState(policy=PullerPolicy(at_once=1, per_second=0), pull_deadline_s=90.0))
    puller.want(want(policy=ALWAYS))
    puller.want(want("r.local/b:1", ALWAYS), uid="u2")
    puller.read()
    assert puller.deadlines[puller.op(PullImage)] == 90.0
    assert puller.report("u2").since is None
    puller.pull(failure=failure("it did not end within 90 s", FailureKind.TIMED_OUT))
    assert puller.report("u2").since is not None


def test_pulls_are_begun_in_the_order_in_which_they_were_asked_for_and_waiting_is_told():
    puller = Puller()
    puller.want(want("r.local/a:1", ALWAYS, container="a"), want("r.local/b:1", ALWAYS, container="b"))
    puller.read()
    puller.now += 5
    puller.pull()
    assert len(puller.calls(ReadNodeCredentials)) == 1, "a look at the first takes no place"
    puller.read()
    puller.pull()
    for _ in range(2):
        puller.look(row())
    assert puller.report("u1", "a").waited_s == 0
    assert puller.report("u1", "b").waited_s == pytest.approx(5.02)


def test_pulls_beyond_the_rate_wait_for_their_token_instead_of_failing():
    puller = Puller(PullerPolicy(at_once=None, per_second=2, burst=2))
    puller.want(*(want(f"r.local/{n}:1", ALWAYS, container=f"c{n}") for n in range(4)))
    assert len(puller.calls(ReadNodeCredentials)) == 2
    assert puller.wake_at == pytest.approx(puller.now + 0.5)
    puller.ring()
    assert len(puller.calls(ReadNodeCredentials)) == 3
    puller.ring()
    assert len(puller.calls(ReadNodeCredentials)) == 4
    assert {puller.report("u1", f"c{n}").progress for n in range(4)} == {PULLING}


def test_the_policy_decides_also_after_it_changed():
    puller = Puller()
    puller.want(want(policy=NEVER))
    puller.look()
    puller.want(want(policy=ABSENT))
    puller.look()
    assert puller.report().progress is PULLING


def test_the_actor_has_a_place_for_its_ports():
    assert ImagePuller(Puller().state, {}).state == Puller().state
