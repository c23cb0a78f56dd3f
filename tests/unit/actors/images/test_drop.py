"""Removals: never what a pod wants, wanted a moment ago, or is just being fetched."""

import pytest

from actors.images.core import start
from actors.images.drop import LEASE_S, LISTING_LIMIT_S
from actors.images.state import ImagesState
from api.errors import FailureKind
from api.ids import Path
from api.messages.imagegc import ImageDropped
from api.messages.kernel import Outcome
from api.messages.pod import ImageProgress
from api.ports.images import ImageStatus, PullImage, RemoveImage
from tests.unit.actors.images.hand import ALWAYS, APP, GC, ID, Puller, failure, row, want

HEX = ID.removeprefix("sha256:")


def refused(puller):
    told = puller.dropped()
    assert not puller.calls(RemoveImage)
    return (told.removed, told.wanted, told.why)


def test_an_image_that_nobody_wants_is_removed_by_its_id():
    puller = Puller()
    puller.drop()
    assert puller.calls(RemoveImage) == [RemoveImage(image=ID)]
    puller.remove()
    assert puller.told == [(GC, ImageDropped(id=ID, removed=True))]
    assert puller.state.removals == {}


def test_a_removal_that_fails_is_answered_with_the_runtimes_words():
    puller = Puller()
    puller.drop(asked_by=Path("/edge/ask/7"))
    puller.remove(failure("image is in use", FailureKind.CONFLICT))
    assert puller.told == [
        (Path("/edge/ask/7"), ImageDropped(id=ID, removed=False, why="image is in use")),
    ]


@pytest.mark.parametrize(
    ("wanted", "image_id", "names"),
    [
        (APP, ID, (APP,)),
        ("busybox", ID, ("docker.io/library/busybox:latest",)),
        ("docker.io/library/busybox", ID, ("busybox:latest",)),
        ("index.docker.io/busybox:1", ID, ("docker.io/library/busybox:1",)),
        ("a@sha256:" + "b" * 64, ID, ("docker.io/library/a@sha256:" + "b" * 64,)),
        (ID, HEX, ()),
    ],
)
def test_a_wanted_image_stays_whatever_it_is_called(wanted, image_id, names):
    puller = Puller()
    puller.want(want(wanted))
    puller.look(row("sha256:" + "e" * 64, names=()))
    puller.drop(image_id, names)
    assert refused(puller) == (False, True, "wanted by pod u1")


@pytest.mark.parametrize("image_id", [ID, HEX])
def test_an_image_that_is_ready_stays_by_its_id_alone(image_id):
    puller = Puller()
    puller.want(want())
    puller.look(row())
    puller.drop(image_id, ())
    assert refused(puller) == (False, True, "wanted by pod u1")


def test_an_image_that_was_wanted_since_the_users_of_images_were_looked_up_stays():
    puller = Puller()
    puller.want(want())
    puller.look(row())
    looked_at = puller.now
    puller.want()
    puller.now += 2 * LEASE_S
    puller.drop(names=(), as_of=looked_at)
    assert refused(puller) == (False, True, "wanted by pod u1 until a moment ago")
    puller.now += LISTING_LIMIT_S
    puller.want(want("other"))
    puller.want()
    puller.drop(names=(), as_of=looked_at)
    assert refused(puller)[2].startswith("may be wanted by pods: its users were last listed 6")
    puller.drop(names=())
    assert puller.calls(RemoveImage)


def test_an_image_stays_for_a_moment_after_the_last_want_ended():
    puller = Puller()
    puller.want(want())
    puller.look(row())
    puller.want()
    puller.now += LEASE_S - 0.1
    puller.drop(names=())
    assert refused(puller) == (False, True, "wanted by pod u1 until a moment ago")
    puller.now += 0.2
    puller.drop(names=())
    assert puller.calls(RemoveImage)


def test_an_image_stays_for_a_moment_when_the_want_is_for_another_one_now():
    puller = Puller()
    puller.want(want())
    puller.look(row())
    puller.want(want("registry.local/app:2", attempt=1))
    puller.drop()
    assert refused(puller)[1]


def test_what_is_being_looked_up_or_pulled_stays_though_nobody_wants_it_any_more():
    puller = Puller()
    puller.want(want())
    puller.want()
    puller.now += LEASE_S
    puller.drop()
    assert "a look-up of" in refused(puller)[2]
    puller.look()
    puller.want(want(policy=ALWAYS))
    puller.read()
    puller.want()
    puller.now += LEASE_S
    puller.drop()
    assert "a pull of" in refused(puller)[2]
    puller.pull(failure=failure("cancelled", FailureKind.CANCELLED))
    puller.drop()
    assert puller.calls(RemoveImage)


@pytest.mark.parametrize("policy", ["Always", "IfNotPresent"])
def test_a_want_waits_for_the_end_of_a_removal_of_its_image(policy):
    puller = Puller()
    puller.drop()
    puller.want(want(policy=type(ALWAYS)(policy)))
    assert list(puller.open.values()) == [RemoveImage(image=ID)]
    puller.remove()
    if policy == "IfNotPresent":
        puller.look()
    puller.read()
    assert puller.calls(PullImage)
    assert puller.report().progress is ImageProgress.PULLING


def test_all_who_ask_for_one_removal_are_told_its_end():
    puller = Puller()
    puller.drop()
    puller.drop(asked_by=Path("/edge/ask/7"))
    assert len(puller.calls(RemoveImage)) == 1
    puller.remove()
    assert [to for to, _ in puller.told] == [GC, "/edge/ask/7"]


def test_after_a_restart_nothing_is_removed_before_pods_have_told_what_they_want():
    decision = start(ImagesState(), 100.0, restarted=True, leftover=())
    puller = Puller(state=decision.state)
    puller.drop()
    assert "restarted" in refused(puller)[2]
    puller.now += LEASE_S
    puller.drop()
    assert puller.calls(RemoveImage)


def test_what_an_earlier_incarnation_began_is_cancelled_and_its_end_waited_for():
    decision = start(ImagesState(), 100.0, restarted=True, leftover=(8, 9))
    assert [action.op for action in decision.actions] == [8, 9]
    puller = Puller(state=decision.state)
    puller.want(want())
    for op in (8, 9):
        assert not puller.open
        gone = failure("cancelled", FailureKind.CANCELLED)
        puller.give(Outcome(op=op, call="PullImage", failure=gone, started_at=0.0, ended_at=101.0))
    assert puller.calls(ImageStatus)
