"""Real pressure on a containerd node: a memory hog among confined pods, and a small disk that fills with everything on it."""

import os
import re

import pytest

from tests.harness.agent.node import container
from tests.harness.agent.reading import agree
from tests.harness.cri.containerd import Containerd
from tests.harness.cri.image import make_image
from tests.harness.eviction.memoryhog import hog_goes_and_pressure_returns, hog_outlives_the_agent
from tests.harness.eviction.pressure import (
    disruption,
    evicted,
    explained,
    first_to_go,
    low_on,
    need_memory_cgroups,
    node_events,
    status_of,
    until_evicted,
)
from tests.harness.eviction.smalldisk import SmallDisk

pytestmark = [pytest.mark.real, pytest.mark.slow, pytest.mark.timeout(300)]
MB = 1_000_000
FOREVER = "exec sleep 1000000"
DISK_MB = 400
LEAST_PERCENT = 40
SIGNAL = "nodefs.available"
USED, ENDED = "localhost/used:1", "localhost/ended:1"
UNUSED = tuple(f"localhost/unused-{n}:1" for n in range(3))
EACH_MB, WROTE_MB, MARGIN_MB = 12, 30, 15
ACTIONS = [
    "removing containers and logs of ended pods",
    "removing unused images",
    "evicting pod",
]
"""As the log has them, in the order in which they come."""
OF_DISK = ("EvictionThresholdMet", "FreeDiskSpaceFailed", "ImageGCFailed")


# ---------------------------------------------------------------- memory


def put_hog(node, name, mib, requests=None, limits=None):
    """Write a pod that takes so many MiB of memory, one after the other, in a volume: as a file it stays until removed."""
    script = f"i=0; while [ $i -lt {mib} ]; do dd if=/dev/zero of=/ram/$i bs=1M count=1 2>&-; i=$((i+1)); done; {FOREVER}"
    main = container(
        "main",
        script,
        resources={"requests": requests or {}, "limits": limits or {}},
        volumeMounts=[{"name": "ram", "mountPath": "/ram"}],
    )
    node.put_pod(name, main, volumes=[{"name": "ram", "emptyDir": {"medium": "Memory"}}])


def test_a_hog_is_chosen_before_the_others_and_the_pressure_returns(node):
    need_memory_cgroups()
    hog_goes_and_pressure_returns(node, put_hog)


def test_an_agent_killed_over_an_eviction_takes_no_second_pod(node):
    need_memory_cgroups()
    hog_outlives_the_agent(node, put_hog)


# ---------------------------------------------------------------- disk


class Site:
    """A node of which everything is on one small disk: the runtime with its images, the agent's root, the logs."""

    def __init__(self, disk, runtime, node):
        self.disk, self.runtime, self.node = disk, runtime, node
        self.readings = []
        """What was available at each look."""

    def begin(self, *names):
        """Start the agent beside images of these names and unused ones, with a pod that runs on an image of its own."""
        made = [make_image(name, size_mb=EACH_MB) for name in (USED, *UNUSED, *names)]
        self.runtime.add_images(*made)
        self.node.put_pod("modest", container("main", FOREVER, image=USED))
        self.node.start()
        self.node.until_running("modest")

    def available(self):
        """Return what the kernel says is available on the disk, and of how much."""
        shown = os.statvfs(self.disk.path)
        return shown.f_bavail * shown.f_frsize, shown.f_blocks * shown.f_frsize

    def look(self):
        """Remember what is available on the disk now."""
        self.readings.append(self.available()[0])

    def least(self):
        """Return what must stay available."""
        return int(self.available()[1] * LEAST_PERCENT / 100)

    def fill(self, name, left):
        """Write a pod that fills its emptyDir until only so many bytes are available."""
        megabytes = (self.available()[0] - left) // MB
        assert megabytes > 0, self.available()
        script = f"dd if=/dev/zero of=/data/x bs={MB} count={megabytes} 2>&-; {FOREVER}"
        main = container("main", script, volumeMounts=[{"name": "data", "mountPath": "/data"}])
        self.node.put_pod(name, main, volumes=[{"name": "data", "emptyDir": {}}])

    def names(self):
        """Return the names of all images."""
        return {name for names in self.runtime.link.images().values() for name in names}

    def conditions(self):
        """Return which pressures are told, each with how long it lasts."""
        return self.node.json("/eviction")["conditions"]

    def actions(self):
        """Return what was done for want of disk, in this order, as the operator's log has it."""
        found = re.findall("|".join(ACTIONS), self.node.stderr())
        return list(dict.fromkeys(found))

    def until_over(self):
        """Wait until the pressure is no more felt, which is told, and then until it is over."""
        lasting = r"DiskPressure, last observed \d+ s ago; ends in \d+ s"
        self.node.until(
            lambda: any(re.fullmatch(lasting, one) for one in self.conditions()), "it is felt no more", 60.0
        )
        assert "DiskPressure, last observed" in explained(self.node)
        self.node.until(lambda: not self.conditions(), "the pressure is over", 60.0)


@pytest.fixture
def disk(tmp_path):
    """Return a small disk."""
    with SmallDisk(tmp_path / "small", DISK_MB) as made:
        yield made


@pytest.fixture
def runtime(disk):
    """Return a containerd whose images and containers are on the small disk."""
    made = Containerd(disk.path / "containerd").start()
    try:
        yield made
    finally:
        made.clean_up()


@pytest.fixture
def site(disk, runtime, make_node):
    """Return a node on the small disk, not started yet."""
    node = make_node(
        runtime,
        str(disk.path / "node"),
        evictionHard={"nodefs.available": f"{LEAST_PERCENT}%"},
        evictionPressureTransitionPeriod="15s",
        imageMinimumGCAge="1s",
    )
    return Site(disk, runtime, node)


def test_what_does_not_run_makes_room_and_nobody_is_evicted(site):
    node = site.node
    wrote = f"dd if=/dev/zero of=/wrote bs={MB} count={WROTE_MB} 2>&-; echo done"
    node.put_pod("ended", container("main", wrote, image=ENDED), restartPolicy="Never")
    site.begin(ENDED)
    node.until_status("ended", "Completed", 60.0)
    assert site.available()[0] > site.least() + WROTE_MB * MB, (
        "room for a pod that takes more than what is kept"
    )
    site.fill("filler", site.least() - MARGIN_MB * MB)
    node.until(site.conditions, "the node is short of disk", 60.0)
    site.until_over()
    assert site.actions() == ACTIONS[:2]
    assert node_events(node, *OF_DISK) == [
        ("EvictionThresholdMet", "Attempting to reclaim ephemeral-storage")
    ]
    names = site.names()
    assert USED in names
    assert not set(UNUSED) & names
    # Its image was wanted a moment before, so it stayed that time; nothing holds it any more.
    plan = node.verb("images", "gc", "--dry-run").stdout
    assert re.search(rf"^{ENDED} .* remove ", plan, re.MULTILINE), plan
    # All that an ended pod leaves is its status.
    status = status_of(node, "ended")
    assert (status["phase"], status["containerStatuses"][0]["state"]["terminated"]["exitCode"]) == (
        "Succeeded",
        0,
    )
    assert node.printed("ended") == []
    assert "its log was removed when the node was short of disk" in node.verb("logs", "ended").stderr
    assert len(site.runtime.link.sandboxes()) == 2
    for name in ("modest", "filler"):
        assert (node.row(name)["status"], node.row(name)["restarts"]) == ("Running", 0)
    assert evicted(node) == []
    text = explained(node, "--dry-run")
    assert "nothing: no threshold is met" in text
    assert [name for name, _ in first_to_go(node, SIGNAL)] == ["filler", "modest"]


def test_images_go_first_then_who_filled_the_disk_and_all_is_well_again(site):
    node = site.node
    site.begin()
    # More than images give back: each is there as it was fetched, and unpacked.
    reclaimable = 3 * len(UNUSED) * EACH_MB * MB
    site.fill("filler", site.least() - reclaimable)
    status = until_evicted(node, "filler", site.look)
    node.put_pod("early", container("main", FOREVER))
    refused = until_evicted(node, "early")
    assert refused["message"] == "Pod was rejected: The node had condition: [DiskPressure]. "
    resource, least, available, *_ = low_on(status["message"])
    assert (resource, agree(least, site.least(), 1e-6)) == ("ephemeral-storage", True)
    assert available < least
    assert any(agree(available, one) for one in site.readings), (available, site.readings[-20:])
    assert [c["reason"] for c in disruption(status)] == ["TerminationByKubelet"]
    assert site.actions() == ACTIONS
    names = site.names()
    assert USED in names
    assert not set(UNUSED) & names, "images went before the pod"
    told = explained(node)
    assert f"default/filler-n1 for {SIGNAL}" in told
    node.until(lambda: not site.conditions(), "the pressure is over", 90.0)
    node.put_pod("late", container("main", FOREVER))
    node.until_running("late")
    assert (node.row("modest")["status"], node.row("modest")["restarts"]) == ("Running", 0)
    assert [name for name, _ in evicted(node)] == ["filler", "early"]
    met = node_events(node, *OF_DISK)
    assert met == [("EvictionThresholdMet", "Attempting to reclaim ephemeral-storage")]
    [row] = node.json("/eviction")["thresholds"]
    assert agree(row["available"], site.available()[0])
    assert row["met_s"] is None
