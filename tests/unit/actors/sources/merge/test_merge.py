"""The merge of one source's list: a table of the reference's rules (pod lifecycle, section 3.3)."""

import pytest
from msgspec.structs import replace

from actors.sources.merge.merge import (
    ANNOTATION_MIRROR,
    ANNOTATION_SEEN,
    ANNOTATION_SOURCE,
    merge,
    rfc3339_nano,
)
from api.kube.objects.meta import ObjectMeta
from api.kube.objects.pod import Container, Pod, PodSpec, PodStatus
from api.kube.objects.strmap import StrMap
from api.messages.supervisor import PodOp

WALL = 1_700_000_000_120_000_000
LATER = WALL + 5_000_000_000


def pod(name, uid=None, image="a", **meta):
    metadata = ObjectMeta(name=name, namespace="default", uid=uid or f"uid-{name}", **meta)
    return Pod(metadata=metadata, spec=PodSpec(containers=(Container(name="c", image=image),)))


def with_meta(one, **changes):
    return replace(one, metadata=replace(one.metadata, **changes))


def ops(changes, *, first=False):
    return [(op, [p.metadata.name for p in pods]) for op, pods in changes.in_order(first=first)]


def test_a_new_pod_is_added_and_stamped_with_source_and_first_seen():
    changes = merge("file", (), (pod("a"),), WALL)
    assert ops(changes) == [(PodOp.ADD, ["a"])]
    assert changes.added[0].metadata.annotations == {
        ANNOTATION_SOURCE: "file",
        ANNOTATION_SEEN: "2023-11-14T22:13:20.12Z",
    }


def test_the_same_list_again_changes_nothing_and_keeps_the_first_seen_time():
    known = merge("file", (), (pod("a"),), WALL).pods
    changes = merge("file", known, (pod("a"),), LATER)
    assert ops(changes) == []
    assert changes.pods == known


OLD = pod("a", labels=StrMap({"k": "v"}), annotations=StrMap({"own": "1"}), generation=1)


@pytest.mark.parametrize(
    ("new", "op"),
    [
        (replace(OLD, spec=PodSpec(containers=(Container(name="c", image="b"),))), PodOp.UPDATE),
        (with_meta(OLD, labels=StrMap({"k": "w"})), PodOp.UPDATE),
        (with_meta(OLD, annotations=StrMap({"own": "2"})), PodOp.UPDATE),
        (with_meta(OLD, annotations=StrMap({})), PodOp.UPDATE),
        (with_meta(OLD, deletion_grace_period_seconds=3), PodOp.UPDATE),
        (with_meta(OLD, deletion_timestamp="2024-01-01T00:00:00Z"), PodOp.DELETE),
        (replace(OLD, status=PodStatus(phase="Running")), PodOp.RECONCILE),
        (with_meta(OLD, generation=2), None),
        (with_meta(OLD, resource_version="77"), None),
        (with_meta(OLD, annotations=StrMap({"own": "1", ANNOTATION_SEEN: "never"})), None),
        (with_meta(OLD, annotations=StrMap({"own": "1", ANNOTATION_MIRROR: "other"})), None),
    ],
)
def test_each_difference_of_a_known_pod_is_exactly_one_operation(new, op):
    known = merge("api", (), (OLD,), WALL).pods
    changes = merge("api", known, (new,), LATER)
    assert ops(changes) == ([] if op is None else [(op, ["a"])])


def test_an_update_takes_over_meaning_and_keeps_local_annotations():
    known = merge("api", (), (with_meta(OLD, annotations=StrMap({ANNOTATION_MIRROR: "m"})),), WALL).pods
    new = with_meta(
        OLD,
        labels=StrMap({"x": "y"}),
        annotations=StrMap({"own": "2", ANNOTATION_MIRROR: "other"}),
        generation=9,
        deletion_timestamp="2024-01-01T00:00:00Z",
        deletion_grace_period_seconds=7,
    )
    new = replace(new, status=PodStatus(phase="Failed"))
    (stored,) = merge("api", known, (new,), LATER).deleted
    assert stored.metadata.annotations == {
        "own": "2",
        ANNOTATION_MIRROR: "m",
        ANNOTATION_SOURCE: "api",
        ANNOTATION_SEEN: "2023-11-14T22:13:20.12Z",
    }
    assert (stored.metadata.generation, stored.metadata.labels) == (9, {"x": "y"})
    assert stored.metadata.deletion_grace_period_seconds == 7
    assert stored.status.phase == "Failed"


def test_a_status_change_replaces_the_status_only():
    known = merge("api", (), (OLD,), WALL).pods
    new = replace(with_meta(OLD, generation=5), status=PodStatus(phase="Running"))
    (stored,) = merge("api", known, (new,), LATER).reconciled
    assert (stored.metadata.generation, stored.status.phase) == (1, "Running")


def test_changes_are_told_remove_first_and_reconcile_last():
    known = merge("api", (), (pod("gone"), pod("up"), pod("del"), pod("stat")), WALL).pods
    listed = (
        replace(pod("stat"), status=PodStatus(phase="Running")),
        pod("del", deletion_timestamp="2024-01-01T00:00:00Z"),
        pod("up", image="b"),
        pod("new"),
    )
    assert ops(merge("api", known, listed, LATER)) == [
        (PodOp.REMOVE, ["gone"]),
        (PodOp.ADD, ["new"]),
        (PodOp.UPDATE, ["up"]),
        (PodOp.DELETE, ["del"]),
        (PodOp.RECONCILE, ["stat"]),
    ]


def test_a_new_uid_under_an_old_name_is_a_removal_then_an_addition():
    known = merge("file", (), (pod("a", uid="1"),), WALL).pods
    assert ops(merge("file", known, (pod("a", uid="2"),), LATER)) == [
        (PodOp.REMOVE, ["a"]),
        (PodOp.ADD, ["a"]),
    ]


def test_an_empty_first_list_is_an_empty_addition_and_comes_before_reconcile():
    assert ops(merge("file", (), (), WALL), first=True) == [(PodOp.ADD, [])]
    known = merge("api", (), (pod("a"),), WALL, restored=True).pods
    listed = (replace(pod("a"), status=PodStatus(phase="Running")),)
    assert ops(merge("api", known, listed, LATER), first=True) == [
        (PodOp.ADD, []),
        (PodOp.RECONCILE, ["a"]),
    ]


def test_an_empty_addition_follows_a_first_list_that_only_removes():
    known = merge("api", (), (pod("a"),), WALL, restored=True).pods
    assert ops(merge("api", known, (), LATER), first=True) == [(PodOp.REMOVE, ["a"]), (PodOp.ADD, [])]


def test_the_first_of_two_pods_with_one_name_wins_and_the_other_is_flagged():
    changes = merge("file", (), (pod("a", uid="1"), pod("a", uid="2")), WALL)
    assert [p.metadata.uid for p in changes.pods] == ["1"]
    assert changes.dropped[0].pod == "a_default(2)"
    assert changes.dropped[0].problem == (
        'Error validating pod a_default(2) from file due to duplicate pod name "a", ignoring'
    )


def test_pods_without_a_uid_or_with_anothers_uid_are_flagged():
    changes = merge("file", (), (pod("a", uid="1"), pod("b", uid="1"), with_meta(pod("c"), uid="")), WALL)
    assert [p.metadata.name for p in changes.pods] == ["a"]
    assert [d.pod for d in changes.dropped] == ["b_default(1)", "c_default()"]


def test_a_checkpoint_restores_and_never_removes():
    known = merge("api", (), (pod("a"),), WALL, restored=True)
    assert ops(known) == [(PodOp.RESTORE, ["a"])]
    assert ops(merge("api", known.pods, (pod("b"),), LATER, restored=True)) == [(PodOp.RESTORE, ["b"])]


@pytest.mark.parametrize(
    ("wall", "text"),
    [
        (0, "1970-01-01T00:00:00Z"),
        (1_700_000_000_000_000_001, "2023-11-14T22:13:20.000000001Z"),
        (1_700_000_000_500_000_000, "2023-11-14T22:13:20.5Z"),
    ],
)
def test_instants_are_written_as_go_writes_them(wall, text):
    assert rfc3339_nano(wall) == text
