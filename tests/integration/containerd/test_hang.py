"""A runtime that hangs, is too old, or is none: only its own pods wait, and the node says in one line what is wrong."""

import contextlib
import re
import tempfile
import time
from pathlib import Path

import pytest

from tests.harness.agent.agent import Agent
from tests.harness.cri.cripersonality import IMAGE, Personality
from tests.harness.cri.criserver import outdated_runtime, silent_socket
from tests.harness.cri.critrait import CONTAINERD_2, CRIO

pytestmark = pytest.mark.real
FOREVER = "exec sleep 1000000"


@pytest.fixture
def socket_path():
    """Return a path that is short enough for a socket."""
    with tempfile.TemporaryDirectory(prefix="nas-") as folder:
        yield str(Path(folder) / "s")


@pytest.fixture
def make_agent_on(tmp_path):
    """Return a function that makes an agent on any runtime's endpoint; it is killed at the end, so it makes no cgroups."""
    made = []

    def make(endpoint, **config):
        config |= {"cgroupsPerQOS": False, "enforceNodeAllocatable": []}
        made.append(Agent(tmp_path / f"agent-{len(made)}", containerRuntimeEndpoint=endpoint, **config))
        return made[-1]

    yield make
    for agent in made:
        if agent.process is not None and agent.process.poll() is None:
            agent.kill9()


@pytest.fixture(params=[CONTAINERD_2, CRIO], ids=lambda traits: traits.name)
def personality(request, tmp_path):
    with Personality(tmp_path / "runtime", request.param) as runtime:
        yield runtime


def put(agent, name, script=FOREVER, **kwargs):
    agent.put(name, script, image=IMAGE, pull="IfNotPresent", grace=1, **kwargs)


def answers_soon(agent):
    """Hold the views and verbs to an answer within two seconds."""
    for path in ("/healthz", "/livez", "/pods", "/actors", "/actors?detail=true"):
        began = time.monotonic()
        status, _ = agent.ask(path)
        assert status in (200, 500), path
        assert time.monotonic() - began < 2.0, path
    for words in (("pods",), ("actors", "--tree"), ("events",)):
        assert agent.verb(*words, deadline_s=10).returncode == 0, words


def health(agent):
    return agent.ask("/healthz?verbose")[1].decode()


def test_pods_run_on_every_personality(personality, make_agent_on):
    agent = make_agent_on(personality.endpoint)
    put(agent, "web")
    put(agent, "crash", "exit 37")
    agent.start()
    agent.until_status("web", "Running")
    agent.until(lambda: agent.row("crash")["restarts"] >= 1, "it was started again")
    ended = agent.status("crash")["lastState"]["terminated"]
    assert ended["exitCode"] == 37
    assert agent.status("web")["containerID"].startswith(f"{personality.traits.name}://")
    agent.drop("web")
    agent.drop("crash")
    agent.until_gone("web", "crash")
    agent.until(lambda: not personality.container_ids(), "the runtime holds nothing any more")


def test_an_exit_whose_code_nobody_knows_is_told_as_a_failure(personality, make_agent_on):
    agent = make_agent_on(personality.endpoint)
    put(agent, "web", restart="Never")
    agent.start()
    agent.until_status("web", "Running")
    personality.lose_exit(agent.status("web")["containerID"])
    agent.until(lambda: "terminated" in agent.status("web")["state"], "its end is told")
    assert agent.status("web")["state"]["terminated"]["exitCode"] in (255, 137)


def test_one_container_that_cannot_be_inspected_holds_up_its_own_pod_only(personality, make_agent_on):
    agent = make_agent_on(personality.endpoint)
    put(agent, "stuck")
    agent.start()
    agent.until_status("stuck", "Running")
    [stuck] = personality.container_ids()
    hold = personality.server.hold("ContainerStatus", lambda request: request.container_id == stuck)
    agent.drop("stuck")
    agent.until(lambda: hold.held > 0, "the call hangs")
    put(agent, "late")
    agent.until_status("late", "Running")
    answers_soon(agent)
    hold.release()
    agent.until_gone("stuck", deadline_s=60)


def test_a_create_whose_answer_is_lost_makes_no_second_container(personality, make_agent_on):
    agent = make_agent_on(personality.endpoint, runtimeRequestTimeout="2s")
    hold = personality.server.hold("CreateContainer", after=True)
    put(agent, "web")
    agent.start(ready=False)
    agent.until(lambda: hold.held > 0, "the answer is held back")
    agent.until(lambda: "web" in agent.rows(), "the pod is known")
    hold.release()
    agent.until_status("web", "Running", 60)
    assert len(personality.container_ids()) == 1
    assert agent.row("web")["restarts"] == 0


def test_a_socket_that_never_answers_leaves_the_node_responsive_and_is_named(make_agent_on, socket_path):
    with silent_socket(socket_path) as endpoint:
        agent = make_agent_on(endpoint, runtimeRequestTimeout="5s")
        put(agent, "web")
        agent.start(ready=False)
        agent.until(agent.is_alive, "it answers")
        answers_soon(agent)
        agent.until(lambda: f"{socket_path} accepted" in agent.stderr(), "the socket is named in the log", 30)
        answers_soon(agent)
        assert agent.stop()[0] == 0
        assert "Traceback" not in agent.stderr()
        # The start names it, and each of the four actors that ask the runtime once.
        assert sum(socket_path in line for line in agent.stderr().splitlines()) <= 5, agent.stderr()


@pytest.mark.slow
@pytest.mark.timeout(280)
def test_health_names_the_call_that_a_silent_socket_does_not_answer(make_agent_on, socket_path):
    with silent_socket(socket_path) as endpoint:
        agent = make_agent_on(endpoint)
        agent.start(ready=False)
        # As with a kubelet, a node is called unwell when its runtime was not listed for three minutes.
        agent.until(lambda: "[-]pleg failed: the runtime" in health(agent), "it is unwell", 240)
        text = health(agent)
        assert re.search(r"\[-\]pleg failed: .*(Version|ListPods)", text), text
        assert socket_path in text
        answers_soon(agent)


def test_a_containerd_that_freezes_holds_up_nothing_but_its_pods(own_node):
    node, runtime = own_node, own_node.runtime
    node.put("web", FOREVER, grace=1)
    node.start()
    node.until_running("web")
    main = node.mains("web")
    runtime.pause()
    node.put("late", FOREVER, grace=1)
    node.until(lambda: "late" in node.rows(), "the new pod is known")
    answers_soon(node)

    runtime.resume()
    node.until_running("late", deadline_s=60)
    node.until(lambda: node.ask("/healthz")[0] == 200, "it is well again", 60)
    assert node.mains("web") == main
    assert node.row("web")["restarts"] == 0


def test_a_runtime_of_the_old_version_is_told_in_one_line(make_agent_on, socket_path):
    with outdated_runtime(socket_path) as endpoint:
        agent = make_agent_on(endpoint)
        put(agent, "web")
        agent.start(ready=False)
        agent.until(
            lambda: "v1" in agent.stderr() and socket_path in agent.stderr(), "the old version is told", 30
        )
        assert "Traceback" not in agent.stderr()


@pytest.mark.parametrize("kind", ["missing", "file", "refused"])
def test_a_socket_that_is_none_is_told_in_one_line_and_tried_again(make_agent_on, socket_path, kind):
    if kind == "file":
        Path(socket_path).write_text("")
    elif kind == "refused":
        with silent_socket(socket_path):
            Path(socket_path).rename(f"{socket_path}2")
        with contextlib.suppress(FileNotFoundError):
            Path(f"{socket_path}2").rename(socket_path)
    agent = make_agent_on(f"unix://{socket_path}")
    put(agent, "web")
    agent.start(ready=False)
    agent.until(lambda: socket_path in agent.stderr(), "the socket is named", 30)
    assert "Traceback" not in agent.stderr()
    if agent.process.poll() is None:
        answers_soon(agent)


def test_a_configuration_without_an_endpoint_is_refused_in_one_line(tmp_path):
    agent = Agent(tmp_path / "agent")
    document = '{"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration"}'
    agent.config.write_text(document)
    ended = agent.run()
    assert ended.returncode != 0
    assert "containerRuntimeEndpoint" in ended.stderr
    assert len(ended.stderr.splitlines()) == 1
