"""What happened to pods, as people and programs see it: counted, kept over restarts of the agent, shown as v1 Events."""

import json
import os
import signal
import subprocess
import sys

from tests.harness.agent.agent import REPOSITORY
from tests.harness.wait import until

FOREVER = "exec sleep 1000000"


def reasons(agent, name, **query):
    """Return how often what happened to a pod, by reason."""
    asked = "".join(f"&{key}={value}" for key, value in query.items())
    return {e["reason"]: e["count"] for e in agent.json(f"/events?pod={name}{asked}")["events"]}


def test_events_survive_an_orderly_stop_at_once_and_are_counted_on(agent):
    agent.put("web", FOREVER)
    agent.start()
    agent.until_status("web", "Running")
    agent.until(lambda: "Started" in reasons(agent, "web"), "its start was told")
    agent.stop()
    agent.start()
    agent.until(lambda: "web" in agent.rows(), "it is known again")
    agent.until(lambda: reasons(agent, "web").get("Started") == 1, "the last life's events are there")
    [started] = [e for e in agent.json("/events?pod=web")["events"] if e["reason"] == "Started"]
    [(pid, _)] = agent.until(lambda: agent.mains("web").values(), "its process is known")
    os.kill(pid, signal.SIGKILL)
    agent.until(lambda: reasons(agent, "web").get("Started") == 2, "a second start is counted with the first")
    [again] = [e for e in agent.json("/events?pod=web")["events"] if e["reason"] == "Started"]
    assert again["first_at"] == started["first_at"] < again["at"]


def test_events_survive_a_kill_of_the_agent_once_their_page_was_written(agent):
    agent.put("web", FOREVER)
    agent.start()
    agent.until_status("web", "Running")
    uid = agent.row("web")["uid"]
    pages = agent.root / "ledger"
    agent.until(
        lambda: any(
            "events" in str(found := page.relative_to(pages)) and uid in str(found)
            for page in pages.rglob("*")
        ),
        "its page was written",
        deadline_s=30,
    )
    agent.kill9()
    agent.start()
    agent.until(lambda: "web" in agent.rows(), "it is known again")
    agent.until(lambda: reasons(agent, "web").get("Started") == 1, "the last life's events are there")


def test_a_pod_that_is_gone_leaves_its_events(agent):
    agent.put("web", FOREVER)
    agent.start()
    agent.until_status("web", "Running")
    agent.drop("web")
    agent.until_gone("web")
    assert {"Started", "Killing"} <= reasons(agent, "web").keys()
    ended = agent.verb("events", "web")
    assert ended.returncode == 0
    assert "Stopping container" in ended.stdout
    head, first, *_ = (line.split() for line in ended.stdout.splitlines())
    assert head == ["AGO", "TYPE", "REASON", "POD", "CONTAINER", "TIMES", "MESSAGE"]
    assert first[4:6] == ["main", "1"]


def test_a_program_gets_v1_events_and_may_choose_a_type(agent):
    agent.put("crash", "exit 3")
    agent.put("web", FOREVER)
    agent.start()
    agent.until(lambda: {"crash", "web"} <= agent.rows().keys(), "both are known")
    agent.until(lambda: "BackOff" in reasons(agent, "crash"), "it backs off")
    shown = json.loads(agent.verb("events", "crash", "-o", "json", "--type", "Warning").stdout)
    assert (shown["kind"], shown["apiVersion"]) == ("EventList", "v1")
    assert {e["type"] for e in shown["items"]} == {"Warning"}
    [event] = [e for e in shown["items"] if e["reason"] == "BackOff"]
    assert event["involvedObject"]["kind"] == "Pod"
    assert event["involvedObject"]["uid"] == agent.row("crash")["uid"]
    assert event["involvedObject"]["fieldPath"] == "spec.containers{main}"
    assert event["message"].startswith("Back-off restarting failed container main in pod crash-")
    assert event["firstTimestamp"] <= event["lastTimestamp"]
    assert set(reasons(agent, "web", type="Warning")) == set()


def test_followed_events_come_as_they_happen(agent):
    agent.put("web", FOREVER)
    agent.start()
    agent.until_status("web", "Running")
    out = agent.folder / "followed"
    with out.open("w") as stream:
        words = (
            sys.executable,
            "-m",
            "actors.agent.main",
            "events",
            "--root-dir",
            str(agent.root),
            "web",
            "-f",
        )
        follower = subprocess.Popen(words, stdout=stream, cwd=REPOSITORY)
        try:
            until(lambda: "Container started" in out.read_text(), "what was there is printed", 20.0)
            agent.drop("web")
            until(lambda: "Stopping container main" in out.read_text(), "what happens is printed", 20.0)
            assert out.read_text().count("Container started") == 1
        finally:
            follower.terminate()
            follower.wait(10)
