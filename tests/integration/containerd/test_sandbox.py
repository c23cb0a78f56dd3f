"""Sandboxes that die by themselves, as with their machine: what they held is given back before others are made."""

import os
import signal

import pytest

from tests.harness.agent.agent import processes

pytestmark = pytest.mark.real
FOREVER = "exec sleep 1000000"
NAMES = tuple(f"web{number}" for number in range(6))


def test_pods_whose_sandboxes_are_killed_come_back_with_too_few_addresses_for_both_lives(
    make_containerd, make_node
):
    runtime = make_containerd(addresses=len(NAMES) + 2).start()
    node = make_node(runtime)
    for name in NAMES:
        node.put(name, FOREVER, grace=1)
    node.start()
    node.until_running(*NAMES)
    before, first = runtime.link.sandboxes(), {name: node.mains(name) for name in NAMES}
    for pid in runtime.shims():
        os.kill(pid, signal.SIGKILL)
    node.until(
        lambda: all(not processes.is_alive(*main) for mains in first.values() for main in mains.values()),
        "their processes ended with their shims",
    )
    node.until(
        lambda: all((now := node.mains(name)) and now != first[name] for name in NAMES),
        "each runs again, in a sandbox of its own",
        60.0,
    )
    addresses = {node.address(name) for name in NAMES}
    assert len(addresses) == len(NAMES)
    given = {path.name for path in (runtime.folder / "addresses" / runtime.bridge).glob("198.*")}
    assert given == addresses
    assert len(set(runtime.link.sandboxes()) - set(before)) == len(NAMES)
    assert not [row for row in node.json("/events")["events"] if row["reason"] == "FailedCreatePodSandBox"]
