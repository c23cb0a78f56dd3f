"""Fixtures of the private containerd and the private registry, for every folder of tests."""

import contextlib

import pytest

from tests.harness.cri.containerd import Containerd
from tests.harness.cri.registry import Registry
from tests.harness.part import containerd_folder, need

VERSIONS = ("1.6", pytest.param("1.7", marks=pytest.mark.optional))
"""For tests that hold on every containerd: the distribution's, and the optional second one."""


@pytest.fixture(scope="session")
def shared_containerd(tmp_path_factory):
    """Return a function from a version to a containerd for all tests that leave it as they found it."""
    made = {}
    with contextlib.ExitStack() as ends:

        def get(version="1.6"):
            if version not in made:
                folder = tmp_path_factory.mktemp(f"containerd-{version}-")
                runtime = Containerd(folder, containerd_folder(version))
                ends.callback(runtime.clean_up)
                made[version] = runtime.start()
            return made[version]

        yield get


@pytest.fixture(scope="session")
def containerd(shared_containerd):
    """Return the shared containerd 1.6."""
    return shared_containerd("1.6")


@pytest.fixture
def make_containerd(tmp_path):
    """Return a function that makes containerds of a test's own, not started yet: `make_containerd("1.7")`."""
    made = []

    def make(version="1.6", **settings):
        folder = tmp_path / f"containerd-{len(made)}"
        made.append(Containerd(folder, containerd_folder(version), **settings))
        return made[-1]

    yield make
    _end_all(runtime.clean_up for runtime in made if not runtime.cleaned)


@pytest.fixture
def make_registry(tmp_path):
    """Return a function that starts registries: `make_registry(users={"puller": "secret"})`."""
    need("registry")
    made = []

    def make(users=None):
        made.append(Registry(tmp_path / f"registry-{len(made)}", users))
        return made[-1].start()

    yield make
    _end_all(registry.stop for registry in made)


def _end_all(ends):
    failures = []
    for end in ends:
        try:
            end()
        except Exception as error:  # noqa: BLE001 - the others are to be cleaned up all the same
            failures.append(repr(error))
    assert not failures, failures
