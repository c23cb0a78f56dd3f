"""Usage of a real agent on the embedded runtime: what it says against what the kernel says, and what a hang costs."""

import os
import sys
from pathlib import Path

import msgspec
import pytest

from api.faults import FaultPlan, HangOperation
from tests.harness.agent.agent import NODE, Agent, pod
from tests.harness.agent.reading import agree, cpu_s, groups_of, metrics, pod_named, resident, working_set

MIB = 1 << 20
HOG = 96
BURN_S = 2.0
SCRIPT = f"""
import sys, time
x = bytearray(b"x") * ({HOG} << 20)
until = time.process_time() + {BURN_S}
while time.process_time() < until: pass
print("burnt", flush=True)
time.sleep(1000000)
"""


@pytest.fixture
def agent(tmp_path):
    made = Agent(tmp_path / "agent")
    yield made
    made.clean_up()


def put_hog(agent):
    words = [sys.executable, "-c", SCRIPT]
    document = pod("hog", "", folder=agent.folder, grace=1)
    document["spec"]["containers"][0]["command"] = words
    agent.write("hog.yaml", msgspec.json.encode(document))


def summary(agent, query=""):
    status, body = agent.ask(f"/stats/summary{query}")
    return msgspec.json.decode(body) if status == 200 else {"pods": [], "node": {}}


def hog_of(agent):
    return pod_named(summary(agent), f"hog-{NODE}")


def in_use(pid):
    """Return what the kernel counts of a container: its memory cgroup's working set, else what its process has."""
    memory = groups_of(pid).get("memory")
    return working_set(memory) if memory is not None and "pod" in memory.parent.name else resident(pid)


def burnt(agent):
    return any("burnt" in path.read_text() for path in agent.logs.glob("*/main/*.log"))


def test_summary_and_metrics_agree_with_the_kernel(agent):
    put_hog(agent)
    agent.start()
    agent.until(lambda: burnt(agent), "the hog has burnt what it burns", 60.0)
    [(pid, _)] = agent.mains("hog").values()

    def agrees():
        found = hog_of(agent)
        if not found.get("containers") or "usageNanoCores" not in found["cpu"]:
            return None
        memory, cpu = found["memory"]["workingSetBytes"], found["cpu"]["usageCoreNanoSeconds"]
        fits = agree(memory, in_use(pid)) and agree(cpu / 1e9, cpu_s(pid))
        return found if fits else None

    found = agent.until(agrees, f"the summary agrees with /proc/{pid}", 60.0)
    assert found["memory"]["workingSetBytes"] > HOG * MIB
    assert found["cpu"]["usageCoreNanoSeconds"] > BURN_S * 1e9
    assert found["process_stats"] == {"process_count": 1}
    assert found["containers"][0]["name"] == "main"
    # Folders are walked every second round, and some file systems count nothing for one that has but empty files.
    agent.until(lambda: hog_of(agent)["containers"][0]["logs"]["usedBytes"] > 0, "its log is counted", 60.0)
    assert found["ephemeral-storage"]["inodesUsed"] >= 2

    page = metrics(agent.ask("/metrics")[1])
    labels = (("container", "main"), ("namespace", "default"), ("pod", f"hog-{NODE}"))
    assert agree(page["container_memory_working_set_bytes"][labels], in_use(pid))
    assert agree(page["container_cpu_usage_seconds_total"][labels], cpu_s(pid))
    assert agree(page["pod_memory_working_set_bytes"][labels[1:]], in_use(pid))
    assert page["resource_scrape_error"] == {(): 0}
    assert page["kubelet_running_pods"] == {(): 1}
    assert page["nodeagent_actors"][(("class", "PodActor"), ("state", "ALIVE"))] == 1
    handled = page["nodeagent_messages_handled_total"][(("class", "PodActor"),)]
    assert handled == page["nodeagent_handling_seconds_count"][(("class", "PodActor"),)]
    assert handled > 5
    assert page["nodeagent_mailbox_wait_seconds_count"][(("class", "Pleg"),)] > 0
    started = (("call", "StartContainer"), ("port", "runtime"))
    assert page["nodeagent_operation_seconds_count"][started] == 1
    assert page["kubelet_runtime_operations_total"][(("operation_type", "start_container"),)] == 1


def test_the_machine_agrees_with_the_kernel(agent):
    agent.start()

    def agrees():
        node = summary(agent)["node"]
        if "memory" not in node:
            return None
        meminfo = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
        total = int(meminfo["MemTotal"].split()[0]) * 1024
        memory = node["memory"]
        disk = os.statvfs(agent.root)
        threads = int(Path("/proc/loadavg").read_text().split()[3].partition("/")[2])
        return (
            agree(memory["availableBytes"] + memory["workingSetBytes"], total)
            and agree(node["fs"]["availableBytes"], disk.f_bavail * disk.f_frsize)
            and agree(node["fs"]["capacityBytes"], disk.f_blocks * disk.f_frsize)
            and agree(node["fs"]["inodesFree"], disk.f_ffree)
            and abs(node["rlimit"]["curproc"] - threads) <= max(20, threads * 0.2)
        )

    agent.until(agrees, "the machine's part agrees with the kernel", 60.0)
    short = summary(agent, "?only_cpu_and_memory=true")["node"]
    assert "fs" not in short
    assert "cpu" in short
    [kubelet] = [part for part in short["systemContainers"] if part["name"] == "kubelet"]
    assert agree(kubelet["memory"]["workingSetBytes"], resident(agent.process.pid), 0.2)


def test_files_in_an_emptydir_and_their_inodes_are_counted(agent):
    agent.put("web", "exec sleep 1000000", grace=1)
    agent.start()
    agent.until_status("web", "Running")
    uid = agent.row("web")["uid"]
    volume = agent.root / f"pods/{uid}/volumes/kubernetes.io~empty-dir/cache"
    volume.mkdir(parents=True)
    for number in range(50):
        (volume / f"f{number}").write_bytes(os.urandom(200_000))

    def counted():
        found = pod_named(summary(agent), f"web-{NODE}").get("volume", [])
        return found if found and found[0].get("inodesUsed") == 51 else None

    [cache] = agent.until(counted, "the volume is in the summary", 60.0)
    assert cache["name"] == "cache"
    assert agree(cache["usedBytes"], 50 * 200_704 + 4096)


@pytest.mark.parametrize("call", ["MeasureDisks", "ReadPods", "ListPods"])
def test_a_reading_that_hangs_costs_its_own_part_only(agent, call):
    port = "runtime" if call == "ListPods" else "usage"
    faults = (HangOperation(port=port, call=call, after=3, times=1000),)
    if call == "ListPods":
        # Pleg's own listings are not what is broken here: each lists, and every second one hangs.
        faults = (HangOperation(port=port, call=call, after=9, times=3),)
    plan = agent.folder / "plan.json"
    plan.write_bytes(msgspec.json.encode(FaultPlan(faults=faults)))
    agent.put("web", "exec sleep 1000000", grace=1)
    agent.start(env={"NODEAGENT_FAULTS": str(plan)})

    def later_round():
        status, body = agent.ask("/usage")
        usage = msgspec.json.decode(body) if status == 200 else {"round": 0}
        return usage if usage["round"] >= 5 else None

    usage = agent.until(later_round, "rounds go on", 90.0)
    assert usage["node"]["memory"]["working_set_bytes"] > 0
    assert usage["node"]["fs"]["capacity_bytes"] > 0
    assert [found["name"] for found in usage["pods"]] == [f"web-{NODE}"]
    assert agent.ask("/stats/summary")[0] == 200
    assert agent.row("web")["status"] == "Running"


def test_top_lists_pods_and_a_pod_without_stats_is_named(agent):
    agent.put("web", "exec sleep 1000000", grace=1)
    agent.put("crash", "exit 3", grace=1)
    agent.start()
    agent.until_status("web", "Running")
    agent.until_status("crash", "CrashLoopBackOff")

    def named():
        done = agent.verb("top", "--containers")
        return (
            done.stdout if "no usage: no container runs" in done.stdout and "  main" in done.stdout else None
        )

    text = agent.until(named, "top names the pod that does not run", 60.0)
    lines = {line.split()[1]: line.split() for line in text.splitlines() if line.startswith("default ")}
    assert lines[f"crash-{NODE}"][2:4] == ["-", "-"]
    assert lines[f"web-{NODE}"][3] != "-"
    assert text.startswith(f"node {NODE}:")
