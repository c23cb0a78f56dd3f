"""Pods that a kubelet made and this agent goes on with: their containers are restarted in the sandbox that is there."""

import json
import os

import pytest

from actors.pod.spec.identity import container_hash
from api.ports.runtime import (
    ANNOTATION_HASH,
    LABEL_CONTAINER_NAME,
    LABEL_POD_NAME,
    LABEL_POD_NAMESPACE,
    LABEL_POD_UID,
)
from runtime.wire.generated import cri_pb2 as cri
from tests.harness.agent.agent import NODE
from tests.harness.agent.agent import pod as manifest
from tests.harness.cri.crilink import RUNTIME
from tests.harness.cri.image import BUSYBOX_NAME

pytestmark = pytest.mark.real
UID = "0123456789abcdef0123456789abcdef"
SCRIPT = "echo up; exec sleep 1000000"


def call(link, method, request, answer):
    return answer.FromString(link.call(f"{RUNTIME}{method}", request.SerializeToString()))


def run_as_a_kubelet_would(node, name):
    """Run a pod with one container, with the labels and the log folder of a kubelet; return the ids of both."""
    link, full = node.runtime.link, f"{name}-{NODE}"
    labels = {LABEL_POD_NAME: full, LABEL_POD_NAMESPACE: "default", LABEL_POD_UID: UID}
    logs = node.logs / f"default_{full}_{UID}"
    (logs / "main").mkdir(parents=True)
    sandbox = cri.PodSandboxConfig(
        metadata=cri.PodSandboxMetadata(name=full, uid=UID, namespace="default"),
        labels=labels,
        log_directory=str(logs),
        linux=cri.LinuxPodSandboxConfig(cgroup_parent=f"{node.runtime.cgroup_root}/kubepods/pod{UID}"),
    )
    request = cri.RunPodSandboxRequest(config=sandbox)
    box = call(link, "RunPodSandbox", request, cri.RunPodSandboxResponse).pod_sandbox_id
    container = cri.ContainerConfig(
        metadata=cri.ContainerMetadata(name="main"),
        image=cri.ImageSpec(image=BUSYBOX_NAME),
        command=["sh", "-c", SCRIPT],
        labels=labels | {LABEL_CONTAINER_NAME: "main"},
        annotations={ANNOTATION_HASH: container_hash("main", BUSYBOX_NAME)},
        log_path="main/0.log",
    )
    request = cri.CreateContainerRequest(pod_sandbox_id=box, config=container, sandbox_config=sandbox)
    made = call(link, "CreateContainer", request, cri.CreateContainerResponse).container_id
    request = cri.StartContainerRequest(container_id=made)
    call(link, "StartContainer", request, cri.StartContainerResponse)
    return box, made


def test_a_container_of_a_kubelets_pod_has_its_successor_in_the_same_sandbox(node_of_each):
    node = node_of_each
    box, made = run_as_a_kubelet_would(node, "web")
    document = manifest("web", SCRIPT, image=BUSYBOX_NAME, pull="IfNotPresent", folder=node.folder, grace=1)
    document["metadata"]["uid"] = UID
    node.write("web.yaml", json.dumps(document))
    node.start()
    node.until_running("web")
    assert node.status("web")["containerID"].endswith(made)
    address = node.address("web")
    assert (address, node.row("web")["restarts"]) == (node.runtime.link.address(box), 0)
    for restarts in (1, 2):
        [(pid, start)] = node.mains("web").values()
        os.kill(pid, 9)
        node.until(
            lambda gone=(pid, start): (m := node.mains("web")) and m["main"] != gone, "a successor runs", 30
        )
        node.until(lambda n=restarts: node.row("web")["restarts"] == n, "the restart is told")
    assert node.runtime.link.sandboxes() == [box]
    assert node.address("web") == address
    # Of the dead ones only the newest is kept, the container that the kubelet made is gone with its log.
    node.until(lambda: node.printed("web") == [["up"]] * 2, "each run spoke once, the eldest is removed")
    node.drop("web")
    node.until_gone("web")
    node.until_empty()
