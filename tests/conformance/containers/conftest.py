"""The fixture `bench`: each registered driver in turn."""

import pytest

from tests.conformance.containers.driver import Bench
from tests.conformance.containers.drivers import DRIVERS


@pytest.fixture(params=sorted(DRIVERS))
def bench(request, tmp_path):
    hands = Bench(DRIVERS[request.param](tmp_path))
    yield hands
    hands.clean_up()
