"""An agent that dies at any CRI call, and a containerd that dies under running pods: nothing twice, nothing lost."""

import os
import signal

import pytest

from api.faults import When
from tests.harness.agent.agent import processes
from tests.harness.agent.node import container, dies, plan

pytestmark = pytest.mark.real
FOREVER = "exec sleep 1000000"
SIDES = (When.BEFORE, When.AFTER)


def holds_exactly(node, sandboxes, containers):
    """Wait until the runtime holds so many of each, and no more."""
    link = node.runtime.link
    node.until(
        lambda: (len(link.sandboxes()), len(link.containers())) == (sandboxes, containers),
        f"{sandboxes} sandboxes and {containers} containers",
        30.0,
    )


def printed_once(node, name):
    """Tell whether one instance of the pod printed its line; a start that was broken off left an empty log."""
    return [lines for lines in node.printed(name) if lines] == [["start"]]


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize(
    "call", ["RunSandbox", "CreateContainer", "StartContainer", "ListPods", "ImageStatus"]
)
def test_an_agent_killed_at_a_start_starts_everything_once_when_it_is_back(node, call, side):
    # One after the other: a start of another pod that the death cuts short in the runtime may be made twice.
    node.put("one", f"echo start; {FOREVER}", grace=1)
    node.start(env=plan(node, call=call, when=side), ready=False)
    dies(node)
    node.start()
    node.until_running("one")
    node.kill9()
    node.put("two", "echo start; exit 37", restart="Never")
    node.start(env=plan(node, call=call, when=side), ready=False)
    dies(node)
    node.start()
    node.until_running("one")
    node.until_status("two", "Error")
    assert node.status("two")["state"]["terminated"]["exitCode"] == 37
    assert node.row("one")["restarts"] == node.row("two")["restarts"] == 0
    node.until(lambda: printed_once(node, "one") and printed_once(node, "two"), "each began once")
    assert len(node.mains("one")) == 1
    node.drop("one")
    node.drop("two")
    node.until_gone("one", "two")
    node.until_empty()


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("call", ["StopContainer", "StopSandbox", "RemoveSandbox", "RemoveContainer"])
def test_an_agent_killed_at_a_stop_finishes_it_when_it_is_back(node, call, side):
    node.put("goes", "echo start; trap 'echo stop; exit 0' TERM; sleep 1000000 & wait", grace=20)
    node.put("stays", f"echo start; {FOREVER}", grace=1)
    node.start(env=plan(node, call=call, when=side))
    node.until_running("goes", "stays")
    node.until(lambda: node.printed("goes") == [["start"]], "it began")
    stays = node.mains("stays")
    node.drop("goes")
    if call == "RemoveContainer":
        # A pod's containers may go with its sandbox: then this call is never made.
        node.until(lambda: node.process.poll() is not None or "goes" not in node.rows(), "it dies or is done")
        if node.process.poll() is None:
            node.kill9()
    else:
        dies(node)
    node.start()
    node.until_gone("goes", deadline_s=40)
    holds_exactly(node, 1, 1)
    node.until(lambda: node.mains("stays") == stays, "the other is shown as it was")
    assert node.row("stays")["restarts"] == 0
    assert node.printed("stays") == [["start"]]


def test_an_agent_killed_between_a_good_end_and_the_successor_starts_the_successor(node):
    ill = {"exec": {"command": ["sh", "-c", "! test -e /tmp/ill"]}, "periodSeconds": 1, "failureThreshold": 1}
    main = container("main", "trap 'echo end; exit 0' TERM; echo on; sleep 1000000 & wait", livenessProbe=ill)
    node.put_pod("job", main, restartPolicy="OnFailure", terminationGracePeriodSeconds=10)
    node.start(env=plan(node, call="StopContainer", when=When.AFTER))
    node.until_running("job")
    assert node.verb("exec", "job", "--", "touch", "/tmp/ill").returncode == 0
    dies(node)
    # Its policy alone would take the end with 0 for the end of the pod.
    node.until(lambda: node.printed("job") == [["on", "end"]], "it ended well")
    node.start()
    node.until(lambda: node.printed("job") == [["on", "end"], ["on"]], "its successor runs", 40.0)
    node.until_running("job")
    assert node.row("job")["restarts"] == 1


def test_a_killed_agent_finds_its_pods_again_and_changes_nothing(node_of_each):
    node = node_of_each
    for name in ("one", "two"):
        node.put(name, f"echo start; {FOREVER}", grace=1)
    node.start()
    node.until_running("one", "two")
    before = {name: (node.mains(name), node.address(name)) for name in ("one", "two")}
    held = (node.runtime.link.sandboxes(), node.runtime.link.containers())
    node.kill9()
    node.start()
    node.until_running("one", "two")
    assert {name: (node.mains(name), node.address(name)) for name in ("one", "two")} == before
    assert (node.runtime.link.sandboxes(), node.runtime.link.containers()) == held
    assert [node.row(name)["restarts"] for name in ("one", "two")] == [0, 0]


def test_a_container_that_ends_while_the_agent_is_dead_is_reported_with_its_code(node):
    node.put("ends", "trap 'exit 33' TERM; echo on; sleep 1000000 & wait", restart="Never")
    node.start()
    node.until(lambda: node.printed("ends") == [["on"]], "it began")
    node.until_running("ends")
    [(pid, start)] = node.mains("ends").values()
    node.kill9()
    os.kill(pid, signal.SIGTERM)
    node.until(lambda: not processes.is_alive(pid, start), "it ended")
    node.start()
    node.until_status("ends", "Error")
    assert node.status("ends")["state"]["terminated"]["exitCode"] == 33


def test_pods_outlive_the_death_of_containerd_and_the_agent_goes_on_when_it_is_back(own_node):
    node, runtime = own_node, own_node.runtime
    node.put("web", FOREVER, grace=1)
    node.put("ends", "trap 'exit 33' TERM; echo on; sleep 1000000 & wait", restart="Never")
    node.start()
    node.until_running("web", "ends")
    node.until(lambda: node.printed("ends") == [["on"]], "it began")
    web, address = node.mains("web"), node.address("web")
    [(ends, _)] = node.mains("ends").values()
    runtime.kill9()
    # A pod that is asked for now waits; those that run are not touched, and one may end.
    node.put("late", FOREVER, grace=1)
    node.until(lambda: "late" in node.rows(), "the new pod is known")
    os.kill(ends, signal.SIGTERM)
    node.until(lambda: runtime.socket in node.stderr(), "the loss is told")
    assert all(processes.is_alive(*main) for main in web.values())
    assert node.row("web")["status"] == "Running"
    assert node.ask("/livez")[0] == 200
    runtime.start()
    node.until_running("web", "late", deadline_s=40)
    node.until_status("ends", "Error", 40)
    assert node.status("ends")["state"]["terminated"]["exitCode"] == 33
    assert (node.mains("web"), node.address("web")) == (web, address)
    assert [node.row(name)["restarts"] for name in ("web", "late", "ends")] == [0, 0, 0]
    assert len(runtime.link.sandboxes()) == 3


def test_an_agent_that_starts_before_its_containerd_waits_for_it(make_containerd, make_node):
    runtime = make_containerd()
    node = make_node(runtime)
    node.put("web", FOREVER, grace=1)
    node.start(ready=False)
    node.until(lambda: runtime.socket in node.stderr(), "the missing socket is named")
    said = node.stderr()
    assert "Traceback" not in said
    runtime.start()
    node.until_running("web", deadline_s=40)
