"""A real memory hog among pods of the embedded runtime, which is confined for the test: who goes, and what is said."""

import json
import sys

import pytest

from tests.harness.agent.agent import pod
from tests.harness.eviction.memoryhog import hog_goes_and_pressure_returns, hog_outlives_the_agent
from tests.harness.eviction.pressure import need_memory_cgroups

pytestmark = [pytest.mark.real, pytest.mark.slow]
HOLD = """
import signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
held = []
for _ in range(int(sys.argv[1])):
    held.append(bytearray(b"x") * (1 << 20))
    time.sleep(0.01)
time.sleep(1000000)
"""


def put(agent, name, mib, requests=None, limits=None):  # this runtime takes no limits
    """Write a pod that takes so many MiB of memory, one after the other."""
    document = pod(name, "", folder=agent.folder, grace=5)
    [container] = document["spec"]["containers"]
    container |= {
        "command": [sys.executable, "-c", HOLD, str(mib)],
        "resources": {"requests": requests or {}},
    }
    agent.write(f"{name}.yaml", json.dumps(document))


def test_a_hog_is_chosen_before_the_others_and_the_pressure_returns(agent):
    need_memory_cgroups()
    hog_goes_and_pressure_returns(agent, put)


def test_an_agent_killed_over_an_eviction_takes_no_second_pod(agent):
    need_memory_cgroups()
    hog_outlives_the_agent(agent, put)
