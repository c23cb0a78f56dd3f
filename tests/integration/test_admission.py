"""Admission by a real agent: what does not fit is Failed with a kubelet's reason, for good; a critical pod makes room."""

import json
import os

from tests.harness.agent.agent import NODE, pod

FOREVER = "exec sleep 1000000"
CPUS = os.cpu_count()


def put(agent, name, cpu="", script=FOREVER, ports=(), **spec):
    """Write the manifest of a pod that requests so much CPU."""
    document = pod(name, script, folder=agent.folder)
    [container] = document["spec"]["containers"]
    if cpu:
        container["resources"] = {"requests": {"cpu": str(cpu)}}
    if ports:
        container["ports"] = [{"containerPort": port, "hostPort": port} for port in ports]
    document["spec"] |= spec
    agent.write(f"{name}.yaml", json.dumps(document))


def status(agent, name):
    """Return a pod's whole status."""
    [found] = [one for one in agent.json("/pods")["items"] if one["metadata"]["name"] == f"{name}-{NODE}"]
    return found["status"]


def test_a_pod_beyond_the_nodes_capacity_is_failed_and_stays_so_over_restarts(agent):
    put(agent, "fits", cpu="100m")
    put(agent, "large", cpu=CPUS + 1)
    agent.start()
    agent.until_status("fits", "Running")
    agent.until_status("large", "OutOfcpu")
    asked, whole = (CPUS + 1) * 1000, CPUS * 1000
    text = f"Node didn't have enough resource: cpu, requested: {asked}, used: 100, capacity: {whole}"
    found = status(agent, "large")
    assert (found["phase"], found["reason"]) == ("Failed", "OutOfcpu")
    assert found["message"] == f"Pod was rejected: {text}"
    assert not found.keys() & {"conditions", "containerStatuses"}
    told = agent.explain("large")
    assert any(line.startswith("requests ") for line in told["problems"])
    assert any(f"fits-{NODE} (0.1)" in line for line in told["problems"])
    assert "changed manifest" in told["waits_for"]
    assert "OutOfcpu" in agent.verb("events", "large").stdout
    before = agent.row("large")["uid"], agent.mains("fits"), found
    agent.kill9()
    # Now it would fit, if anybody asked again; and what runs would not.
    agent.configure(maxPods=1)
    (agent.manifests / "none.yaml").unlink(missing_ok=True)
    agent.start()
    agent.until_status("large", "OutOfcpu")
    agent.until_status("fits", "Running")
    assert (agent.row("large")["uid"], agent.mains("fits"), status(agent, "large")) == before
    put(agent, "late")
    agent.until_status("late", "OutOfpods")


def test_a_changed_manifest_is_judged_anew(agent):
    put(agent, "web", cpu=CPUS + 1)
    agent.start()
    agent.until_status("web", "OutOfcpu")
    put(agent, "web", cpu="100m")
    agent.until_status("web", "Running")


def test_pods_beyond_the_limit_are_refused_and_a_place_that_becomes_free_is_waited_for(make_agent):
    agent = make_agent(maxPods=2)
    gate = agent.folder / "gate"
    for name in ("a", "b", "c"):
        put(
            agent,
            name,
            script=f"trap 'until [ -e {gate} ]; do sleep 0.05; done; exit 0' TERM; sleep 1000000 & wait",
        )
    agent.start()

    def words():
        return sorted(row["status"] for row in agent.rows().values())

    agent.until(lambda: words() == ["OutOfpods", "Running", "Running"], "two of three run")
    first = next(name for name, row in agent.rows().items() if row["status"] == "Running")
    agent.drop(first)
    put(agent, "d")
    agent.until(lambda: "d" in agent.rows() and "pods that are ending" in agent.row("d")["why"], "d waits")
    assert f"{first}-{NODE}" in agent.explain("d")["waits_for"]
    gate.touch()
    agent.until_status("d", "Running", deadline_s=60.0)


def test_a_node_has_the_labels_taints_and_ports_that_pods_ask_for(agent):
    put(agent, "here", nodeSelector={"disk": "ssd", "kubernetes.io/hostname": NODE}, ports=(18080,))
    agent.start("--node-labels", "disk=ssd", "--register-with-taints", "gpu=yes:NoExecute")
    agent.until_status("here", "Running")
    put(agent, "elsewhere", nodeSelector={"disk": "hdd"})
    put(agent, "same-port", ports=(18080,))
    agent.until_status("elsewhere", "NodeAffinity")
    agent.until_status("same-port", "NodePorts")
    assert status(agent, "elsewhere")["message"] == (
        "Pod was rejected: Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector"
    )
    assert f"port 18080/TCP is taken by default/here-{NODE}" in agent.explain("same-port")["problems"]


def test_a_critical_pod_has_a_lesser_one_stopped_and_takes_its_place(agent):
    put(agent, "lesser", cpu=CPUS, script="trap 'sleep 1; exit 0' TERM; sleep 1000000 & wait")
    put(agent, "small")
    agent.start()
    agent.until_status("lesser", "Running")
    agent.until_status("small", "Running")
    put(agent, "top", cpu=CPUS, priority=2_000_001_000, priorityClassName="system-node-critical")
    agent.until_status("top", "Running")
    agent.until_status("lesser", "Preempting")
    assert agent.row("small")["status"] == "Running"
    found = status(agent, "lesser")
    assert (found["phase"], found["message"]) == ("Failed", "Preempted in order to admit critical pod")
    [condition] = [one for one in found["conditions"] if one["type"] == "DisruptionTarget"]
    assert condition["reason"] == "TerminationByKubelet"
    assert "pre-empted, " in agent.explain("lesser")["kill"]
    agent.kill9()
    agent.start()
    agent.until_status("top", "Running")
    agent.until_status("lesser", "Preempting")


def test_more_reserved_than_there_is_is_one_clear_line(make_agent):
    agent = make_agent(kubeReserved={"cpu": str(CPUS + 1)})
    ended = agent.run()
    assert ended.returncode == 1
    assert 'Resource "cpu" has a reservation of' in ended.stderr
