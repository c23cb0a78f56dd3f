"""Which port a look asks for what."""

from actors.imagegc.look import ImageInspection, missing, port_of
from api.ports.images import ImageFsUsage, ImageRow, ImageStatus, ListImages
from api.ports.runtime import InspectPod, ListPods
from tests.unit.actors.pods import UID, box, instance, shown


def test_images_are_asked_of_one_port_and_pods_of_the_other():
    begun = {type(call): port_of(call) for call in missing(ImageInspection())}
    assert begun == {ListImages: "images", ListPods: "runtime", ImageFsUsage: "images"}


def test_what_the_first_answers_leave_open_is_asked_of_the_port_that_knows_it():
    look = ImageInspection(
        images=(ImageRow(id="sha256:1"),), pods=(shown(box(), instance("a")),), unmeasured="not asked for"
    )
    (inspect,) = missing(look)
    assert (inspect, port_of(inspect)) == (InspectPod(uid=UID), "runtime")
    inspected = ImageInspection(
        images=look.images, pods=look.pods, unmeasured="no", inspected={UID: look.pods[0]}
    )
    assert {(type(call), port_of(call)) for call in missing(inspected)} == {(ImageStatus, "images")}
