"""One agent for the tests of a whole module, on either runtime, with a folder that tests and containers share.

The same body holds on the embedded runtime, where a container is a process of the host, and on containerd, where the
shared folder is mounted at its own path. Each test leaves the agent without pods: `House.empty` sees to it.
"""

import json
import os
import signal
import socket

from tests.harness.agent.agent import IMAGE, MARK, NODE, main_of
from tests.harness.cri.image import BUSYBOX_NAME
from tests.harness.wait import until

FOREVER = "trap 'exit 0' TERM; sleep 1000000 & wait"
"""Script that runs until it is asked to end, and then ends at once, also as the first process of a container."""
SHARED = "shared"


class House:
    """An agent and what its pods are made of. `confines`: its runtime is containerd."""

    def __init__(self, agent, *, confines):
        self.agent, self.confines = agent, confines
        self.image = BUSYBOX_NAME if confines else IMAGE
        self.shared = agent.folder / SHARED
        self.shared.mkdir()

    # manifests

    def container(self, name, script, **fields):
        """Return a container that runs a shell script and finds the shared folder at its own path."""
        mounts = [{"name": SHARED, "mountPath": str(self.shared)}] if self.confines else []
        more = fields.pop("volumeMounts", [])
        return {
            "name": name,
            "image": self.image,
            "imagePullPolicy": "IfNotPresent",
            "command": ["sh", "-c", script],
            "env": [{"name": MARK, "value": str(self.agent.folder)}, *fields.pop("env", [])],
            "volumeMounts": [*mounts, *more],
            **fields,
        }

    def put(self, name, *containers, uid="", volumes=(), **spec):
        """Write the manifest of a pod with these containers; one with `uid` stays the same pod when it is changed."""
        shared = (
            [{"name": SHARED, "hostPath": {"path": str(self.shared), "type": "Directory"}}]
            if self.confines
            else []
        )
        whole = {
            "terminationGracePeriodSeconds": 1,
            "containers": list(containers),
            "volumes": [*shared, *volumes],
            **spec,
        }
        metadata = {"name": name, **({"uid": uid} if uid else {})}
        document = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": whole}
        self.agent.write(f"{name}.yaml", json.dumps(document))

    def empty(self):
        """Remove every manifest and wait until no pod is left; scripts that wait for a file find it."""
        for path in self.agent.manifests.iterdir():
            path.unlink()
        self.agent.until(lambda: not self.agent.rows(), "no pod is left", 40.0)
        for path in self.shared.iterdir():
            path.unlink()

    # between tests and scripts

    def gate(self, name):
        """Return the path of a file that a script waits for; the test makes it."""
        return self.shared / name

    def diary(self, name="diary"):
        """Return the words that scripts wrote into a file."""
        path = self.shared / name
        return path.read_text().split() if path.exists() else []

    def place(self, name):
        """Return a path that pods may mount volumes at: a folder of the host where containers see the host's."""
        found = self.agent.folder / name
        found.mkdir(exist_ok=True)
        return found

    # what is explained

    def until_waits(self, pod, *words, deadline_s=30.0):
        """Wait until `explain` says that a pod waits for something that has these words; return the explanation."""
        return self.until_said(pod, lambda told: told["waits_for"], *words, deadline_s=deadline_s)

    def until_content(self, pod, deadline_s=30.0):
        """Wait until `explain` says that a pod runs and waits for nothing; return the explanation."""

        def content():
            told = self.explained(pod)
            return told if told and told["state"].startswith("Running") and not told["waits_for"] else None

        return until(content, f"{pod} waits for nothing", deadline_s, lambda: self.seen(pod))

    def until_said(self, pod, part, *words, deadline_s=30.0):
        """Wait until a part of the explanation has these words; return the whole explanation."""

        def said():
            told = self.explained(pod)
            return told if told and all(word in str(part(told)) for word in words) else None

        return until(said, f"{pod}: {words} is said", deadline_s, lambda: self.seen(pod))

    def explained(self, pod):
        """Return the explanation of a pod, None when there is none yet."""
        status, body = self.agent.ask(f"/explain/-/{pod}")
        return json.loads(body) if status == 200 else None

    def line(self, pod, container):
        """Return what `explain` says of one container."""
        told = self.explained(pod) or {"containers": ()}
        return next(
            (text for text in told["containers"] if text.startswith((f"{container}:", f"{container} ("))), ""
        )

    def until_line(self, pod, container, *words, deadline_s=30.0):
        """Wait until `explain` says these words of a container; return its sentence."""

        def said():
            line = self.line(pod, container)
            return line if all(word in line for word in words) else None

        return until(said, f"{container} of {pod}: {words}", deadline_s, lambda: self.seen(pod))

    def seen(self, pod):
        """Return what is explained of a pod now and what the agent said last, for a failure."""
        told = json.dumps(self.explained(pod), indent=1)
        return f"{told}\n{self.agent.stderr()[-2000:]}"

    def events(self, pod, reason):
        """Return the messages of a pod's events of one reason."""
        rows = self.agent.json(f"/events?pod={pod}")["events"]
        return [row["message"] for row in rows if row["reason"] == reason]

    def status(self, pod):
        """Return a pod's whole status, an empty one when there is no such pod."""
        found = [
            one for one in self.agent.json("/pods")["items"] if one["metadata"]["name"] == f"{pod}-{NODE}"
        ]
        return found[0]["status"] if found else {}

    def conditions(self, pod):
        """Return status and reason of each condition of a pod."""
        return {c["type"]: (c["status"], c.get("reason", "")) for c in self.status(pod).get("conditions", ())}

    # processes and ports

    def kill(self, pod, container):
        """Kill the main process of a container of any kind, without a word."""
        found = {**self.agent.init_statuses(pod), **self.agent.statuses(pod)}[container]
        identity = found["containerID"].rpartition("/")[2]
        pid = self.agent.runtime.link.pid(identity) if self.confines else main_of(identity)[0]
        assert pid, f"{container} of {pod} does not run"
        os.kill(pid, signal.SIGKILL)

    @staticmethod
    def free_port():
        """Return a TCP port of the host that nobody listens on."""
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            return probe.getsockname()[1]
