"""A real agent on a private containerd: what of its pods is asked from the runtime's own side."""

import http.client
import json
import os
import re
import signal
from pathlib import Path

import grpc
import msgspec

from api.faults import FaultPlan, KillProcess
from api.ports.images import AnyImageCall
from runtime.drivers.host.volumes import mount
from tests.harness.agent.agent import NODE, Agent, processes
from tests.harness.cri.containerd import Containerd
from tests.harness.cri.image import BUSYBOX_NAME
from tests.harness.wait import until

LINE = re.compile(r"^\S+ (?:stdout|stderr) [PF] (.*)$", re.MULTILINE)


class Node(Agent):
    """An agent, its containerd and both their folders. Manifests name busybox when they name no image."""

    def __init__(self, folder: Path, runtime: Containerd, *, endpoint: str = "", **config) -> None:
        self.runtime = runtime
        fields = {"containerRuntimeEndpoint": endpoint or runtime.endpoint, "cgroupRoot": runtime.cgroup_root}
        super().__init__(folder, **(fields | config))

    def configure(self, **fields):
        self.fields = {**getattr(self, "fields", {}), **fields}
        super().configure(**self.fields)

    def put(self, name, script, *, image=BUSYBOX_NAME, pull="IfNotPresent", **kwargs):
        """Write the manifest of a pod with one container that runs a shell script."""
        super().put(name, script, image=image, pull=pull, **kwargs)

    def put_pod(self, name, *containers, **spec):
        """Write the manifest of a pod with these containers: `container("a", "exec sleep 1", ports=[...])`."""
        fields = {"terminationGracePeriodSeconds": 1, "containers": list(containers), **spec}
        self.write_pod(name, {"name": name}, fields)

    def write_pod(self, name, metadata, spec):
        """Write a pod's manifest."""
        document = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
        self.write(f"{name}.yaml", json.dumps(document))

    # the pods as the agent shows them

    def pod(self, name):
        """Return a pod as the agent shows it, empty when there is no such pod."""
        found = [p for p in self.json("/pods")["items"] if p["metadata"]["name"] == f"{name}-{NODE}"]
        return found[0] if found else {}

    def address(self, name):
        """Return a pod's address, empty when it has none."""
        return self.pod(name).get("status", {}).get("podIP", "")

    def state(self, name, container=""):
        """Return (word, fields) of a container's state: ``("running", {...})``; of the first one where none is named."""
        found = self.statuses(name)
        status = found.get(container, {}) if container else next(iter(found.values()), {})
        return next(iter(status.get("state", {}).items()), ("", {}))

    def until_running(self, *names, deadline_s=20.0):
        """Wait until pods run."""
        for name in names:
            self.until_status(name, "Running", deadline_s)

    # the pods as the machine shows them

    def printed(self, name, container="main"):
        """Return what every run of a container printed, the oldest run first."""
        runs = {}
        for path in self.logs.glob(f"*_{name}-{NODE}_*/{container}/*.log"):
            runs[int(path.stem)] = LINE.findall(path.read_text(errors="replace"))
        return [runs[number] for number in sorted(runs)]

    def mains(self, name):
        """Return (pid, start time) of each running container of a pod, by container, asked from the runtime."""
        found = {}
        for container, status in self.statuses(name).items():
            if "running" in status["state"]:
                seen = self._process_of(status["containerID"].rpartition("/")[2])
                # The agent says for a moment longer that it runs.
                if seen is not None:
                    found[container] = (seen.pid, seen.start)
        return found

    def _process_of(self, identity):
        try:
            pid = self.runtime.link.pid(identity)
        except grpc.RpcError as error:
            if error.code() is grpc.StatusCode.NOT_FOUND:
                return None
            raise
        return processes.look(pid) if pid else None

    def links(self):
        """Return the links to this agent's logs, in the folder beside that of its pods' logs."""
        folder = self.logs.parent / "containers"
        return [path for path in folder.iterdir() if path.is_symlink()] if folder.is_dir() else []

    def mounts(self):
        """Return what is mounted below this agent's root folder, what was mounted last first."""
        return mount.mounts_below(os.path.realpath(self.root))

    def pod_folders(self):
        """Return the folders of pods that are there."""
        folder = self.root / "pods"
        return list(folder.iterdir()) if folder.is_dir() else []

    def until_empty(self, deadline_s=30.0):
        """Wait until the runtime holds no pod, no container and no process for it."""
        link = self.runtime.link
        self.until(
            lambda: not link.sandboxes() and not link.containers() and not self.runtime.shims(),
            "the runtime holds nothing any more",
            deadline_s,
        )

    def clean_up(self):
        """End the agent, remove its pods through the runtime, then fail if anything of them is left."""
        if self.process is not None and self.process.poll() is None:
            self.kill9()
        if self.runtime.process is not None and not self.runtime.cleaned:
            self.runtime.remove_pods()
        for link in self.links():
            link.unlink()
        for point in self.mounts():
            mount.unmount(point)
        super().clean_up()


def container(name, script, *, image=BUSYBOX_NAME, **fields):
    """Return a container that runs a shell script."""
    return {
        "name": name,
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["sh", "-c", script],
        **fields,
    }


def fetch(address, port, path="/", deadline_s=10.0):
    """Return the text that a web server in a pod gives, waiting until it listens."""
    answers = []

    def ask():
        link = http.client.HTTPConnection(address, port, timeout=2)
        try:
            link.request("GET", path)
            answers.append(link.getresponse().read().decode())
        except OSError:
            return False
        finally:
            link.close()
        return True

    until(ask, f"http://{address}:{port}{path} answers", deadline_s)
    return answers[-1]


def plan(node, *, call, **fault):
    """Return the environment that plans the agent's death at a call of its container runtime."""
    port = "images" if call in {one.__name__ for one in AnyImageCall.__args__} else "runtime"
    death = KillProcess(port=port, call=call, **fault)
    path = node.folder / "faults.json"
    path.write_bytes(msgspec.json.encode(FaultPlan(faults=(death,))))
    return {"NODEAGENT_FAULTS": str(path)}


def dies(node):
    """Wait until the agent killed itself."""
    node.process.wait(30)
    assert node.process.returncode == -signal.SIGKILL, node.stderr()
