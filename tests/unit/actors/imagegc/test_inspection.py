"""Which port a inspection asks for what."""

from actors.imagegc.inspection import ImageInspection, missing, port_of
from api.ports.images import ImageFsUsage, ImageRow, ImageStatus, ListImages
from api.ports.runtime import InspectPod, ListPods
from tests.unit.actors.pods import UID, box, instance, shown


def test_images_are_asked_of_one_port_and_pods_of_the_other():
    begun = {type(call): port_of(call) for call in missing(ImageInspection())}
    assert begun == {ListImages: "images", ListPods: "runtime", ImageFsUsage: "images"}


def test_what_the_first_answers_leave_open_is_asked_of_the_port_that_knows_it():
    inspection = ImageInspection(
        images=(ImageRow(id="sha256:1"),), pods=(shown(box(), instance("a")),), unmeasured="not asked for"
    )
    (inspect,) = missing(inspection)
    assert (inspect, port_of(inspect)) == (InspectPod(uid=UID), "runtime")
    inspected = ImageInspection(
        images=inspection.images, pods=inspection.pods, unmeasured="no", inspected={UID: inspection.pods[0]}
    )
    assert {(type(call), port_of(call)) for call in missing(inspected)} == {(ImageStatus, "images")}
