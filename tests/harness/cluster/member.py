"""Agents that are nodes of a control plane: `EmbeddedMember` with plain processes, `ContainerdMember` with containers."""

import subprocess

from actors.sources.api.state import SECTION
from api.ports.kube import LEASES, ObjectPath
from tests.harness.agent.agent import IMAGE, MARK, NODE, Agent, main_of
from tests.harness.agent.house import FOREVER
from tests.harness.agent.node import Node
from tests.harness.cluster.clusteradmin import pod_body
from tests.harness.cri.image import BUSYBOX_NAME
from tests.harness.wait import until

NODE_PATH = ObjectPath(plural="nodes", name=NODE)
LEASE = ObjectPath(api_version=LEASES, plural="leases", namespace="kube-node-lease", name=NODE)
PODS = ObjectPath(plural="pods", namespace="default")
EVENTS = ObjectPath(plural="events", namespace="default")


def pod_path(name, subresource=""):
    """Return the place of a pod in the namespace default."""
    return ObjectPath(plural="pods", namespace="default", name=name, subresource=subresource)


class Member:
    """What a test asks of a node and of its control plane. To be mixed into an agent."""

    image = BUSYBOX_NAME
    flags: tuple[str, ...] = ()

    def join(self, kubeconfig, admin):
        """Set the identity of the node, and who asks the control plane."""
        self.kubeconfig, self.admin = kubeconfig, admin
        return self

    def command(self, *flags, manifests=True):
        """Return the words of ``run`` as a node of the control plane."""
        return super().command("--kubeconfig", str(self.kubeconfig), *self.flags, *flags, manifests=manifests)

    def node(self):
        """Return the Node, None when there is none."""
        return self.admin.read(NODE_PATH)

    def condition(self, kind):
        """Return a condition of the Node; its status is ``absent`` where it has none."""
        found = (self.node() or {}).get("status", {}).get("conditions", [])
        return next((one for one in found if one["type"] == kind), {"status": "absent"})

    def until_ready(self, deadline_s=20.0):
        """Wait until the control plane has the Node as ready."""
        until(lambda: self.condition("Ready")["status"] == "True", "it is Ready", deadline_s, self._scene)

    def body(self, name, script=FOREVER, **spec):
        """Return a pod for this node with one container that runs a shell script."""
        container = {
            "name": "main",
            "image": self.image,
            "command": ["sh", "-c", script],
            "env": [{"name": MARK, "value": str(self.folder)}],
        }
        return pod_body(name, NODE, **{"containers": [container], "enableServiceLinks": False, **spec})

    def create(self, name, script=FOREVER, **spec):
        """Create such a pod."""
        return self.admin.create(PODS, self.body(name, script, **spec))

    def checkpointed(self):
        """Return how many pods of the API server the agent remembers."""
        return len(list((self.root / "ledger" / SECTION).glob("*")))

    def main(self, name):
        """Return the process of a pod's container that runs."""
        (status,) = self.shown(name)["status"]["containerStatuses"]
        return main_of(status["containerID"].rpartition("/")[2])

    def shown(self, name):
        """Return a pod as the control plane has it, None when there is none."""
        return self.admin.read(pod_path(name))

    def events(self, about):
        """Return the events of a pod or of the node by their reasons, the last one of each."""
        found = self.admin.read(EVENTS)["items"]
        return {one["reason"]: one for one in found if one["involvedObject"]["name"] == about}

    def phase(self, name):
        """Return a pod's phase, ``absent`` when there is none."""
        pod = self.shown(name)
        return pod["status"].get("phase") if pod else "absent"

    def until_phase(self, name, phase, deadline_s=20.0):
        """Wait for a phase of a pod."""
        until(lambda: self.phase(name) == phase, f"{name} is {phase}", deadline_s, self._scene)

    def delete(self, name, grace_s=None):
        """Delete a pod."""
        self.admin.delete(pod_path(name), grace_s)

    def leave(self):
        """End the agent, and remove what the control plane has of it and of its pods."""
        try:
            for one in self.admin.read(PODS)["items"]:
                path = pod_path(one["metadata"]["name"])
                if one["metadata"].get("finalizers"):
                    self.admin.patch(path, {"metadata": {"finalizers": None}})
                self.admin.remove(path, 0)
        finally:
            self.clean_up()
        self.admin.remove(NODE_PATH)


class EmbeddedMember(Member, Agent):
    """A node whose pods are plain processes."""

    image = IMAGE
    flags = ("--allow-host-image",)


class ContainerdMember(Member, Node):
    """A node on a private containerd."""


def kubectl(plane, *words, timeout_s=60.0):
    """Return what kubectl prints, as the administrator of a control plane; fails with what it says."""
    command = [plane.program("kubectl"), "--kubeconfig", str(plane.admin_kubeconfig), *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, check=False)
    assert done.returncode == 0, f"kubectl {' '.join(words)}: {done.stderr}"
    return done.stdout
