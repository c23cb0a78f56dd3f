"""Fixtures of the tests with a real agent on a private containerd: nothing of either is left afterwards."""

import pytest

from tests.harness.agent.node import Node
from tests.harness.cri.lab import VERSIONS


@pytest.fixture
def make_node(tmp_path):
    """Return a function that makes agents on a containerd, each with a folder of its own below the test's."""
    made = []

    def make(runtime, name="node", **config):
        made.append(Node(tmp_path / name, runtime, **config))
        return made[-1]

    yield make
    failures = []
    for node in made:
        try:
            node.clean_up()
        except Exception as error:  # noqa: BLE001 - the others are to be cleaned up all the same
            failures.append(repr(error))
    assert not failures, failures


@pytest.fixture
def node(containerd, make_node):
    """Return an agent on the shared containerd 1.6, not started yet."""
    return make_node(containerd)


@pytest.fixture(params=VERSIONS)
def node_of_each(request, shared_containerd, make_node):
    """Return an agent on each version of containerd in turn, not started yet."""
    return make_node(shared_containerd(request.param))


@pytest.fixture
def own_node(make_containerd, make_node):
    """Return an agent on a containerd of the test's own, which it may kill."""
    return make_node(make_containerd().start())
