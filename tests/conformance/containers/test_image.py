"""Images: an unknown one is no failure to look for and none to remove; a known one is what containers are made from."""

import pytest

from api.errors import FailureKind
from api.ports.images import ImageStatus, ListImages, PullImage, RemoveImage
from tests.conformance.containers.driver import CallFailedError
from tests.conformance.containers.script import ExitWith

ABSENT_ID = "sha256:" + "0123456789abcdef" * 4


def test_images_are_listed_by_id_each_once_and_each_is_found_by_its_id(bench):
    rows = bench.call(ListImages()).images
    assert rows
    assert [row.id for row in rows] == sorted({row.id for row in rows})
    for row in rows:
        assert bench.call(ImageStatus(image=row.id)).image.id == row.id


def test_an_image_is_found_by_the_name_that_pods_use_and_by_each_of_its_own(bench):
    found = bench.call(ImageStatus(image=bench.driver.image)).image
    assert found in bench.call(ListImages()).images
    for name in found.names:
        assert bench.call(ImageStatus(image=name)).image.id == found.id


@pytest.mark.parametrize("by_id", [False, True])
def test_an_unknown_image_is_shown_as_none(bench, by_id):
    name = ABSENT_ID if by_id else bench.driver.unknown_image
    assert bench.call(ImageStatus(image=name)).image is None


def test_a_pull_of_an_unknown_image_fails_and_leaves_nothing(bench):
    before = bench.call(ListImages()).images
    with pytest.raises(CallFailedError) as caught:
        bench.call(PullImage(image=bench.driver.unknown_image), deadline_s=60.0)
    assert caught.value.kind in {FailureKind.DENIED, FailureKind.REJECTED, FailureKind.UNAVAILABLE}
    assert caught.value.failure.message
    assert bench.call(ListImages()).images == before
    assert bench.call(ImageStatus(image=bench.driver.unknown_image)).image is None


def test_a_container_is_made_from_the_id_of_an_image(bench):
    row = bench.call(ImageStatus(image=bench.driver.image)).image
    sandbox = bench.run_sandbox()
    container = bench.run(sandbox, ExitWith(3), image=row.id)
    assert bench.exited(sandbox, container).exit_code == 3


@pytest.mark.parametrize("by_id", [False, True])
def test_removing_an_unknown_image_succeeds_and_removes_nothing_else(bench, by_id):
    before = bench.call(ListImages()).images
    bench.call(RemoveImage(image=ABSENT_ID if by_id else bench.driver.unknown_image))
    assert bench.call(ListImages()).images == before
