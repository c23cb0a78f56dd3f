"""Fixtures of the tests with a real agent: each ends with the proof that nothing is left on the machine."""

import socket

import pytest

from tests.harness.agent.agent import Agent
from tests.harness.agent.house import House
from tests.harness.agent.node import Node


@pytest.fixture
def make_agent(tmp_path):
    """Return a function that makes agents, each on a folder of its own below the test's."""
    made = []

    def make(name="agent", **kwargs):
        made.append(Agent(tmp_path / name, **kwargs))
        return made[-1]

    yield make
    failures = []
    for agent in made:
        try:
            agent.clean_up()
        except Exception as error:  # noqa: BLE001 - the other agents are to be cleaned up all the same
            failures.append(repr(error))
    assert not failures, failures


@pytest.fixture
def agent(make_agent):
    """Return one agent, not started yet."""
    return make_agent()


@pytest.fixture
def free_port():
    """Return a TCP port of loopback that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.fixture
def silent_server():
    """Return the URL of a server that takes connections and never says a word."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(8)
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/pods.yaml"


@pytest.fixture(scope="module", params=["embedded", pytest.param("containerd", marks=pytest.mark.real)])
def standing_house(request, tmp_path_factory):
    """Return one running agent for all tests of a module, on each runtime in turn."""
    folder = tmp_path_factory.mktemp(f"house-{request.param}-")
    confines = request.param == "containerd"
    if confines:
        agent = Node(folder / "agent", request.getfixturevalue("shared_containerd")("1.6"))
    else:
        agent = Agent(folder / "agent")
    try:
        agent.start()
        yield House(agent, confines=confines)
    finally:
        agent.clean_up()


@pytest.fixture
def house(standing_house):
    """Return the module's agent, without pods before and after each test."""
    yield standing_house
    standing_house.empty()
