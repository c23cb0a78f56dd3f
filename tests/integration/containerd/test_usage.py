"""Usage of pods on a real containerd against the kernel's own files, and what only the runtime knows: writable layers."""

import msgspec
import pytest

from tests.harness.agent.agent import NODE
from tests.harness.agent.node import container
from tests.harness.agent.reading import agree, groups_of, metrics, pod_named, value, working_set

pytestmark = pytest.mark.real
MIB = 1 << 20
SHM, LAYER = 40, 24
HOG = (
    f"dd if=/dev/zero of=/dev/shm/hog bs=1M count={SHM}; dd if=/dev/zero of=/layer bs=1M count={LAYER};"
    " i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; echo burnt; exec sleep 1000000"
)


def shown(node, name):
    status, body = node.ask("/stats/summary")
    return pod_named(msgspec.json.decode(body), f"{name}-{NODE}") if status == 200 else {}


def test_summary_and_metrics_agree_with_the_cgroups(node_of_each):
    node = node_of_each
    node.put("hog", HOG, grace=1)
    node.start()
    node.until(lambda: node.printed("hog") and "burnt" in node.printed("hog")[0], "it is at rest", 60.0)
    [(pid, _)] = node.mains("hog").values()
    groups = groups_of(pid)
    parent = groups["memory"].parent

    def agrees():
        found = shown(node, "hog")
        [container] = found.get("containers", [{}])
        fits = (
            "usageNanoCores" in container.get("cpu", {})
            and agree(container["memory"]["workingSetBytes"], working_set(groups["memory"]))
            and agree(container["memory"]["usageBytes"], value(groups["memory"] / "memory.usage_in_bytes"))
            and agree(container["cpu"]["usageCoreNanoSeconds"], value(groups["cpuacct"] / "cpuacct.usage"))
            and agree(found["memory"]["workingSetBytes"], working_set(parent))
        )
        return found if fits else None

    found = node.until(agrees, "the summary agrees with the cgroups", 60.0)
    [container] = found["containers"]
    assert container["memory"]["workingSetBytes"] > SHM * MIB
    # The sandbox's own process is part of the pod.
    assert found["memory"]["usageBytes"] > container["memory"]["usageBytes"]
    assert found["process_stats"]["process_count"] == 2
    assert found["network"]["name"] == "eth0"
    labels = (("container", "main"), ("namespace", "default"), ("pod", f"hog-{NODE}"))

    def page_agrees():
        page = metrics(node.ask("/metrics")[1])
        cpu_s = value(groups["cpuacct"] / "cpuacct.usage") / 1e9
        return agree(
            page["container_memory_working_set_bytes"][labels], working_set(groups["memory"])
        ) and agree(page["container_cpu_usage_seconds_total"][labels], cpu_s)

    # The page is as old as the last round: what the kernel caches of files may have come or gone since.
    node.until(page_agrees, "the page agrees with the cgroups", 60.0)

    def layer():
        rootfs = shown(node, "hog")["containers"][0].get("rootfs", {})
        return rootfs if rootfs.get("usedBytes", 0) >= LAYER * MIB else None

    rootfs = node.until(layer, "the runtime's figure of the writable layer is in it", 90.0)
    assert agree(rootfs["usedBytes"], LAYER * MIB)
    assert rootfs["inodesUsed"] >= 1
    assert shown(node, "hog")["ephemeral-storage"]["usedBytes"] >= LAYER * MIB


def test_the_file_system_of_images_is_in_the_summary(node):
    node.start()

    def images():
        status, body = node.ask("/stats/summary")
        return status == 200 and msgspec.json.decode(body)["node"].get("runtime", {}).get("imageFs")

    found = node.until(images, "the image file system is measured", 60.0)
    assert found["capacityBytes"] > found["availableBytes"] > 0
    assert found["usedBytes"] >= 0


def test_usage_is_still_told_while_the_runtime_is_gone_and_says_so(own_node):
    node = own_node
    node.put("web", "exec sleep 1000000", grace=1)
    node.start()
    node.until_running("web")
    node.until(lambda: shown(node, "web").get("memory"), "its memory is read", 60.0)
    node.runtime.stop()

    def said():
        usage = node.json("/usage")
        lost = any(text.startswith("listing of pods: ") for text in usage["troubles"])
        return usage if lost else None

    usage = node.until(said, "it says that pods are not listed", 60.0)
    [web] = usage["pods"]
    # The pod lives on without its runtime, and so do the numbers of its cgroups.
    assert web["memory"]["working_set_bytes"] > 0
    node.runtime.start()
    node.until(lambda: not node.json("/usage")["troubles"], "all is read again", 90.0)


def test_emptydirs_on_disk_and_in_memory_are_counted_apart(node):
    script = (
        f"dd if=/dev/urandom of=/cache/x bs=1M count={LAYER}; dd if=/dev/zero of=/ram/x bs=1M count=8;"
        " exec sleep 1000000"
    )
    mounts = [{"name": name, "mountPath": f"/{name}"} for name in ("cache", "ram")]
    volumes = [
        {"name": "cache", "emptyDir": {}},
        {"name": "ram", "emptyDir": {"medium": "Memory", "sizeLimit": "64Mi"}},
    ]
    node.put_pod("web", container("main", script, volumeMounts=mounts), volumes=volumes)
    node.start()

    def counted():
        found = {volume["name"]: volume for volume in shown(node, "web").get("volume", [])}
        full = found and all(found[name].get("usedBytes", 0) >= least for name, least in sizes.items())
        return found if full else None

    sizes = {"cache": LAYER * MIB, "ram": 8 * MIB}
    found = node.until(counted, "both volumes are in the summary", 90.0)
    for name, size in sizes.items():
        assert agree(found[name]["usedBytes"], size)
    assert found["cache"]["inodesUsed"] == 2
    assert found["ram"]["capacityBytes"] == 64 * MIB
    used = shown(node, "web")["ephemeral-storage"]["usedBytes"]
    assert LAYER * MIB <= used < (LAYER + 6) * MIB
