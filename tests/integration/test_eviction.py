"""Real pods that take more disk than they may, or more than the node has: who goes, with which numbers, and recovery."""

import json

import pytest

from tests.harness.agent.agent import pod
from tests.harness.agent.reading import metrics
from tests.harness.eviction.pressure import disruption, evicted, explained, low_on, node_events, until_evicted
from tests.harness.eviction.smalldisk import SmallDisk
from tests.harness.part import need

pytestmark = [pytest.mark.real, pytest.mark.slow]
FOREVER = "exec sleep 1000000"
DEADLINE_S = 150.0
DISK_MB = 100
MB = 1_000_000


@pytest.fixture(autouse=True)
def _as_root():
    need("root")


def put(agent, name, megabytes, limit="", **spec):
    """Write a pod that puts so many megabytes into an emptyDir."""
    place = agent.folder / "place"
    place.mkdir(exist_ok=True)
    script = f"head -c {megabytes * MB} /dev/zero >{place}/data; {FOREVER}"
    volume = {"name": "data", "emptyDir": {"sizeLimit": limit} if limit else {}}
    made = pod(name, script, folder=agent.folder, volumes=[volume], **spec)
    made["spec"]["containers"][0]["volumeMounts"] = [{"name": "data", "mountPath": str(place)}]
    agent.write(f"{name}.yaml", json.dumps(made))


def test_a_pod_over_the_limit_of_its_volume_goes_and_others_stay(agent):
    agent.configure(evictionHard={})
    put(agent, "hog", 3, limit="1Mi")
    put(agent, "modest", 3, limit="10Mi")
    agent.start()
    agent.until_status("modest", "Running")
    status = until_evicted(agent, "hog")
    message = 'Usage of EmptyDir volume "data" exceeds the limit "1Mi". '
    assert status["message"] == message
    assert disruption(status) == [], "it was its own fault"
    assert evicted(agent) == [("hog", message)]
    counted = metrics(agent.ask("/metrics")[1])["kubelet_evictions_total"]
    assert counted == {(("eviction_signal", "emptydirfs.limit"),): 1}
    told = json.loads(agent.verb("explain", "eviction", "-o", "json").stdout)
    [victim] = told["victims"]
    assert (victim["pod"], victim["signal"]) == ("default/hog-n1", "emptydirfs.limit")
    assert agent.row("modest")["status"] == "Running"
    assert agent.keepers()


def test_a_full_disk_has_the_hog_go_with_the_right_numbers_and_recovers(make_agent, tmp_path):
    with SmallDisk(tmp_path / "small", DISK_MB) as disk:
        agent = make_agent(root=disk.path / "root")
        try:
            fill_and_recover(agent)
        finally:
            agent.clean_up()


def fill_and_recover(agent):
    agent.configure(evictionHard={"nodefs.available": "40%"}, evictionPressureTransitionPeriod="20s")
    put(agent, "modest", 1)
    agent.start()
    agent.until_status("modest", "Running")
    put(agent, "hog", 60)
    status = until_evicted(agent, "hog")
    resource, least, available, *_ = low_on(status["message"])
    assert resource == "ephemeral-storage"
    [row] = agent.json("/eviction")["thresholds"]
    assert least == row["least"]
    assert abs(least - 0.4 * row["capacity"]) < 1024
    assert 0 < available < least
    assert available < DISK_MB * MB - 60 * MB, "what the hog took is gone from what is available"
    assert [c["reason"] for c in disruption(status)] == ["TerminationByKubelet"]
    assert agent.json("/eviction")["conditions"][0].startswith("DiskPressure")
    assert node_events(agent, "EvictionThresholdMet")[0][1] == "Attempting to reclaim ephemeral-storage"

    put(agent, "early", 1)
    refused = until_evicted(agent, "early")
    assert refused["message"] == "Pod was rejected: The node had condition: [DiskPressure]. "

    agent.until(lambda: not agent.json("/eviction")["conditions"], "the pressure is over", DEADLINE_S)
    put(agent, "late", 1)
    agent.until_status("late", "Running", 60.0)
    assert agent.row("modest")["status"] == "Running"
    assert [name for name, _ in evicted(agent)] == ["hog", "early"]
    text = explained(agent, "--dry-run")
    assert "nothing: no threshold is met" in text
    assert "order of eviction if nodefs.available were short:" in text
    assert "default/hog-n1 for nodefs.available" in text
