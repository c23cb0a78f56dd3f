"""Hooks and deadlines of real pods on the embedded runtime."""

import contextlib
import http.server
import os
import threading
import time

import pytest

from actors.agent.agent import Agent as Within
from actors.agent.main import make_parser
from actors.agent.run import read_settings
from api.ids import Path
from api.messages.pod import KillCause, KillPod
from tests.harness.wait import until

FOREVER = "exec sleep 1000000"


def shell(script):
    return {"exec": {"command": ["sh", "-c", script]}}


@contextlib.contextmanager
def listening():
    """Yield the port of a web server and the list of what it was asked for: (path, user agent)."""
    asked = []

    class Answer(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append((self.path, self.headers["User-Agent"]))
            self.send_error(500, "a hook takes any answer")

        def log_message(self, *_):
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Answer) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.server_port, asked
        finally:
            server.shutdown()
            thread.join()


def hooked(agent, name, script, *, start=None, stop=None, more=(), probes=None, **kwargs):
    """Write the manifest of a pod whose container ``main`` has hooks and maybe probes, beside others."""
    lifecycle = {kind: hook for kind, hook in (("postStart", start), ("preStop", stop)) if hook}
    main = {
        "name": "main",
        "image": "nodeagent.local/host",
        "command": ["sh", "-c", script],
        "env": [{"name": "HARNESS_FOLDER", "value": str(agent.folder)}],
        "lifecycle": lifecycle,
        **(probes or {}),
    }
    agent.put(name, script, containers=[main, *more], **kwargs)


def told(agent, name):
    """Return (reason, message) of a pod's events."""
    return [(e["reason"], e["message"]) for e in agent.json("/events")["events"] if name in e["pod"]]


def diary(agent):
    path = agent.folder / "diary"
    return path.read_text().split() if path.exists() else []


def test_a_pod_becomes_ready_when_its_post_start_hook_is_done(agent):
    gate, path = agent.folder / "gate", agent.folder / "diary"
    start = shell(f"echo hook >>{path}; until [ -e {gate} ]; do sleep 0.05; done")
    hooked(agent, "web", f"echo main >>{path}; {FOREVER}", start=start)
    agent.start()
    agent.until(lambda: sorted(diary(agent)) == ["hook", "main"], "both run")
    agent.until(lambda: agent.row("web")["ready"] == "0/1", "it is not ready")
    assert "postStart hook of container main" in agent.explain("web")["waits_for"]
    gate.touch()
    agent.until(lambda: agent.row("web")["ready"] == "1/1", "it is ready")
    agent.kill9()
    agent.start()
    agent.until(lambda: agent.row("web")["ready"] == "1/1", "it is ready again")
    assert sorted(diary(agent)) == ["hook", "main"], "what was done is not repeated"


def test_probing_begins_when_the_post_start_hook_is_over(agent):
    gate, path = agent.folder / "gate", agent.folder / "diary"
    start = shell(f"until [ -e {gate} ]; do sleep 0.05; done; echo hook >>{path}")
    asks = {"readinessProbe": {**shell(f"echo probe >>{path}"), "periodSeconds": 1}}
    hooked(agent, "web", FOREVER, start=start, probes=asks)
    agent.start()
    agent.until(lambda: "postStart hook" in agent.row("web").get("why", ""), "the hook runs")
    gate.touch()
    agent.until(lambda: agent.row("web")["ready"] == "1/1", "it is ready soon", 10.0)
    assert diary(agent)[:2] == ["hook", "probe"]


def test_a_failed_post_start_hook_ends_the_container(agent):
    path = agent.folder / "diary"
    script = f"trap 'echo term >>{path}; exit 0' TERM; echo on >>{path}; sleep 1000000 & wait"
    start = shell(f"until [ -s {path} ]; do sleep 0.05; done; echo secret >&2; exit 3")
    hooked(agent, "web", script, start=start, restart="Never")
    agent.start()
    agent.until(lambda: agent.status("web").get("state", {}).get("terminated"), "it was ended")
    assert diary(agent) == ["on", "term"]
    events = told(agent, "web")
    assert ("FailedPostStartHook", "PostStartHook failed") in events
    assert ("Killing", "FailedPostStartHook") in events
    assert "secret" not in repr(events)


def test_a_hanging_post_start_hook_holds_up_the_next_container_and_no_removal(agent):
    path = agent.folder / "diary"
    second = {
        "name": "second",
        "image": "nodeagent.local/host",
        "command": ["sh", "-c", f"echo second >>{path}"],
    }
    hooked(agent, "web", FOREVER, start=shell(f"echo hook >>{path}; {FOREVER}"), more=(second,), grace=20)
    agent.start()
    agent.until(lambda: diary(agent) == ["hook"], "the hook runs")
    agent.until(lambda: "hook" in agent.explain("web")["waits_for"], "that is what it waits for")
    begun = time.monotonic()
    agent.drop("web")
    agent.until_gone("web", deadline_s=15.0)
    assert time.monotonic() - begun < 15.0
    assert diary(agent) == ["hook"]


def test_a_pre_stop_hook_is_over_before_the_stop(agent):
    path = agent.folder / "diary"
    script = f"trap 'echo term >>{path}; exit 0' TERM; echo on >>{path}; sleep 1000000 & wait"
    hooked(agent, "web", script, stop=shell(f"echo hook >>{path}; sleep 1; echo done >>{path}"), grace=20)
    agent.start()
    agent.until_status("web", "Running")
    agent.until(lambda: diary(agent) == ["on"], "it began")
    agent.drop("web")
    agent.until(lambda: "hook" in diary(agent), "the hook runs")
    agent.until_gone("web")
    assert diary(agent) == ["on", "hook", "done", "term"]


def test_a_pre_stop_hook_gets_the_grace_and_no_more(agent):
    path = agent.folder / "diary"
    hooked(agent, "web", FOREVER, stop=shell(f"echo hook >>{path}; {FOREVER}"), grace=3)
    agent.start()
    agent.until_status("web", "Running")
    begun = time.monotonic()
    agent.drop("web")
    agent.until(
        lambda: "preStop hook of container main" in agent.explain("web")["waits_for"], "it waits for the hook"
    )
    assert "removed from its source" in agent.explain("web")["kill"]
    assert any(
        "removed from its source" in text for reason, text in told(agent, "web") if reason == "Stopping"
    )
    agent.until_gone("web")
    assert 3.0 <= time.monotonic() - begun < 12.0
    assert diary(agent) == ["hook"]


def test_a_pre_stop_hook_goes_on_when_the_agent_is_back(agent):
    path = agent.folder / "diary"
    script = f"trap 'echo term >>{path}; exit 0' TERM; echo on >>{path}; sleep 1000000 & wait"
    hooked(agent, "web", script, stop={"sleep": {"seconds": 4}}, grace=30)
    agent.start()
    agent.until_status("web", "Running")
    begun = time.monotonic()
    agent.drop("web")
    agent.until(lambda: "preStop" in agent.explain("web")["waits_for"], "it waits for the pause")
    agent.kill9()
    agent.start()
    agent.until(lambda: diary(agent)[-1:] == ["term"], "it was asked to end")
    assert 3.5 <= time.monotonic() - begun < 20.0
    agent.until_gone("web")


@pytest.mark.parametrize("kind", ["start", "stop"])
def test_a_hook_asks_over_http_and_takes_any_answer(agent, kind):
    with listening() as (port, asked):
        hook = {"httpGet": {"host": "127.0.0.1", "port": port, "path": f"/{kind}"}}
        hooked(agent, "web", FOREVER, **{kind: hook})
        agent.start()
        agent.until(lambda: agent.row("web")["ready"] == "1/1", "it is ready")
        events = told(agent, "web")
        agent.drop("web")
        agent.until_gone("web")
    assert [path for path, _ in asked] == [f"/{kind}"]
    assert asked[0][1].startswith("kube-lifecycle/")
    assert not [reason for reason, _ in events if reason.startswith("Failed")]


def test_a_pod_fails_at_its_deadline_also_when_the_agent_was_killed_meanwhile(agent):
    agent.put("job", FOREVER, grace=1, activeDeadlineSeconds=6)
    begun = time.monotonic()
    agent.start()
    agent.until_status("job", "Running")
    agent.kill9()
    agent.start()
    agent.until_status("job", "DeadlineExceeded")
    assert 5.0 <= time.monotonic() - begun < 25.0
    (pod,) = agent.json("/pods")["items"]
    assert pod["status"]["phase"] == "Failed"
    assert pod["status"]["message"] == "Pod was active on the node longer than the specified deadline"
    assert agent.explain("job")["kill"].startswith("active deadline exceeded")


@pytest.fixture
def within(agent):
    """Return an agent that runs within this process, on the folder of the one that is not started."""
    umask = os.umask(0o077)
    os.umask(umask)
    settings = read_settings(make_parser().parse_args(agent.command()[3:])).settings
    assert settings is not None
    product = Within(settings)
    yield product
    product.stop()
    os.umask(umask)


@pytest.mark.parametrize("when", ["while the agent was down", "and the agent died during its grace"])
def test_a_pod_whose_manifest_went_gets_its_own_grace_and_hook(agent, when):
    path = agent.folder / "diary"
    script = f"trap 'echo term >>{path}; sleep 3; echo end >>{path}; exit 0' TERM; echo on >>{path}; sleep 1000000 & wait"
    hooked(agent, "web", script, stop=shell(f"echo hook >>{path}; sleep 2; echo done >>{path}"), grace=40)
    agent.start()
    agent.until_status("web", "Running")
    agent.until(lambda: diary(agent) == ["on"], "it began")
    if when == "while the agent was down":
        agent.kill9()
        agent.drop("web")
    else:
        agent.drop("web")
        agent.until(lambda: "hook" in diary(agent), "the hook runs")
        agent.kill9()
    agent.start()
    agent.until_gone("web", deadline_s=40.0)
    found = diary(agent)
    assert found[-3:] == ["done", "term", "end"], "the hook ran to its end, and then the container did"
    assert found[:2] == ["on", "hook"]
    stopping = [message for reason, message in told(agent, "web") if reason == "Stopping"]
    assert stopping
    assert all(message.endswith("grace period 40 s") for message in stopping)


def test_a_second_kill_with_less_grace_cuts_the_hook_and_stops_again(agent, within):
    path = agent.folder / "diary"
    script = f"trap 'echo term >>{path}' TERM; echo on >>{path}; while :; do sleep 0.1; done"
    hooked(agent, "web", script, stop=shell(f"echo hook >>{path}; {FOREVER}"), grace=300)
    within.start()

    def kill(grace_s):
        """Ask as whoever evicts pods would: nobody shortens the grace of a pod from a file."""
        uid = within.view.pods()[0].uid
        ask = KillPod(uid=uid, cause=KillCause.EVICTED, grace_s=grace_s, asked_by=Path("/node/test"))
        within.system.handle(Path(f"/node/pods/{uid}")).tell(ask)

    until(lambda: diary(agent) == ["on"], "it runs", 20.0)
    until(lambda: within.view.pods()[0].status == "Running", "that is known", 20.0)
    kill(None)
    until(lambda: diary(agent) == ["on", "hook"], "the hook runs", 20.0)
    begun = time.monotonic()
    kill(100)
    until(lambda: diary(agent) == ["on", "hook", "term"], "the hook is given up", 20.0)
    kill(3)
    over = "no container will be started again"
    until(lambda: over in within.view.explain("default/web-n1").state, "it was killed", 30.0)
    assert 2.5 <= time.monotonic() - begun < 30.0
    assert diary(agent) == ["on", "hook", "term"]
    assert within.view.explain("default/web-n1").kill.startswith("evicted, ")
