"""Golden pairs of admission: a node, the pods on it and a new pod in, the verdict with its reason and message out.

Each pair is written by hand from the rule that it names. A pod is a whole manifest or only what differs from a plain
static one; `ask` and `ports` are short for the requests and host ports of its one container.
"""

from pathlib import Path as File

import msgspec
import pytest

from actors.admission.judge import Admitted, PodOnNode, PodsOnNode, Refused, Waiting, judge
from actors.rules.resources.request import claim_of
from api.ids import Uid
from api.kube.objects.pod import Pod
from api.kube.poddefault import default_pod
from api.kube.quantity import parse
from api.ports.node import NodeFacts, NodeTaint
from tests.golden.pair import hold

PAIRS = sorted(File(__file__).parent.glob("*.yaml"))


def node_of(raw):
    """Return the node that a pair describes: 4 CPUs, 8Gi of memory, 20Gi of disk, 110 pods, unless it says otherwise."""
    taints = tuple(msgspec.convert(one, NodeTaint) for one in raw.get("taints", ()))
    labels = {"kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64", **raw.get("labels", {})}
    return NodeFacts(
        name=raw.get("name", "n1"),
        allocatable_cpu_milli=parse(str(raw.get("cpu", "4"))).milli_value(),
        allocatable_memory_bytes=parse(str(raw.get("memory", "8Gi"))).value(),
        allocatable_ephemeral_bytes=parse(str(raw.get("disk", "20Gi"))).value(),
        allocatable_scalars=tuple(
            sorted((name, parse(str(text)).value()) for name, text in raw.get("others", {}).items())
        ),
        max_pods=raw.get("pods", 110),
        labels=tuple(sorted(labels.items())),
        taints=taints,
        allowed_sysctls=tuple(raw.get("sysctls", ())),
        strict_groups=raw.get("strict_groups", False),
        apparmor=raw.get("apparmor", False),
    )


def pod_of(raw):
    """Return a pod, static unless its source is given."""
    name = raw.get("name", "new")
    meta = dict(raw.get("metadata", {}))
    source = raw.get("source", "file")
    annotations = {"kubernetes.io/config.source": source, **meta.get("annotations", {})}
    meta = {"name": name, "namespace": "default", "uid": name, **meta, "annotations": annotations}
    container = {"name": "c", "image": "app:1"}
    if "ask" in raw:
        container["resources"] = {"requests": {k: str(v) for k, v in raw["ask"].items()}}
    if "limit" in raw:
        container.setdefault("resources", {})["limits"] = {k: str(v) for k, v in raw["limit"].items()}
    if "ports" in raw:
        container["ports"] = [{"containerPort": 80, **one} for one in raw["ports"]]
    spec = {"containers": [container], **raw.get("spec", {})}
    if "priority" in raw:
        spec["priority"] = raw["priority"]
    return default_pod(msgspec.convert({"metadata": meta, "spec": spec}, Pod))


def pods_on_node(running):
    """Return everybody who is on the node."""
    on_node = PodsOnNode()
    for raw in running:
        pod = pod_of(raw)
        pod_on_node = PodOnNode(
            uid=Uid(pod.metadata.uid),
            name=f"{pod.metadata.namespace}/{pod.metadata.name}",
            claim=claim_of(pod.spec),
            leaving=raw.get("leaving", False),
            pod=pod,
        )
        on_node = on_node.plus(pod_on_node)
    return on_node


def outcome_of(pair):
    """Return what comes out, as a pair writes it."""
    pod = pod_of(pair["pod"])
    verdict = judge(
        pod, claim_of(pod.spec), node_of(pair.get("node", {})), pods_on_node(pair.get("running", ()))
    )
    match verdict:
        case Admitted():
            return {"verdict": "admitted"}
        case Refused(refusal=refusal):
            return {
                "verdict": "refused",
                "reason": refusal.reason,
                "message": refusal.message,
                "advice": list(refusal.advice),
            }
        case Waiting(why=why, victims=victims):
            return {"verdict": "waiting", "why": why, "victims": list(victims)}


@pytest.mark.parametrize("path", PAIRS, ids=lambda path: path.stem)
def test_a_pair_comes_out_as_its_rule_says(path, request):
    hold(path, outcome_of, update=request.config.getoption("--update", default=False))


def test_there_are_enough_pairs():
    assert len(PAIRS) >= 25
