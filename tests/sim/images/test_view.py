"""What people see of images and may have done to them, in a virtual world."""

from functools import partial

import pytest

from actors.views.asked import AskedPorts
from actors.views.images import ImageView
from api.errors import (
    ConflictError,
    DeniedError,
    Failure,
    FailureKind,
    NotFoundError,
    RejectedError,
    UnavailableError,
)
from api.ports.images import RemoveImage
from api.ports.runtime import ListPods
from api.shown.introspection import ImageDecision
from runtime.edge import KINDS
from tests.harness.world.imageworld import MB, ImageWorld, image_id, row


def view_of(world, wants=None):
    """Return the view, whose calls take virtual time."""

    def perform(port, call, deadline_s):
        answers = []
        port.begin(call, deadline_s, lambda result, failure: answers.append((result, failure)))
        assert world.system.await_until(lambda: bool(answers), deadline_s + 1)
        ((result, failure),) = answers
        if failure is not None:
            raise KINDS[failure.kind](failure.message, reason=failure.reason)
        return result

    ports = AskedPorts(
        runtime=partial(perform, world.runtime_port),
        images=partial(perform, world.images_port),
        streams=partial(perform, world.runtime.streams),
    )
    return ImageView(world.system, world.time.now, world.time.wall, ports, lambda: wants or {})


@pytest.fixture
def world():
    world = ImageWorld(images=(row(0), row(1), row(2, pinned=True), row(3), row(4)), complete=False)
    world.run_pod(row(0), name="web")
    world.run_for(400)
    return world


WANTS = {"registry.local/app:3": ("default/new",)}


def test_each_image_is_shown_with_its_users_wishes_and_age(world):
    held = {image.id: image for image in view_of(world, WANTS).images()}
    assert held[image_id(0)].containers == ("default/web/main-pod-1",)
    assert held[image_id(0)].used_ago_s == 0.0
    assert held[image_id(3)].wanted_by == ("default/new",)
    assert held[image_id(1)].seen_ago_s == pytest.approx(400, abs=1)
    assert held[image_id(1)].used_ago_s is None


def test_a_dry_run_is_what_the_collection_then_does(world):
    world.wanted[image_id(3)] = {"default/new"}
    view = view_of(world, WANTS)
    plan = view.plan_collection()
    assert plan.dry_run
    assert world.removals == []
    to_go = [one.id for one in plan.images if one.decision is ImageDecision.REMOVE]
    assert (to_go, plan.removed_bytes) == ([image_id(1), image_id(4)], 100 * MB)
    reasons = {one.id: one.reason for one in plan.images if one.decision is ImageDecision.KEEP}
    assert reasons == {
        image_id(0): "used by default/web/main-pod-1",
        image_id(2): "pinned by the runtime",
        image_id(3): "wanted by default/new",
    }
    run = view.start_collection()
    world.until(lambda: (found := view.collection(run)) is not None and found.done)
    done = view.collection(run)
    assert [one.id for one in done.images if one.decision is ImageDecision.REMOVED] == to_go
    assert {one.id: one.reason for one in done.images if one.decision is ImageDecision.KEEP} == reasons


def test_a_run_is_seen_while_it_waits_and_while_it_goes_on(world):
    view = view_of(world)
    first, second = view.start_collection(), view.start_collection()
    assert first != second
    world.until(lambda: view.collection(first) is not None)
    assert not view.collection(first).done
    assert view.collection(first).doing
    assert view.image_gc().under_way is not None
    world.until(
        lambda: all((found := view.collection(run)) is not None and found.done for run in (first, second))
    )
    assert view.collection("never asked for") is None
    assert view.image_gc().last == view.collection(second)


def test_an_unused_image_is_removed_by_name_or_short_id_through_the_puller(world):
    view = view_of(world)
    assert view.remove_image("registry.local/app:1").id == image_id(1)
    # All ids of this world begin alike: a short one could be any of them.
    with pytest.raises(RejectedError, match="is ambiguous"):
        view.remove_image("0000000")
    assert world.removals == [image_id(1)]
    assert view.remove_image(image_id(4).removeprefix("sha256:")).id == image_id(4)


@pytest.mark.parametrize(
    ("reference", "error", "text"),
    [
        ("registry.local/app:0", ConflictError, "is used by default/web/main-pod-1; remove those pods first"),
        ("registry.local/app:3", ConflictError, "is needed by default/new"),
        ("registry.local/app:2", ConflictError, "is pinned by the runtime"),
        ("registry.local/app:9", NotFoundError, 'no image "registry.local/app:9" on this node'),
        ("", RejectedError, "image required"),
    ],
)
def test_what_is_used_wanted_pinned_or_unknown_is_not_removed(world, reference, error, text):
    with pytest.raises(error, match=text):
        view_of(world, WANTS).remove_image(reference)
    assert world.removals == []


def test_the_puller_has_the_last_word_on_a_removal(world):
    world.wanted[image_id(1)] = {"default/just-now"}
    with pytest.raises(ConflictError, match="was not removed: wanted by default/just-now"):
        view_of(world).remove_image(image_id(1))
    world.wanted.clear()
    world.failing[RemoveImage] = Failure(kind=FailureKind.UNAVAILABLE, message="image is busy")
    with pytest.raises(ConflictError, match="image is busy"):
        view_of(world).remove_image(image_id(1))


def test_a_runtime_that_fails_is_told_not_hidden(world):
    world.failing[ListPods] = Failure(kind=FailureKind.UNAVAILABLE, message="connection refused")
    for ask in (
        view_of(world).images,
        view_of(world).plan_collection,
        lambda: view_of(world).remove_image("x"),
    ):
        with pytest.raises(UnavailableError, match="connection refused"):
            ask()


def test_an_image_that_is_pulled_is_shown_as_it_came(world):
    assert view_of(world).pull_image("registry.local/app:4").id == image_id(4)
    with pytest.raises(DeniedError, match="no registry"):
        view_of(world).pull_image("registry.local/none:1")
