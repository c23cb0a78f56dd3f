"""The node that carries its own control plane, as kubeadm's first node does: each loss is recovered from without a hand."""

import contextlib
import os
import signal
from pathlib import Path

import pytest
import urllib3
from kubernetes import client

from api.ports.kube import ObjectPath
from tests.harness.agent.agent import NODE, processes
from tests.harness.agent.house import FOREVER
from tests.harness.cluster.clusteradmin import ClusterAdmin
from tests.harness.cluster.controlplane import CONTROLLERS, PROGRAMS, ControlPlane, assets
from tests.harness.cluster.member import LEASE, NODE_PATH, PODS, ContainerdMember, pod_path
from tests.harness.cri.image import BUSYBOX_NAME
from tests.harness.wait import until

pytestmark = [pytest.mark.real, pytest.mark.optional, pytest.mark.timeout(600)]

EACH = (*PROGRAMS, *CONTROLLERS)
SYSTEM = ObjectPath(plural="pods", namespace="kube-system")
MOUNTED = "/programs"
AWAY = (urllib3.exceptions.HTTPError, client.ApiException, OSError)
RECOVERS_S = 120.0


class Founder:
    """An agent whose static pods are the control plane that it is a node of."""

    def __init__(self, folder, runtime):
        self.programs = assets(*CONTROLLERS)
        self.plane = ControlPlane(folder / "plane", self.programs)
        self.admin = ClusterAdmin(self.plane.admin_kubeconfig)
        self.member = ContainerdMember(folder / "agent", runtime).join(
            self.plane.node_kubeconfig(NODE), self.admin
        )
        self.made = 0

    def put(self, name, *more):
        """Write the manifest of one program."""
        probe = {"path": "/livez", "port": self.plane.port, "host": "127.0.0.1", "scheme": "HTTPS"}
        container = {
            "name": name,
            "image": BUSYBOX_NAME,
            "imagePullPolicy": "IfNotPresent",
            "command": [f"{MOUNTED}/{name}", *self.plane.flags(name), *more],
            "volumeMounts": [
                {"name": "programs", "mountPath": MOUNTED, "readOnly": True},
                {"name": "plane", "mountPath": str(self.plane.folder)},
            ],
        }
        if name == "kube-apiserver":
            container["livenessProbe"] = {
                "httpGet": probe, "failureThreshold": 8, "periodSeconds": 10, "timeoutSeconds": 15
            }  # fmt: skip
            container["startupProbe"] = {
                "httpGet": probe, "failureThreshold": 24, "periodSeconds": 10, "timeoutSeconds": 15
            }  # fmt: skip
        self.member.write_pod(
            name,
            {"name": name, "namespace": "kube-system"},
            {
                "hostNetwork": True,
                "priorityClassName": "system-node-critical",
                "terminationGracePeriodSeconds": 5,
                "containers": [container],
                "volumes": [
                    {"name": "programs", "hostPath": {"path": str(self.programs), "type": "Directory"}},
                    {"name": "plane", "hostPath": {"path": str(self.plane.folder), "type": "Directory"}},
                ],
            },
        )

    def read(self, path):
        """Return an object, None while the control plane is away."""
        try:
            return self.admin.read(path)
        except AWAY:
            return None

    def pids(self):
        """Return the processes of the control plane."""
        marks = tuple(f"{MOUNTED}/{name}".encode() for name in EACH)
        folder = str(self.plane.folder).encode()
        found = {}
        for pid in processes.all_pids():
            with contextlib.suppress(OSError):
                line = Path(f"/proc/{pid}/cmdline").read_bytes()
                if line.startswith(marks) and folder in line:
                    found[line.split(b"\0")[0].rpartition(b"/")[2].decode()] = pid
        return found

    def kill_all(self):
        """Kill every program of the control plane at once."""
        for pid in self.pids().values():
            os.kill(pid, signal.SIGKILL)

    def renewed_at(self):
        lease = self.read(LEASE)
        return lease["spec"]["renewTime"] if lease else ""

    def recovers(self):
        """Wait until a new pod that the scheduler placed runs, each mirror is Running, and the lease is renewed."""
        self.made += 1
        name = f"work-{self.made}"
        seen = self.member._scene
        until(self.is_ready, "the Node is Ready", RECOVERS_S, seen)
        before = self.renewed_at()
        until(lambda: self.create(name), "a pod is created", 60.0, seen)
        until(lambda: self.phase(pod_path(name)) == "Running", f"{name} runs", 60.0, seen)
        until(lambda: self.renewed_at() > before, "the lease is renewed", 60.0, seen)
        for program in EACH:
            path = ObjectPath(plural="pods", namespace="kube-system", name=f"{program}-{NODE}")
            until(lambda path=path: self.phase(path) == "Running", f"the mirror of {program}", 60.0, seen)
        for number in range(1, self.made):
            (status,) = self.read(pod_path(f"work-{number}"))["status"]["containerStatuses"]
            assert "running" in status["state"], status

    def is_ready(self):
        node = self.read(NODE_PATH) or {}
        found = node.get("status", {}).get("conditions", [])
        return any(one["type"] == "Ready" and one["status"] == "True" for one in found)

    def create(self, name):
        container = {"name": "main", "image": BUSYBOX_NAME, "command": ["sh", "-c", FOREVER]}
        spec = {"automountServiceAccountToken": False, "containers": [container]}
        try:
            self.admin.create(PODS, {"metadata": {"name": name}, "spec": spec})
        except client.ApiException as error:
            return error.status == 409
        except AWAY:
            return False
        return True

    def phase(self, path):
        pod = self.read(path)
        return pod["status"].get("phase") if pod else "absent"


@pytest.fixture
def founder(tmp_path, make_containerd):
    found = Founder(tmp_path, make_containerd().start())
    yield found
    found.admin.close()
    found.member.clean_up()


def test_from_nothing_and_after_each_loss_the_node_is_ready_again_without_a_hand(founder):
    member, runtime = founder.member, founder.member.runtime
    for name in EACH:
        founder.put(name)
    member.start(ready=False)
    founder.recovers()

    before = founder.pids()
    assert set(before) == set(EACH)
    founder.kill_all()
    until(
        lambda: set(founder.pids()) == set(EACH), "all of them were started again", RECOVERS_S, member._scene
    )
    founder.recovers()
    assert not set(before.values()) & set(founder.pids().values())

    member.kill9()
    founder.kill_all()
    member.start(ready=False)
    founder.recovers()

    others = {name: pid for name, pid in founder.pids().items() if name != "kube-apiserver"}
    assert member.stop()[0] == 0
    founder.put("kube-apiserver", "--event-ttl=2h")
    member.start(ready=False)
    until(lambda: event_ttl(founder) == "2h", "the new API server runs", RECOVERS_S, member._scene)
    founder.recovers()
    assert founder.pids().items() >= others.items(), "the others ran on"

    member.kill9()
    runtime.power_off()
    assert not founder.pids()
    member.start(ready=False)
    runtime.start()
    founder.recovers()


def event_ttl(founder):
    """Return how long the API server that runs keeps events, empty while there is none."""
    pid = founder.pids().get("kube-apiserver")
    with contextlib.suppress(OSError):
        for word in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0"):
            if word.startswith(b"--event-ttl="):
                return word.partition(b"=")[2].decode()
    return ""
