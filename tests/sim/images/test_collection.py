"""The image manager in a virtual world: what goes, what stays, what is said; and seeds in which everything fails."""

import itertools

import pytest

from actors.imagegc.state import ImageGCPolicy
from api.errors import Failure, FailureKind
from api.messages.imagegc import CollectImages
from api.ports.images import ImageFs, ImageFsUsage, ListImages, RemoveImage
from api.ports.runtime import InspectPod, ListPods
from api.shown.introspection import ImageDecision
from runtime.drivers.memory.disk import Disk
from tests.harness.world.imageworld import CAPACITY, MB, ImageWorld, image_id, row

GONE = Failure(kind=FailureKind.UNAVAILABLE, message="connection refused")


def decisions(collection):
    return {one.id: (one.decision, one.reason) for one in collection.images}


def full(count=18, **kwargs):
    """Return a world of images of 50 MB each on a disk of 1000 MB."""
    return ImageWorld(images=tuple(row(n) for n in range(count)), **kwargs)


def test_nothing_goes_below_the_high_threshold():
    world = full(16)
    world.run_for(3600)
    assert world.removals == []
    assert world.state.rounds == 12
    assert world.state.failures == 0


def test_a_full_disk_is_collected_to_just_below_the_low_threshold_least_recently_used_first():
    world = full(18)
    kept = [world.run_pod(row(n)) for n in (0, 1)]
    briefly = world.run_pod(row(2))
    world.run_for(60)
    world.remove_pod(briefly)
    world.run_for(600)
    # 900 MB used is 90 %, 800 MB may stay; image 2 was used after all others were first seen, so it goes last.
    assert world.removals == [image_id(3), image_id(4)]
    assert world.broken == []
    last = decisions(world.state.last)
    assert last[image_id(0)] == (ImageDecision.KEEP, "used by default/pod-1/main-pod-1")
    assert len(kept) == 2


def test_images_that_are_too_young_are_waited_for_without_a_word_of_failure():
    world = full(18)
    world.until(lambda: world.state.last is not None)
    assert world.removals == []
    assert "becomes old enough in 2m" in world.state.last.note
    world.until(lambda: bool(world.removals))
    assert world.time.now() == pytest.approx(120, abs=3)
    assert world.state.node_events == ()


def test_space_that_shows_late_is_waited_for_and_nothing_more_goes_meanwhile():
    world = full(18, disk=Disk(capacity_bytes=CAPACITY, delay_s=4.0))
    world.run_for(600)
    assert len(world.removals) == 2
    assert world.broken == []


def test_images_that_share_their_layers_go_until_the_space_is_really_there():
    shared = {image_id(n): (("base", 45 * MB), (f"own-{n}", 5 * MB)) for n in range(40)}
    # 45 + 40 * 5 MB in layers and 660 MB of something else: 905 MB, though the sizes say far more.
    world = full(40, disk=Disk(capacity_bytes=CAPACITY, other_bytes=660 * MB, layers=shared))
    world.run_for(1200)
    assert len(world.removals) == 21
    assert world.free() >= CAPACITY // 5
    assert world.broken == []


def test_sizes_that_are_absurd_decide_nothing():
    real = {image_id(n): ((f"own-{n}", 50 * MB),) for n in range(18)}
    for size in (0, -(10**15), 10**18):
        world = ImageWorld(
            images=tuple(row(n, size) for n in range(18)),
            disk=Disk(capacity_bytes=CAPACITY, layers=real, delay_s=2),
        )
        world.run_for(900)
        assert len(world.removals) == 2, size
        assert world.broken == []


def test_what_is_pinned_or_makes_sandboxes_stays():
    pause = row(2, names=("registry.k8s.io/pause:3.9",))
    own = row(3, names=("my.local/holder:1",))
    images = (row(0), row(1, pinned=True), pause, own)
    world = ImageWorld(images=images, policy=ImageGCPolicy(sandbox_image="my.local/holder:1"))
    world.run_for(300)
    world.collect()
    assert world.removals == [image_id(0)]
    reasons = {one.id: one.reason for one in world.state.collected[-1].images}
    assert reasons[image_id(1)] == "pinned by the runtime"
    assert reasons[image_id(2)] == reasons[image_id(3)] == "sandboxes are made from it"


def test_a_container_that_ended_holds_its_image_until_it_is_removed():
    world = ImageWorld(images=(row(0),))
    uid = world.run_pod(row(0), script=("exit", "1"))
    world.run_for(600)
    world.collect("one")
    assert world.removals == []
    world.remove_pod(uid)
    world.collect("two")
    assert world.removals == [image_id(0)]


@pytest.mark.parametrize("complete", [True, False])
def test_images_known_by_digest_only_and_mounted_ones_are_in_use(complete):
    by_digest = row(1, names=("r.local/a:1", "r.local/a@sha256:" + "a" * 64))
    mounted = row(2, names=("r.local/data:1",))
    world = ImageWorld(images=(row(0), by_digest, mounted), complete=complete)
    world.hidden_ids = True
    world.run_pod(by_digest)
    world.mounts["main-pod-1"] = ("r.local/data:1",)
    world.run_for(600)
    world.collect()
    assert world.removals == [image_id(0)]
    assert world.broken == []


def test_a_wanted_image_is_refused_by_the_puller_and_that_is_no_failure():
    world = full(18)
    world.wanted[image_id(0)] = {"default/web"}
    world.until(lambda: len(world.removals) == 2 and world.state.round is None)
    assert world.removals == [image_id(1), image_id(2)]
    assert world.state.failures == 0
    assert decisions(world.state.last)[image_id(0)] == (ImageDecision.KEEP, "wanted by default/web")


def test_an_image_past_its_maximum_age_goes_whatever_the_usage():
    world = ImageWorld(images=(row(0), row(1)), policy=ImageGCPolicy(max_age_s=3600, high_percent=100))
    world.run_pod(row(1))
    world.run_for(3500)
    assert world.removals == []
    world.run_for(600)
    assert world.removals == [image_id(0)]


def test_a_high_threshold_of_one_hundred_leaves_space_alone():
    world = full(20, policy=ImageGCPolicy(high_percent=100))
    world.run_for(3600)
    assert world.removals == []
    assert world.state.node_events == ()


@pytest.mark.parametrize("call", [ListImages, ListPods, InspectPod, ImageFsUsage])
def test_nothing_is_removed_on_partial_knowledge(call):
    world = full(18, complete=False)
    world.run_pod(row(5))
    world.failing[call] = GONE
    world.run_for(1800)
    assert world.removals == []
    assert world.state.failures > 2
    assert "connection refused" in world.state.last.failure
    assert [one.reason for one in world.state.node_events] == ["ImageGCFailed"]
    del world.failing[call]
    world.run_for(600)
    assert len(world.removals) == 2
    assert world.state.failures == 0


def test_failures_are_tried_again_more_and_more_slowly():
    world = full(18)
    world.failing[ListImages] = GONE
    at = []
    for failures in range(1, 8):
        world.until(lambda failures=failures: world.state.failures == failures)
        at.append(world.time.now())
    waits = [round(b - a) for a, b in itertools.pairwise(at)]
    assert waits == [30, 60, 120, 240, 300, 300]


def test_without_a_puller_the_round_ends_and_says_so():
    world = full(18, puller=False)
    world.run_for(200)
    assert "the image puller does not run" in world.state.last.failure
    assert world.state.round is None


def test_a_puller_that_does_not_answer_ends_the_round_and_is_asked_again():
    world = full(18)
    world.deaf = True
    world.until(lambda: world.state.failures == 1)
    assert "the image puller did not answer within 20 s" in world.state.last.failure
    world.deaf = False
    world.run_for(120)
    assert len(world.removals) == 2


def test_a_puller_that_is_restarted_in_the_middle_ends_the_round():
    world = full(18)
    world.deaf = True
    world.until(lambda: world.state.round is not None and type(world.state.round.step).__name__ == "Dropping")
    world.system.kill(world.system.handle("/node/images"), no_restart=False)
    world.until(lambda: world.state.failures == 1, 5.0)
    assert "restarted" in world.state.last.failure


def test_an_image_that_cannot_be_removed_holds_up_no_other():
    world = full(19)
    right = world.fails

    def fails(call):
        if isinstance(call, RemoveImage) and call.image == image_id(0):
            return Failure(kind=FailureKind.UNAVAILABLE, message="image is busy")
        return right(call)

    world.fails = fails
    world.until(lambda: world.state.last is not None and len(world.removals) > 1)
    world.until(lambda: world.state.round is None)
    assert decisions(world.state.last)[image_id(0)] == (ImageDecision.FAILED, "image is busy")
    assert world.removals.count(image_id(0)) == 1
    assert len(world.removals) == 4
    assert "cannot remove image registry.local/app:0: image is busy" in world.state.last.failure


def test_space_that_cannot_be_made_is_a_fact_with_figures():
    world = ImageWorld(
        images=tuple(row(n) for n in range(3)), disk=Disk(capacity_bytes=CAPACITY, other_bytes=850 * MB)
    )
    world.run_pod(row(0))
    world.until(lambda: len(world.removals) == 2 and world.state.round is None)
    assert set(world.removals) == {image_id(1), image_id(2)}
    facts = {one.reason: one.message for one in world.state.node_events}
    assert "FreeDiskSpaceFailed" in facts
    assert "(90% of 953.7 MiB used)" in facts["FreeDiskSpaceFailed"]
    assert "(freed 100000000 bytes)" in facts["FreeDiskSpaceFailed"]


def test_a_disk_without_capacity_is_a_fact_and_nothing_goes():
    disk = Disk(absurd=ImageFs(mountpoint="/", capacity_bytes=0, available_bytes=0))
    world = full(18, disk=disk)
    world.run_for(600)
    assert world.removals == []
    assert {one.reason for one in world.state.node_events} == {"InvalidDiskCapacity", "ImageGCFailed"}


@pytest.mark.parametrize("available", [CAPACITY * 2, 10**30])
def test_more_free_than_there_is_counts_as_empty(available):
    disk = Disk(absurd=ImageFs(mountpoint="/", capacity_bytes=CAPACITY, available_bytes=available))
    world = full(18, disk=disk)
    world.run_for(600)
    assert world.removals == []
    assert world.state.failures == 0


def test_a_runtime_that_keeps_no_images_on_a_disk_is_left_in_peace():
    refused = Failure(kind=FailureKind.REJECTED, message="keeps no images on any file system")
    world = full(18, disk=Disk(failure=refused))
    world.run_for(3600)
    assert world.state.note == "keeps no images on any file system"
    assert (world.state.failures, world.state.node_events, world.removals) == (0, (), [])
    assert world.state.rounds == 12


def test_collecting_everything_takes_all_that_is_unused_and_old_enough():
    world = full(6)
    world.run_pod(row(0))
    world.run_for(300)
    young = world.pull(10 * MB)
    world.run_for(1)
    world.collect()
    assert world.removals == [image_id(n) for n in range(1, 6)]
    assert world.there() == {image_id(0), young.id}
    (done,) = world.state.collected
    assert (done.done, done.failure, done.removed_bytes, done.freed_bytes) == (True, "", 250 * MB, 250 * MB)
    assert decisions(done)[young.id][1].startswith("unused, but younger than imageMinimumGCAge (2m)")


def test_collecting_everything_works_also_while_the_disk_cannot_be_measured():
    world = full(3)
    world.run_for(300)
    world.disk.failure = GONE
    world.collect()
    assert len(world.removals) == 3
    assert world.state.collected[-1].freed_bytes is None
    assert world.state.collected[-1].failure == ""


def test_runs_are_served_once_each_and_in_one_round_when_they_wait_together():
    world = full(3)
    world.run_for(300)
    for run in ("a", "b", "a"):
        world.handle.tell(asked(run))
    world.until(
        lambda: len(world.state.collected) >= 1 and not world.state.waiting and world.state.round is None
    )
    world.run_for(10)
    runs = [run for one in world.state.collected for run in one.runs]
    assert sorted(runs) == ["a", "b"]


def asked(run):
    return CollectImages(run=run, asked_by="/test")


def test_the_manager_forgets_images_that_are_gone_and_mounts_of_containers_that_are():
    world = full(3, complete=False)
    uid = world.run_pod(row(0))
    world.run_for(301)
    assert set(world.state.records) == world.there()
    assert len(world.state.mounts) == 1
    world.remove_pod(uid)
    world.collect()
    world.run_for(301)
    assert world.state.records == world.state.mounts == {}


def test_a_manager_that_is_killed_begins_anew_and_removes_nothing_that_it_has_not_seen_age():
    world = full(18)
    world.run_for(100)
    world.system.kill(world.handle, no_restart=False)
    world.run_for(60)
    assert world.removals == [], "ages are counted from the new beginning"
    world.run_for(300)
    assert len(world.removals) == 2
