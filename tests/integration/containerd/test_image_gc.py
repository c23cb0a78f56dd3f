"""Unused images on a real containerd whose small disk fills: collected to the low threshold, nothing in use removed."""

import time
from functools import partial

import pytest
from msgspec.structs import replace

from actors.imagegc.actor import ImageGCManager
from actors.imagegc.disk import need_bytes, used_percent
from actors.imagegc.state import ImageGCPolicy, ImageGCState
from actors.images.actor import ImagePuller
from actors.images.state import ImagesState
from actors.views.asked import AskedPorts
from actors.views.images import ImageView
from api import paths
from api.ids import Uid
from api.messages.imagegc import CollectImages
from api.ports.images import ImageFsUsage, ListImages
from api.ports.runtime import ContainerSpec, CreateContainer, RunSandbox, SandboxSpec, StartContainer
from api.shown.introspection import ImageDecision
from runtime.drivers.cri.driver import CriRuntime
from runtime.drivers.host.credential import NodeCredentialFiles
from runtime.edge import perform
from runtime.kernel.pooled import PooledSystem
from tests.harness.agent.node import container
from tests.harness.cri.containerd import Containerd
from tests.harness.cri.image import PAUSE_NAME, make_image
from tests.harness.eviction.smalldisk import SmallDisk
from tests.harness.runtimeport import port_for
from tests.harness.wait import until

pytestmark = [pytest.mark.real, pytest.mark.timeout(300)]
POLICY = ImageGCPolicy(high_percent=70, low_percent=50, min_age_s=2.0, period_s=600.0)
DISK_MB = 400
EACH_MB = 12


class Site:
    """A containerd on a disk of its own, and the image manager on it."""

    def __init__(self, runtime, policy=POLICY):
        self.port = CriRuntime(endpoint=runtime.endpoint)
        self.containerd = runtime
        self.system = PooledSystem()
        self.policy = policy
        self.handle = None

    def begin(self):
        files = self.containerd.folder / "no-credentials"
        ports = {"images": self.port.images, "credentials": NodeCredentialFiles(files, None, files)}
        self.system.spawn(ImagePuller.options(name="images").bind(ImagesState(), ports))
        state = ImageGCState(policy=self.policy, node_name="n1", deadline_s=60.0)
        spec = ImageGCManager.options(name="imagegc").bind(
            state, {"runtime": self.port, "images": self.port.images}
        )
        self.handle = self.system.spawn(spec)

    def ask(self, call):
        return perform(port_for(self.port, call), call, 60.0)

    def fs(self):
        return self.ask(ImageFsUsage())

    def names(self):
        return {name for image in self.ask(ListImages()).images for name in image.names}

    @property
    def state(self):
        return self.system.committed(paths.IMAGEGC) or ImageGCState()

    def view(self):
        asked = AskedPorts(
            runtime=partial(perform, self.port),
            images=partial(perform, self.port.images),
            streams=partial(perform, self.port.streams),
        )
        return ImageView(self.system, time.monotonic, time.time_ns, asked, dict)

    def run(self, name, image, folder, *, ended=False):
        uid = Uid(f"uid-{name}")
        spec = SandboxSpec(
            uid=uid, name=name, namespace="default", attempt=0, log_directory=str(folder / name), host_network=True,
            cgroup_parent=self.containerd.cgroup_root,
        )  # fmt: skip
        (sandbox,) = self.ask(RunSandbox(spec=spec)).sandboxes
        script = "exit 0" if ended else "exec sleep 1000000"
        inside = ContainerSpec(
            name="main", attempt=0, image=image.id, image_asked=image.name, command=("sh", "-c", script),
            log_path="main/0.log", host_network=True,
        )  # fmt: skip
        (container,) = self.ask(
            CreateContainer(uid=uid, sandbox_id=sandbox.id, sandbox=spec, spec=inside)
        ).containers
        self.ask(StartContainer(uid=uid, container_id=container.id))

    def end(self):
        self.system.shutdown(5.0)
        self.port.close()


@pytest.fixture
def site(tmp_path):
    """Return a node whose containerd, with all images, is on a disk of 400 MB."""
    with SmallDisk(tmp_path / "small", DISK_MB) as disk:
        runtime = Containerd(disk.path / "containerd").start()
        made = Site(runtime)
        try:
            yield made
        finally:
            made.end()
            runtime.clean_up()


def fill(site, above_percent, word="filler"):
    """Import images of random content until the disk is used above a percentage; return them, oldest first."""
    images = []
    while used_percent(site.fs()) < above_percent:
        image = make_image(f"localhost/{word}-{len(images)}:1", cmd=("sh", "-c", "true"), size_mb=EACH_MB)
        site.containerd.add_images(image)
        images.append(image)
        assert len(images) < 40
    return images


def test_a_full_disk_is_collected_to_the_low_threshold_and_nothing_in_use_goes(site, tmp_path):
    images = fill(site, 55)
    running, ended = images[0], images[1]
    site.run("runs", running, tmp_path)
    site.run("ended", ended, tmp_path, ended=True)
    # The name moves to another image; the container still runs the one that has none any more.
    site.containerd.add_images(make_image(running.name, size_mb=1))
    images += fill(site, 72, "late")
    before = site.fs()
    assert used_percent(before) >= POLICY.high_percent
    site.begin()
    until(lambda: site.state.removed > 0 and site.state.round is None, "images were collected", 120.0)
    after = site.fs()
    assert need_bytes(after, POLICY.low_percent) <= 0, site.state.last
    ids = {image.id for image in site.ask(ListImages()).images}
    assert {running.id, ended.id} <= ids
    assert PAUSE_NAME in site.names()
    last = site.state.last
    gone = [row.id for row in last.images if row.decision is ImageDecision.REMOVED]
    assert (last.failure, len(gone)) == ("", site.state.removed)
    # Those that were there first went first, and each that did not have to go is there still.
    assert set(gone).isdisjoint(ids)
    assert {image.id for image in images} - set(gone) <= ids
    # One image fewer would not have been enough, give or take what the file system itself needs.
    each = (after.available_bytes - before.available_bytes) // len(gone)
    assert need_bytes(after, POLICY.low_percent) > -each - 5_000_000
    kept = {row.id: row.reason for row in last.images if row.decision is ImageDecision.KEEP}
    assert kept[running.id] == "used by default/runs/main"
    assert kept[ended.id] == "used by default/ended/main"


def test_a_dry_run_says_what_a_collection_of_everything_then_does(site, tmp_path):
    images = fill(site, 40)
    site.run("runs", images[0], tmp_path)
    site.begin()
    until(lambda: site.state.last is not None, "the first look is over", 30.0)
    assert site.state.removed == 0
    time_is_up = time.monotonic() + POLICY.min_age_s
    until(lambda: time.monotonic() > time_is_up, "the images are old enough", 10.0)
    view = site.view()
    planned = [row.id for row in view.plan_collection().images if row.decision is ImageDecision.REMOVE]
    before = site.names()
    assert len(planned) >= len(images) - 1
    assert site.names() == before, "a dry run removes nothing"
    site.handle.tell(CollectImages(run="r1", asked_by=paths.IMAGES))
    until(lambda: view.collection("r1") is not None and view.collection("r1").done, "it was collected", 120.0)
    done = view.collection("r1")
    assert [row.id for row in done.images if row.decision is ImageDecision.REMOVED] == planned
    assert site.names() == before - {name for row in done.images if row.id in planned for name in row.names}
    assert done.failure == ""
    assert done.freed_bytes > 0.8 * EACH_MB * 1_000_000 * len(planned)
    held = {name: image for image in view.images() for name in image.names}
    assert held[images[0].name].containers == ("default/runs/main",)


def test_a_runtime_that_is_gone_ends_the_round_and_is_asked_again(site):
    fill(site, 72)
    site.containerd.stop()
    site.policy = replace(POLICY, min_age_s=0.0, period_s=3.0)
    site.begin()
    until(lambda: site.state.failures > 0, "the round failed", 30.0)
    assert site.state.removed == 0
    assert "failed" in site.state.last.failure
    site.containerd.start()
    until(lambda: site.state.removed > 0 and site.state.round is None, "images were collected", 120.0)
    assert need_bytes(site.fs(), POLICY.low_percent) <= 0


def test_the_agent_collects_by_itself_and_when_told_and_what_is_used_or_wanted_stays(site, make_node):
    node = make_node(
        site.containerd,
        imageGCHighThresholdPercent=70,
        imageGCLowThresholdPercent=50,
        imageMinimumGCAge="2s",
    )
    running, wanted, *others = fill(site, 55)
    node.put_pod("runs", container("main", "exec sleep 1000000", image=running.name))
    # Its image is there, but no container is ever made of it.
    refused = container("main", "true", image=wanted.name, securityContext={"runAsNonRoot": True})
    node.put_pod("waits", refused)
    node.start()
    node.until_running("runs")
    node.until_status("waits", "CreateContainerConfigError")
    others += fill(site, 72, "late")
    node.kill9()
    node.start()
    until(lambda: need_bytes(site.fs(), 50) <= 0, "it was collected to the low threshold", 120.0)
    kept = {running.name, wanted.name, PAUSE_NAME}
    after = site.names()
    left = {image.name for image in others} & after
    assert kept <= after
    assert left, "nothing goes that need not go"
    node.until_running("runs")
    told = node.verb("images", "gc", deadline_s=120.0)
    assert told.returncode == 0, told.stderr
    assert "freed" in told.stdout
    assert kept <= site.names()
    assert not {image.name for image in others} & site.names()
    assert node.row("runs")["restarts"] == 0
