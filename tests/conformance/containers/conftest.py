"""The fixture `bench`: each registered driver in turn."""

import pytest

from tests.conformance.containers.cri import clean_up_shared
from tests.conformance.containers.driver import Bench
from tests.conformance.containers.drivers import DRIVERS, MARKS


@pytest.fixture(scope="session", autouse=True)
def _shared_runtimes():
    yield
    clean_up_shared()


@pytest.fixture(params=[pytest.param(name, marks=MARKS.get(name, ())) for name in sorted(DRIVERS)])
def bench(request, tmp_path):
    hands = Bench(DRIVERS[request.param](tmp_path))
    yield hands
    hands.clean_up()
