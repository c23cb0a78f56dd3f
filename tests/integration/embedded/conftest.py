"""The embedded runtime with hands, on machines with and without cgroups."""

import pytest

from tests.conformance.containers.driver import Bench
from tests.conformance.containers.embedded import EmbeddedDriver


@pytest.fixture(params=["cgroups", "no-cgroups"])
def bench(request, tmp_path):
    hands = Bench(EmbeddedDriver(tmp_path, cgroups=request.param == "cgroups"))
    yield hands
    hands.clean_up()
