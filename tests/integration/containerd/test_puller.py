"""The image puller on a real containerd and a real registry, with and without a login; pods are stand-ins."""

import base64
import json
from time import monotonic

import pytest

from actors.images.actor import ImagePuller
from actors.images.state import ImagesState
from api import paths
from api.errors import Failure, FailureKind
from api.ids import Path, Uid
from api.messages.imagegc import ImageDropped
from api.messages.images import Credential, DropImage, ImageWant, PullPolicy, WantImages
from api.messages.pod import ImageProgress, ImageReport
from api.ports.images import ImageAuth, ImagePulled, ImageShown, ImageStatus, PullImage, RemoveImage
from runtime.drivers.cri.driver import CriRuntime
from runtime.drivers.host.credential import NodeCredentialFiles
from runtime.kernel.actor import Actor
from runtime.kernel.pooled import PooledSystem
from tests.harness.cri.image import make_image
from tests.harness.runtimeport import port_for
from tests.harness.wait import until

pytestmark = pytest.mark.real
UID = Uid("u1")
PASSWORD = "se:cret"


class Pods(Actor):
    """Where pods live."""

    def __init__(self, heard):
        self.heard = heard

    def on_start(self, ctx):
        ctx.spawn(Pod.options(name=UID).bind(self.heard))

    def receive(self, message, ctx):
        pass


class Pod(Actor):
    """A pod that notes what it is told."""

    def __init__(self, heard):
        self.heard = heard

    def receive(self, message, ctx):
        self.heard.append(message)


@pytest.fixture
def image(tmp_path):
    return make_image(f"localhost/{tmp_path.name}:1", cmd=("true",), size_mb=0.1)


@pytest.fixture
def driver(containerd):
    runtime = CriRuntime(endpoint=containerd.endpoint)
    yield runtime
    runtime.close()


def call(driver, asked):
    answers = []
    port_for(driver, asked).begin(asked, 30.0, lambda result, failure: answers.append(result or failure))
    until(lambda: answers, f"an answer to {asked.brief()}", 40.0)
    return answers[0]


@pytest.fixture
def heard():
    """Return what the pod was told."""
    return []


@pytest.fixture
def puller(driver, tmp_path, heard):
    """Return a function that tells a pod's wants, and one that waits for the report that fits."""
    system = PooledSystem()
    ports = {
        "images": driver.images,
        "credentials": NodeCredentialFiles(tmp_path / "root", None, tmp_path / "top"),
    }
    system.spawn(ImagePuller.options(name="images").bind(ImagesState(), ports))
    system.spawn(Pods.options(name="pods").bind(heard))

    def tell(message):
        system.handle(paths.IMAGES).tell(message)

    def report(progress):
        def found():
            reports = [one for one in heard if isinstance(one, ImageReport)]
            return reports[-1] if reports and reports[-1].progress is progress else None

        until(found, f"a report that the image is {progress}", 30.0, lambda: str(heard))
        return found()

    yield tell, report
    assert system.shutdown(5.0) == ()


def want(name, policy=PullPolicy.IF_NOT_PRESENT, attempt=0):
    return ImageWant(container="main", attempt=attempt, image=name, policy=policy)


def test_the_drivers_pull_brings_an_image_that_is_then_shown_by_its_reference(driver, make_registry, image):
    name = make_registry().push(image, "team/app:1")
    pulled = call(driver, PullImage(image=name))
    assert isinstance(pulled, ImagePulled)
    shown = call(driver, ImageStatus(image=pulled.ref))
    assert isinstance(shown, ImageShown)
    assert name in shown.image.names
    call(driver, RemoveImage(image=shown.image.id))
    assert call(driver, ImageStatus(image=name)) == ImageShown()


def test_a_registry_with_a_login_refuses_without_and_with_wrong_credentials(driver, make_registry, image):
    name = make_registry(users={"puller": PASSWORD}).push(image, "team/app:1")
    for auth in (None, ImageAuth(username="puller", password="wr:ong")):
        failure = call(driver, PullImage(image=name, auth=auth))
        assert isinstance(failure, Failure)
        assert failure.kind is FailureKind.DENIED, failure
        assert "wr:ong" not in failure.message
    pulled = call(driver, PullImage(image=name, auth=ImageAuth(username="puller", password=PASSWORD)))
    assert isinstance(pulled, ImagePulled)
    call(driver, RemoveImage(image=pulled.ref))


def test_a_wanted_image_is_pulled_kept_while_it_is_wanted_and_found_the_next_time(
    puller, driver, make_registry, image, heard
):
    tell, report = puller
    registry = make_registry()
    name = registry.push(image, "team/app:1")
    tell(WantImages(uid=UID, wants=(want(name),)))
    ready = report(ImageProgress.READY)
    assert ready.pulled
    assert ready.size_bytes > 0
    assert 0 <= ready.waited_s <= ready.took_s < 30
    shown = call(driver, ImageStatus(image=ready.ref)).image
    tell(DropImage(id=shown.id, names=shown.names, as_of=monotonic(), asked_by=Path("/node/pods/u1")))
    tell(WantImages(uid=UID, wants=(want(name, attempt=1),)))
    until(lambda: report(ImageProgress.READY).attempt == 1, "the next attempt is answered", 10.0)
    assert not report(ImageProgress.READY).pulled
    refused = next(one for one in heard if isinstance(one, ImageDropped))
    assert (refused.removed, refused.wanted, refused.why) == (False, True, f"wanted by pod {UID}")
    assert call(driver, ImageStatus(image=name)).image is not None
    call(driver, RemoveImage(image=shown.id))


def test_the_nodes_own_credentials_are_used_and_the_pods_come_first(
    puller, driver, make_registry, image, tmp_path
):
    tell, report = puller
    registry = make_registry(users={"puller": PASSWORD})
    name = registry.push(image, "team/app:1")
    wrong = Credential(where=registry.host, auth=ImageAuth(username="puller", password="wr:ong"))
    tell(WantImages(uid=UID, wants=(want(name),), credentials=(wrong,)))
    failed = report(ImageProgress.WAITING)
    assert failed.reason == "ErrImagePull"
    assert f"credentials for {registry.host} were refused" in failed.message
    (tmp_path / "root").mkdir()
    token = base64.b64encode(f"puller:{PASSWORD}".encode()).decode()
    text = json.dumps({"auths": {f"http://{registry.host}/v2/": {"auth": token}}})
    (tmp_path / "root/config.json").write_text(text)
    until(lambda: report(ImageProgress.READY), "the next try takes the node's own", 30.0)
    for word in (PASSWORD, "wr:ong", token):
        assert word not in failed.message
    call(driver, RemoveImage(image=report(ImageProgress.READY).ref))


def test_an_image_that_nobody_wants_is_dropped(puller, driver, make_registry, image, heard):
    tell, _ = puller
    name = make_registry().push(image, "team/app:1")
    pulled = call(driver, PullImage(image=name))
    tell(DropImage(id=pulled.ref, names=(name,), as_of=monotonic(), asked_by=Path("/node/pods/u1")))
    until(lambda: call(driver, ImageStatus(image=name)) == ImageShown(), "it is gone", 20.0)
    until(lambda: ImageDropped(id=pulled.ref, removed=True) in heard, "whoever asked is told", 5.0)
