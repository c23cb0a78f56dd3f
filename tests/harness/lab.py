"""Fixtures of the private containerd and the private registry, for every folder of tests."""

import pytest

from tests.harness.containerd import Containerd
from tests.harness.part import CONTAINERD_PARTS, containerd_folder, need
from tests.harness.registry import Registry


@pytest.fixture(scope="session")
def containerd(tmp_path_factory):
    """Return a containerd 1.6 for all tests that leave it as they found it."""
    need(*CONTAINERD_PARTS)
    runtime = Containerd(tmp_path_factory.mktemp("containerd"), containerd_folder("1.6"))
    try:
        yield runtime.start()
    finally:
        runtime.clean_up()


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
