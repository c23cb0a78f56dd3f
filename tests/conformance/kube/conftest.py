"""The bench of each test: in memory, and on a real control plane where there is one."""

import pytest

from tests.conformance.kube.benches import SERVERS


@pytest.fixture(params=SERVERS.values(), ids=SERVERS)
def bench(request):
    return request.param(request)
