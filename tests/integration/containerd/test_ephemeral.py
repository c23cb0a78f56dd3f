"""Containers that are added to a running pod to look into it, on a real containerd.

A pod's source is the API for these; until that is there, the test says what such a source would: the pod's whole list.
"""

import os
from pathlib import Path as File

import msgspec
import pytest

from actors.agent.agent import Agent
from api.config.settings import Settings
from api.ids import Path
from api.kube.objects.pod import Pod
from api.kube.poddefault import default_pod
from api.messages.podconfig import PodsSeen
from tests.harness.agent.node import container
from tests.harness.wait import until

pytestmark = pytest.mark.real
FOREVER = "exec sleep 1000000"
UID = "00000000-aaaa-bbbb-cccc-000000000001"
CONFIG = Path("/node/config")


class Here:
    """The whole agent in this process, and its pods as a source for the API would list them."""

    def __init__(self, folder, runtime):
        self.settings = Settings(
            root_dir=str(folder / "root"),
            node_name="n1",
            file_check_s=20.0,
            http_check_s=20.0,
            sync_s=60.0,
            runtime_endpoint=runtime.endpoint,
            image_endpoint=runtime.endpoint,
            runtime_request_timeout_s=60.0,
            pod_logs_dir=str(folder / "logs"),
            max_pods=110,
            max_container_backoff_s=300.0,
            healthz_address="127.0.0.1",
            healthz_port=0,
            fail_cgroup_v1=False,
            log_format="text",
            verbosity=0,
            cgroup_root=runtime.cgroup_root,
        )
        self.runtime = runtime
        self.agent = None

    def start(self):
        self.agent = Agent(self.settings, "192.0.2.2")
        self.agent.start()

    def stop(self):
        agent, self.agent = self.agent, None
        if agent is not None:
            agent.stop()

    def tell(self, *pods):
        """Say which pods there are."""
        self.agent.system.route(CONFIG, PodsSeen(source="api", pods=tuple(pods)))

    def status(self):
        """Return the status of the only pod, empty when there is none."""
        items = msgspec.json.decode(self.agent.view.pod_list())["items"]
        return items[0]["status"] if items else {}

    def container(self, name):
        """Return the status of one container of any kind."""
        status = self.status()
        kinds = ("containerStatuses", "ephemeralContainerStatuses")
        return next((one for kind in kinds for one in status.get(kind, ()) if one["name"] == name), {})

    def until_state(self, name, word):
        """Wait until a container is running, waiting or terminated; return its status."""
        return until(
            lambda: word in self.container(name).get("state", {}) and self.container(name),
            f"{name} is {word}",
            30.0,
            lambda: str(self.status()),
        )

    def pid(self, name):
        """Return the process id of a running container."""
        return self.runtime.link.pid(self.until_state(name, "running")["containerID"].rpartition("/")[2])

    def explained(self):
        """Return what the agent explains of the pod."""
        return self.agent.view.explain("default/web")

    def reasons(self):
        """Return the events of the pod by reason and container."""
        return {(row.reason, row.field_path): row.count for row in self.agent.view.events("")}


def pod_of(*lookers, policy="Always", script=FOREVER):
    """Return a pod with one container and those that look into it."""
    raw = {
        "metadata": {"name": "web", "namespace": "default", "uid": UID},
        "spec": {
            "restartPolicy": policy,
            "terminationGracePeriodSeconds": 1,
            "automountServiceAccountToken": False,
            "containers": [container("main", script)],
            "ephemeralContainers": list(lookers),
        },
    }
    return default_pod(msgspec.convert(raw, Pod))


def looker(name, script, **fields):
    """Return an ephemeral container."""
    return container(name, script, **fields)


@pytest.fixture
def here(containerd, tmp_path):
    """Return an agent on the shared containerd, started, without a pod."""
    mask = os.umask(0o022)
    node = Here(tmp_path, containerd)
    node.start()
    node.tell()
    try:
        yield node
    finally:
        node.stop()
        os.umask(mask)
        containerd.remove_pods()


def test_one_that_is_added_looks_into_the_processes_of_its_target(here):
    here.tell(pod_of())
    here.until_state("main", "running")
    began = here.container("main")
    here.tell(pod_of(looker("look", f"ps; {FOREVER}", targetContainerName="main")))
    shown = here.until_state("look", "running")
    assert (shown["restartCount"], shown["ready"], "started" in shown) == (0, False, False)
    spaces = {name: str(File(f"/proc/{here.pid(name)}/ns/pid").readlink()) for name in ("main", "look")}
    assert spaces["look"] == spaces["main"]
    log = File(here.settings.pod_logs_dir) / f"default_web_{UID}" / "look" / "0.log"
    until(lambda: "sleep 1000000" in log.read_text(), "it sees the other's process", 10.0)
    assert here.container("main") == began, "the pod's own container noticed nothing"
    assert here.reasons()["Started", "spec.ephemeralContainers{look}"] == 1
    told = here.explained()
    assert told.waits_for == ""
    assert told.containers[-1].startswith("look (ephemeral): running for")
    conditions = {c["type"]: c["status"] for c in here.status()["conditions"]}
    assert (here.status()["phase"], conditions["Ready"]) == ("Running", "True")


def test_one_that_ended_is_not_started_again_not_even_by_another_life_of_the_agent(here):
    pod = pod_of(looker("look", "echo once; exit 7"))
    here.tell(pod)
    ended = here.until_state("look", "terminated")
    until(
        lambda: (
            here.explained().containers[-1]
            == "look (ephemeral): ended with exit code 7 (Error); will not be started again"
        ),
        "its end is explained",
        10.0,
        lambda: str(here.explained()),
    )
    assert ended["state"]["terminated"]["exitCode"] == 7
    here.until_state("main", "running")
    here.stop()
    here.start()
    here.tell(pod)
    here.until_state("main", "running")
    again = here.until_state("look", "terminated")
    assert (again["containerID"], again["restartCount"]) == (ended["containerID"], 0)
    log = File(here.settings.pod_logs_dir) / f"default_web_{UID}" / "look"
    assert [path.name for path in log.iterdir()] == ["0.log"]


def test_one_without_a_target_has_processes_of_its_own_and_one_of_an_unknown_target_waits(here):
    here.tell(pod_of(looker("free", FOREVER), looker("lost", FOREVER, targetContainerName="none")))
    here.until_state("main", "running")
    spaces = {name: str(File(f"/proc/{here.pid(name)}/ns/pid").readlink()) for name in ("main", "free")}
    assert spaces["free"] != spaces["main"]
    waiting = here.until_state("lost", "waiting")["state"]["waiting"]
    until(
        lambda: here.container("lost")["state"]["waiting"].get("reason") == "CreateContainerConfigError",
        "it is told why it waits",
        10.0,
        lambda: str(waiting),
    )
    assert here.container("lost")["state"]["waiting"]["message"] == "unable to find target container none"
    told = here.explained()
    assert told.waits_for.startswith("a valid configuration of container lost: unable to find target")
    assert (
        "lost (ephemeral): waiting: CreateContainerConfigError: unable to find target container none"
        in told.containers
    )


def test_a_pod_whose_work_is_done_ends_with_what_looks_into_it(here):
    here.tell(pod_of(looker("look", FOREVER), policy="Never", script="sleep 3"))
    here.until_state("look", "running")
    until(lambda: here.status()["phase"] == "Succeeded", "the pod ends", 30.0, lambda: str(here.status()))
    assert "terminated" in here.container("look")["state"]
    assert here.container("main")["state"]["terminated"]["exitCode"] == 0
