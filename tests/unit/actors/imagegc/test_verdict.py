"""Names of images, figures of disks, and the verdict on each image."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.imagegc import disk
from actors.imagegc.inspection import Inventory
from actors.imagegc.reference import ImageIndex, is_sandbox_image
from actors.imagegc.state import ImageGCPolicy, ImageRecord
from actors.imagegc.verdict import Goal, judge, remember
from actors.rules.imagename import forms
from api.ports.images import ImageFs, ImageRow
from api.shown.introspection import ImageDecision

HEX = "0123456789abcdef" * 4
DIGEST = "fedcba9876543210" * 4


def fs(capacity, available):
    return ImageFs(mountpoint="/", capacity_bytes=capacity, available_bytes=available)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (HEX, f"sha256:{HEX}"),
        ("busybox", "docker.io/library/busybox:latest"),
        ("docker.io/busybox:1", "busybox:1"),
        ("index.docker.io/library/busybox", "busybox"),
        ("team/app", "docker.io/team/app:latest"),
        ("localhost/app:1", "localhost/app:1"),
        ("r.local:5000/app", "r.local:5000/app:latest"),
        (f"busybox:1@sha256:{DIGEST}", f"docker.io/library/busybox@sha256:{DIGEST}"),
    ],
)
def test_two_ways_to_write_one_image_have_a_form_in_common(one, other):
    assert set(forms(one)) & set(forms(other))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("busybox:1", "busybox:2"),
        ("a/b", "b"),
        ("r.local/b", "b"),
        ("localhost:5000/b", "localhost/b"),
        ("", ""),
    ],
)
def test_different_images_have_no_form_in_common(one, other):
    assert not set(forms(one)) & set(forms(other))


def test_an_image_is_found_by_id_short_id_tag_and_digest():
    image = ImageRow(
        id=f"sha256:{HEX}", names=("docker.io/library/web:1", f"docker.io/library/web@sha256:{DIGEST}")
    )
    bare = ImageRow(id="f" * 64, names=())
    index = ImageIndex((image, bare))
    for text in (
        HEX,
        f"sha256:{HEX}",
        HEX[:12],
        HEX[:7],
        f"sha256:{HEX[:12]}",
        "web:1",
        f"x/y@sha256:{DIGEST}",
        f"sha256:{DIGEST}",
    ):
        assert index.find(text) == (image,), text
    assert index.find("sha256:" + "f" * 64) == (bare,)
    for text in ("", "web", "web:2", HEX[:6], "sha256:", "1" * 64):
        assert index.find(text) == (), text


def test_a_short_id_that_fits_several_finds_all_of_them():
    images = tuple(ImageRow(id="abcdef0" + str(n) * 57) for n in (1, 2))
    assert ImageIndex(images).find("abcdef0") == images


def test_a_name_wins_over_an_id_that_begins_like_it():
    named = ImageRow(id="1" * 64, names=("docker.io/library/abcdef01:latest",))
    like = ImageRow(id="abcdef01" + "2" * 56)
    assert ImageIndex((named, like)).find("abcdef01") == (named,)


def test_the_image_of_sandboxes_is_known_by_setting_and_by_the_name_all_use():
    assert is_sandbox_image(ImageRow(id="x", names=("registry.k8s.io/pause:3.10",)), "")
    assert is_sandbox_image(ImageRow(id="x", names=(f"my.local/pause@sha256:{DIGEST}",)), "")
    assert is_sandbox_image(ImageRow(id=HEX, names=("my.local/hold:1",)), "my.local/hold:1")
    assert is_sandbox_image(ImageRow(id=HEX), f"sha256:{HEX}")
    assert not is_sandbox_image(ImageRow(id="x", names=("my.local/pauses:1", "my.local/pause/app:1")), "")


@pytest.mark.parametrize(
    ("available", "used", "need"),
    [(10, 90, 10), (15, 85, 5), (16, 84, 4), (20, 80, 0), (101, 0, -80), (-5, 100, 20)],
)
def test_how_full_a_disk_is_and_how_much_must_become_free(available, used, need):
    assert (disk.used_percent(fs(100, available)), disk.need_bytes(fs(100, available), 80)) == (used, need)


@given(st.integers(1, 2**63), st.integers(-(2**63), 2**63), st.integers(0, 99))
def test_figures_stay_in_bounds_whatever_is_measured(capacity, available, low):
    shown = fs(capacity, available)
    assert 0 <= disk.used_percent(shown) <= 100
    assert disk.need_bytes(shown, low) <= capacity


def test_sizes_and_spans_are_said_as_people_say_them():
    assert [disk.people(n) for n in (0, 1023, 39835125350)] == ["0 B", "1023 B", "37.1 GiB"]
    assert [disk.span(s) for s in (0.2, 59, 120, 121, 7200, 8000, 180000)] == [
        "0s",
        "59s",
        "2m",
        "2m1s",
        "2h",
        "2h13m",
        "2d2h",
    ]


NOW = 10_000.0
IMAGES = st.builds(
    lambda n, size, pinned: ImageRow(
        id=f"{n:064x}", names=(f"r.local/i:{n}",), size_bytes=size, pinned=pinned
    ),
    st.integers(0, 30),
    st.integers(-5, 10**12),
    st.booleans(),
)


@given(
    st.lists(IMAGES, max_size=12, unique_by=lambda i: i.id),
    st.data(),
    st.booleans(),
    st.integers(-10, 10**12),
)
def test_a_verdict_falls_on_each_image_once_and_the_protected_stay(images, data, everything, need):
    used = {i.id: ("a/b/c",) for i in images if data.draw(st.booleans())}
    ages = st.floats(0, NOW)
    records = {
        i.id: ImageRecord(
            first_detected=(first := data.draw(ages)), last_used=data.draw(st.none() | st.floats(first, NOW))
        )
        for i in images
    }
    seen = Inventory(images=tuple(images), users=used)
    goal = Goal(everything=everything, need_bytes=need)
    judged = judge(seen, records, ImageGCPolicy(), goal, NOW)
    assert sorted(row.id for row in judged.verdicts) == sorted(i.id for i in images)
    gone = [row for row in judged.verdicts if row.decision is ImageDecision.REMOVE]
    assert judged.verdicts[: len(gone)] == tuple(gone)
    pinned = {i.id for i in images if i.pinned}
    for row in gone:
        assert row.id not in used
        assert row.id not in pinned
        assert NOW - records[row.id].first_detected >= 120
    used_at = [(records[row.id].last_used, records[row.id].first_detected) for row in gone]
    order = [(float("-inf") if used is None else used, first) for used, first in used_at]
    assert order == sorted(order)
    if not everything:
        assert sum(max(0, row.size_bytes) for row in gone[:-1]) < max(need, 1)
    assert all(row.reason for row in judged.verdicts)


def test_records_begin_with_sight_and_end_with_absence():
    image = ImageRow(id="a")
    begun = remember({"old": ImageRecord(first_detected=1.0)}, Inventory(images=(image,)), 5.0)
    assert begun == {"a": ImageRecord(first_detected=5.0)}
    used = remember(begun, Inventory(images=(image,), users={"a": ("x",)}), 7.0)
    assert remember(used, Inventory(images=(image,)), 9.0) == {
        "a": ImageRecord(first_detected=5.0, last_used=7.0)
    }


def test_reasons_name_few_users_and_count_the_rest():
    seen = Inventory(images=(ImageRow(id="a"),), users={"a": tuple(f"n/p{n}/c" for n in range(5))})
    (row,) = judge(
        seen, {"a": ImageRecord(first_detected=0.0)}, ImageGCPolicy(), Goal(everything=True), NOW
    ).verdicts
    assert row.reason == "used by n/p0/c, n/p1/c, n/p2/c and 2 more"
