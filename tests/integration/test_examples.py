"""The examples that the README's first command runs, on a real agent."""

import re
import shutil
import socket
from pathlib import Path

import pytest

from tests.harness.agent.agent import REPOSITORY

EXAMPLES = REPOSITORY / "docs" / "examples"


@pytest.fixture
def examples(agent, free_port):
    """Return the agent with a copy of the examples: the web server on a free port, the tries in the test's folder."""
    tries = agent.folder / "tries"
    for path in sorted(EXAMPLES.glob("*.yaml")):
        text = path.read_text().replace("8080", str(free_port))
        (agent.manifests / path.name).write_text(text.replace("/tmp/nodeagent-example-retry", str(tries)))
    return agent


def test_the_examples_are_the_six_that_the_readme_promises():
    names = {"web", "job", "retry", "crash", "pair", "staged"}
    assert {path.stem for path in EXAMPLES.glob("*.yaml")} == names


@pytest.mark.slow
def test_the_examples_reach_the_right_states_and_the_verbs_tell_the_truth(examples, free_port):
    agent = examples.start()
    for name in ("retry", "crash"):
        agent.until_status(name, "CrashLoopBackOff")
    assert agent.until_next_in("retry") <= 10
    waiting = agent.explain("retry")
    assert "back-off" in waiting["waits_for"]
    assert "exit code 1" in waiting["containers"][0]
    assert agent.row("retry")["restarts"] == 1

    agent.until_status("web", "Running")
    agent.until(lambda: answers(free_port), "the web server answers")
    assert agent.row("pair")["ready"] == "2/2"
    assert agent.row("pair")["status"] == "Running"
    agent.until_status("job", "Completed")
    agent.until_status("staged", "Completed")
    row = agent.until_status("retry", "Completed", 25)
    assert row["restarts"] == 2
    agent.until(lambda: agent.row("crash")["restarts"] == 2, "the crash-looper had its second restart")
    agent.until_status("crash", "CrashLoopBackOff")

    # The tables are what a person reads: each line is held to what the runtime really did.
    table = agent.verb("pods").stdout
    assert re.search(
        r"^default +crash-n1 +0/1 +CrashLoopBackOff +2 \(\w+ ago\) .*back-off", table, re.MULTILINE
    ), table
    assert re.search(r"^default +job-n1 +0/1 +Completed +0 ", table, re.MULTILINE), table
    assert re.search(r"^default +staged-n1 +0/2 +Completed +0 ", table, re.MULTILINE), table
    assert re.search(r"^default +retry-n1 +0/1 +Completed +2 ", table, re.MULTILINE), table
    assert re.search(r"^default +pair-n1 +2/2 +Running +0 ", table, re.MULTILINE), table
    assert re.search(r"^default +web-n1 +1/1 +Running +0 ", table, re.MULTILINE), table

    assert 10 < agent.until_next_in("crash") <= 20
    crash = agent.explain("crash")
    assert "exit code 37" in crash["containers"][0]
    assert "2 restarts" in crash["containers"][0]
    spoken = agent.verb("explain", "crash").stdout
    assert re.search(r"Next: +in 1\ds: ", spoken), spoken
    assert "last ended with exit code 37 (Error); 2 restarts" in spoken
    last = agent.status("crash")["lastState"]["terminated"]
    assert (last["exitCode"], last["reason"]) == (37, "Error")
    assert "exit code 0 (Completed)" in agent.explain("job")["containers"][0]
    told = agent.explain("staged")["containers"]
    assert [line.partition(":")[0] for line in told] == ["clock (sidecar)", "prepare (init)", "work"]
    assert agent.verb("logs", "staged").stdout == "working\ndone\n"
    assert agent.verb("logs", "staged", "-c", "prepare").stdout == "preparing\nprepared\n"
    assert agent.verb("logs", "staged", "-c", "clock").stdout.endswith("good night\n")
    assert len(agent.explain("pair")["containers"]) == 2

    tree = agent.verb("actors", "--tree").stdout
    for name in ("web", "job", "retry", "crash", "pair", "staged"):
        assert re.search(rf"─ {agent.row(name)['uid']} +default/{name}-n1 +PodActor +ALIVE", tree), tree
    for path in ("/node/pods", "/node/pleg", "/node/status", "/node/config", "/node/file"):
        assert re.search(rf"^{path} .*ALIVE", tree, re.MULTILINE), tree


def test_removing_the_examples_leaves_nothing(examples):
    agent = examples.start()
    agent.until_status("web", "Running")
    agent.until_status("pair", "Running")
    for path in agent.manifests.iterdir():
        path.unlink()
    agent.until(lambda: not agent.rows(), "no pods are left")
    agent.until(lambda: not list(agent.logs.iterdir()), "no logs are left")
    agent.until(lambda: not list((agent.root / "pods").iterdir()), "no pod folders are left")
    sections = {path.name: path for path in (agent.root / "ledger").iterdir()}
    # What happened to a pod stays to be asked for, for an hour after its end.
    pages = sections.pop("events")
    for section in sections.values():
        agent.until(lambda section=section: not list(section.iterdir()), f"{section} is empty")
    agent.until(
        lambda: len(list(pages.iterdir())) == len(list(EXAMPLES.glob("*.yaml"))),
        "the events of each pod are written down",
    )
    agent.stop()
    shutil.rmtree(agent.root / "ledger")
    assert not Path(agent.root / "nodeagent.sock").exists()


def answers(port):
    """Tell whether somebody listens on a port of loopback."""
    with socket.socket() as link:
        link.settimeout(1)
        return link.connect_ex(("127.0.0.1", port)) == 0
