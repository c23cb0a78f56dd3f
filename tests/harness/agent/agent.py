"""A real agent as a subprocess on a folder of its own, and the proof that nothing of it is left afterwards.

Everything is asked from outside: the admin socket, the command line, /proc. Waiting is for a condition with a
deadline, never for time to pass.
"""

import contextlib
import hashlib
import http.client
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import msgspec

from api.errors import NotFoundError, UnavailableError
from api.ports.runtime import ListPods, PodListing, RemoveSandbox, RuntimeStatus
from runtime.drivers.embedded.driver import EmbeddedRuntime
from runtime.drivers.embedded.keeper import process as processes
from runtime.edge import perform
from runtime.net.endpoint import connect_unix
from tests.harness.wait import until

REPOSITORY = Path(__file__).parents[3]
NODE = "n1"
IMAGE = "nodeagent.local/host"
MARK = "HARNESS_FOLDER"
"""Environment variable of every container made by `pod`: names the folder of the agent that runs it."""
CGROUPS = Path("/sys/fs/cgroup")

USUAL_INTERVALS = {"fileCheckFrequency": "20s", "httpCheckFrequency": "20s"}
"""Between readings of what nothing announced: the default. Tests wait a second; what is measured is an operator's."""


class _OverUnix(http.client.HTTPConnection):
    def __init__(self, path, timeout_s):
        super().__init__("nodeagent", timeout=timeout_s)
        self._path, self._timeout_s = path, timeout_s

    def connect(self):
        self.sock = connect_unix(self._path, self._timeout_s)


FAULTS = "NODEAGENT_FAULTS"


def injecting(env):
    """Return the flag without which a plan of faults in the environment is not heeded."""
    return ("--enable-fault-injection",) if FAULTS in dict(env) else ()


class Agent:
    """One agent and its folder: ``root``, ``manifests``, ``logs``, ``config.yaml``, ``stderr``."""

    def __init__(self, folder, *, root=None, **config):
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.root = root or folder / "root"
        self.manifests = folder / "manifests"
        self.manifests.mkdir(exist_ok=True)
        self.logs = folder / "logs"
        self.config = folder / "config.yaml"
        self.log = folder / "stderr"
        self.process = None
        self.configure(**config)

    # life

    def configure(self, **fields):
        """Write the configuration: what every test needs, and `fields`."""
        document = {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "containerRuntimeEndpoint": "embedded",
            "podLogsDir": str(self.logs),
            "healthzPort": 0,
            "fileCheckFrequency": "1s",
            "httpCheckFrequency": "1s",
        }
        self.config.write_text(json.dumps(document | fields))

    def command(self, *flags, manifests=True):
        """Return the words of ``run`` on this folder."""
        path = ("--pod-manifest-path", str(self.manifests)) if manifests else ()
        where = ("--config", str(self.config), "--root-dir", str(self.root), "--hostname-override", NODE)
        return (sys.executable, "-m", "actors.agent.main", "run", *where, *path, *flags)

    def start(self, *flags, env=(), manifests=True, ready=True):
        """Start it and wait until it has heard its sources; `ready` False waits for its socket only."""
        assert self.process is None or self.process.poll() is not None, "it runs already"
        with self.log.open("ab") as errors:
            self.process = subprocess.Popen(
                self.command(*flags, *injecting(env), manifests=manifests),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                cwd=REPOSITORY,
                env={**os.environ, **dict(env)},
            )
        self.until(self.is_ready if ready else self.is_there, "the agent is there")
        return self

    def is_there(self):
        """Tell whether it answers at all, or has ended already."""
        return self.process.poll() is not None or self.is_alive()

    def is_alive(self):
        """Tell whether it answers."""
        try:
            return self.ask("/healthz")[0] in (200, 500)
        except (NotFoundError, UnavailableError, ConnectionError):
            return False

    def is_ready(self):
        """Tell whether the agent answers and has heard its sources."""
        assert self.process.poll() is None, (
            f"the agent ended with {self.process.returncode}:\n{self.stderr()}"
        )
        try:
            return self.ask("/readyz")[0] == 200
        except (NotFoundError, UnavailableError, ConnectionError):
            # There is no socket yet, or one of an earlier life that nobody listens on.
            return False

    def run(self, *flags, manifests=True, env=(), deadline_s=30.0):
        """Run the agent to its own end and return the completed process: for one that must refuse to start."""
        return subprocess.run(
            self.command(*flags, *injecting(env), manifests=manifests),
            capture_output=True,
            text=True,
            cwd=REPOSITORY,
            env={**os.environ, **dict(env)},
            timeout=deadline_s,
            check=False,
        )

    def stop(self, number=signal.SIGTERM, deadline_s=20.0):
        """Send a signal; return exit code and how many seconds the end took."""
        begun = time.monotonic()
        self.process.send_signal(number)
        code = self.process.wait(deadline_s)
        return code, time.monotonic() - begun

    def kill9(self):
        """Kill it without a word."""
        self.process.kill()
        self.process.wait(10)

    def stderr(self):
        """Return what the agent wrote so far, over all its lives."""
        return self.log.read_text(errors="replace")

    # manifests

    def write(self, name, text):
        """Put a manifest into place in one step, as an editor that renames does."""
        new = self.folder / f"new-{name}"
        new.write_bytes(text if isinstance(text, bytes) else text.encode())
        new.replace(self.manifests / name)

    def put(self, name, script, **kwargs):
        """Write the manifest of a pod with one container that runs a shell script."""
        self.write(f"{name}.yaml", json.dumps(pod(name, script, folder=self.folder, **kwargs)))

    def drop(self, name):
        """Remove the manifest of a pod."""
        (self.manifests / f"{name}.yaml").unlink()

    # questions

    def ask(self, target, method="GET", body=None, deadline_s=10.0):
        """Return status and body of one request to the admin socket."""
        link = _OverUnix(str(self.root / "nodeagent.sock"), deadline_s)
        try:
            link.request(method, target, body=body)
            answer = link.getresponse()
            return answer.status, answer.read()
        finally:
            link.close()

    def json(self, target):
        """Return a decoded answer that must be well."""
        status, body = self.ask(target)
        assert status == 200, body
        return msgspec.json.decode(body)

    def verb(self, verb, *words, deadline_s=30.0):
        """Run a verb of the command line against this agent and return the completed process."""
        return self.verb_alone(verb, "--root-dir", str(self.root), *words, deadline_s=deadline_s)

    def verb_alone(self, *words, deadline_s=30.0):
        """Run the command line with these words and return the completed process."""
        return subprocess.run(
            [sys.executable, "-m", "actors.agent.main", *words],
            capture_output=True,
            text=True,
            cwd=REPOSITORY,
            timeout=deadline_s,
            check=False,
        )

    def rows(self):
        """Return the lines of ``pods`` by the pod's own name, without the node's suffix."""
        found = self.json("/pods?format=rows")["pods"]
        return {row["name"].removesuffix(f"-{NODE}"): row for row in found}

    def row(self, name):
        """Return a pod's line, an empty one when there is no such pod."""
        return self.rows().get(name, {"status": "", "ready": "", "restarts": 0, "uid": "", "why": ""})

    def statuses(self, name):
        """Return a pod's container statuses, by container."""
        for found in self.json("/pods")["items"]:
            if found["metadata"]["name"] == f"{name}-{NODE}":
                return {s["name"]: s for s in found["status"].get("containerStatuses", ())}
        return {}

    def init_statuses(self, name):
        """Return the statuses of a pod's init containers, by container."""
        for found in self.json("/pods")["items"]:
            if found["metadata"]["name"] == f"{name}-{NODE}":
                return {s["name"]: s for s in found["status"].get("initContainerStatuses", ())}
        return {}

    def phase(self, name):
        """Return a pod's phase, empty when there is no such pod."""
        for found in self.json("/pods")["items"]:
            if found["metadata"]["name"] == f"{name}-{NODE}":
                return found["status"].get("phase", "")
        return ""

    def status(self, name):
        """Return the status of the only container of a pod."""
        found = self.statuses(name)
        return next(iter(found.values()), {})

    def explain(self, name):
        """Return the explanation of a pod."""
        return self.json(f"/explain/-/{name}")

    def source(self, file):
        """Return what became of a file, by its name; empty when it is not known."""
        rows = self.json("/sources")["sources"]
        return next(
            (row for row in rows if row["where"].endswith(f"/{file}")), {"status": "", "problems": ()}
        )

    def until(self, condition, what, deadline_s=20.0):
        """Wait for a condition; a failure shows the pods and the agent's last words."""
        return until(condition, what, deadline_s, self._scene)

    def until_status(self, name, status, deadline_s=20.0):
        """Wait until a pod's line says `status`; return the line."""
        return self.until(
            lambda: self.row(name)["status"] == status and self.row(name), f"{name} is {status}", deadline_s
        )

    def until_next_in(self, name, deadline_s=20.0):
        """Wait until a pod's next step lies ahead, so that no call of it is under way; return its distance in seconds."""

        def ahead():
            steps = self.explain(name)["next"]
            return steps and steps[0]["in_s"]

        return self.until(ahead, f"{name}: the next step lies ahead", deadline_s)

    def until_gone(self, *names, deadline_s=20.0):
        """Wait until there is no such pod any more."""
        self.until(lambda: not set(names) & set(self.rows()), f"{names} are gone", deadline_s)

    def until_source(self, file, status, deadline_s=20.0):
        """Wait until a file's line of ``sources`` says `status`; return what is told of it."""
        found = self.until(
            lambda: self.source(file)["status"] == status and self.source(file),
            f"{file}: {status}",
            deadline_s,
        )
        return "\n".join(found["problems"])

    def _scene(self):
        try:
            rows = json.dumps(self.json("/pods?format=rows"), indent=1)
            sources = json.dumps(self.json("/sources"), indent=1)
        except Exception as error:  # noqa: BLE001 - the failure itself is what is to be told
            rows, sources = f"(no answer: {error!r})", ""
        return f"{rows}\n{sources}\n{self.stderr()[-4000:]}"

    # what runs on the machine

    def mains(self, name):
        """Return (pid, start time) of each main process of a pod's running containers, by container."""
        found = {}
        for container, status in self.statuses(name).items():
            identity = status.get("containerID", "").rpartition("/")[2]
            if "running" in status["state"]:
                found[container] = main_of(identity)
        return found

    def cgroup_name(self):
        """Return what the folders of this agent's pods are called among the cgroups."""
        digest = hashlib.sha256(os.fsencode(os.path.realpath(self.root))).hexdigest()
        return f"nodeagent-{digest[:12]}"

    def keepers(self):
        """Return the pids of this root's keeper server, of what it holds ready, and of the keepers of its pods."""
        name = self.cgroup_name().encode()
        return [pid for pid in processes.all_pids() if name in command_line(pid)]

    def pod_keepers(self):
        """Return the pids of the keepers of pods: each works in the folder of its sandbox."""
        sandboxes = str(self.root / "run" / "sandboxes") + "/"
        return [pid for pid in self.keepers() if working_folder(pid).startswith(sandboxes)]

    def remains(self):
        """Return all that is left on the machine of this agent and its pods."""
        folder = str(self.folder).encode()
        left = [f"keeper or keeper server {pid}" for pid in self.keepers()]
        left += [f"process {pid}" for pid in processes.all_pids() if b"=" + folder in environment(pid, MARK)]
        left += [f"cgroup {path}" for path in self.cgroups()]
        mounts = Path("/proc/self/mountinfo").read_bytes().splitlines()
        left += [f"mount {line.decode()}" for line in mounts if folder in line]
        sandboxes = self.root / "run" / "sandboxes"
        left += [f"sandbox {path}" for path in (sandboxes.iterdir() if sandboxes.is_dir() else ())]
        return left

    def cgroups(self):
        """Return the cgroups of this root's pods."""
        name = self.cgroup_name()
        return [Path(at) / name for at, names, _ in os.walk(CGROUPS) if name in names]

    def corners(self):
        """Return, of each folder among the cgroups that a keeper server is in, what stands in it beside the pods' own."""
        found = {group: [at.name for at in group.iterdir() if at.is_dir()] for group in self.cgroups()}
        return {
            group: [name for name in names if name != "kubepods"]
            for group, names in found.items()
            if any(name.startswith("nursery-") for name in names)
        }

    def clean_up(self):
        """End the agent and all its pods, then fail if anything of them is left."""
        if self.process is not None and self.process.poll() is None:
            self.kill9()
        for pid in self.keepers():
            # One that a test stopped would hang its own removal.
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
        if (self.root / "run" / "sandboxes").is_dir() and os.access(self.root, os.W_OK):
            remove_pods(str(self.root))
            until(lambda: not self.keepers(), "no keeper is left", 20.0, lambda: "\n".join(self.remains()))
            if self.cgroups():
                # A keeper whose maker was killed before it said what to keep leaves an empty cgroup, which the next
                # start removes: also when that keeper ended only now, since a test had stopped it.
                remove_pods(str(self.root))
        # The cgroups above the pods stay while there may be pods; an agent that was killed could not remove them.
        for path in self.cgroups():
            for at, _, _ in os.walk(path, topdown=False):
                with contextlib.suppress(OSError):
                    Path(at).rmdir()
        until(lambda: not self.remains(), "nothing is left", 20.0, lambda: "\n".join(self.remains()))


def remove_pods(root):
    """Remove every pod of an embedded runtime's root folder."""
    runtime = EmbeddedRuntime(root=root)
    try:
        # Its answer waits for the keeper server: only then is it known which cgroups there may be.
        perform(runtime, RuntimeStatus(), 20.0)
        listing = perform(runtime, ListPods(), 20.0)
        assert isinstance(listing, PodListing)
        for found in listing.pods:
            for sandbox in found.sandboxes:
                perform(runtime, RemoveSandbox(uid=found.uid, sandbox_id=sandbox.id), 20.0)
    finally:
        runtime.close()


def pod(name, script, *, folder="", restart="Always", grace=None, env=(), image=IMAGE, pull="", **spec):
    """Return a pod with one container ``main`` that runs a shell script."""
    pairs = [{"name": MARK, "value": str(folder)}, *({"name": k, "value": v} for k, v in dict(env).items())]
    container = {"name": "main", "image": image, "command": ["sh", "-c", script], "env": pairs}
    if pull:
        container["imagePullPolicy"] = pull
    fields = {"restartPolicy": restart, "containers": [container], **spec}
    if grace is not None:
        fields["terminationGracePeriodSeconds"] = grace
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": fields}


def main_of(identity):
    """Return pid and start time of a container's main process: the eldest with its mark."""
    found = [
        (seen.start, seen.pid)
        for pid in processes.all_pids()
        if processes.marks(pid)[1] == identity and (seen := processes.look(pid)) and seen.state not in "ZX"
    ]
    return min(found)[::-1] if found else (0, 0)


def command_line(pid):
    """Return a process's command line, empty when it is gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def working_folder(pid):
    """Return a process's working folder, empty when it is gone."""
    try:
        return str(Path(f"/proc/{pid}/cwd").readlink())
    except OSError:
        return ""


def environment(pid, name):
    """Return ``name=value`` of a process's environment, empty when it has none or may not be read."""
    try:
        words = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return b""
    return next((word for word in words if word.startswith(name.encode() + b"=")), b"")
