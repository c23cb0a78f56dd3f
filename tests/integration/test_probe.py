"""Probes of pods on the embedded runtime: servers in this process answer, and /pods and explain tell what follows."""

import json
import statistics
import time

import pytest

from tests.conformance.net.bench import certificate
from tests.harness.agent.agent import pod
from tests.harness.netpeer import GrpcPeer, HttpPeer, saying

FOREVER = "exec sleep 1000000"
LOCAL = "127.0.0.1"


@pytest.fixture
def peer():
    """Return a server that says 200 until it is told otherwise."""
    server = HttpPeer(saying(200))
    yield server
    server.close()


def get(port, **more):
    return {"httpGet": {"host": LOCAL, "port": port, **more}, "periodSeconds": 1}


def put(agent, name, script=FOREVER, *, container=None, **spec):
    """Write a pod whose one container has these fields more."""
    document = pod(name, script, folder=agent.folder, **spec)
    document["spec"]["containers"][0] |= container or {}
    agent.write(f"{name}.yaml", json.dumps(document))


def events(agent, name, reason):
    """Return the messages of a pod's events of this reason."""
    rows = agent.json(f"/events?pod={name}")["events"]
    return [row["message"] for row in rows if row["reason"] == reason]


def until_ready(agent, name, ready):
    return agent.until(
        lambda: agent.status(name).get("ready") is ready and agent.status(name), f"{name} ready: {ready}"
    )


def test_nothing_is_asked_before_the_startup_probe_succeeds_and_then_at_once(agent, peer):
    peer.answer = saying(503)
    other = HttpPeer(saying(200))
    try:
        probes = {
            "startupProbe": {**get(peer.port, path="/up"), "failureThreshold": 1000},
            "readinessProbe": get(other.port, path="/ready"),
            "livenessProbe": get(other.port, path="/live"),
        }
        put(agent, "web", container=probes)
        agent.start()
        agent.until(lambda: len(peer.requests) >= 3, "the startup probe asked three times")
        status = agent.status("web")
        assert (status["started"], status["ready"]) == (False, False)
        assert other.connections == 0
        said = agent.explain("web")
        assert "startup probe of container main" in said["waits_for"]
        assert "statuscode: 503" in said["waits_for"]
        peer.answer = saying(200)
        agent.until(lambda: agent.status("web").get("started"), "it has started")
        until_ready(agent, "web", True)
        agent.until(lambda: len(other.requests) >= 2, "the other probes ask")
        assert {request.split()[1] for request in other.requests} == {b"/ready", b"/live"}
        assert agent.status("web")["restartCount"] == 0
        asked = peer.connections
        agent.until(lambda: len(other.requests) >= 4, "they go on asking")
        assert peer.connections == asked
    finally:
        other.close()


def test_readiness_reaches_the_status_at_once(agent, peer):
    put(agent, "web", container={"readinessProbe": {**get(peer.port), "failureThreshold": 1}})
    agent.start()
    until_ready(agent, "web", True)
    took = []
    for status, ready in ((500, False), (200, True), (500, False), (200, True), (500, False)):
        peer.answer = saying(status)
        asked = len(peer.answered_at)
        while len(peer.answered_at) == asked:
            agent.status("web")
        answered_at = peer.answered_at[asked]
        until_ready(agent, "web", ready)
        took.append(time.monotonic() - answered_at)
    # Far sooner than any look at the runtime or any period; `bin/bench probes` holds the figure itself.
    assert statistics.median(took) < 0.5, took
    assert "Readiness probe failed: HTTP probe failed with statuscode: 500" in events(
        agent, "web", "Unhealthy"
    )
    row = agent.row("web")
    assert row["ready"] == "0/1"
    assert "readiness probe of container main" in row["why"]


def test_a_failed_liveness_probe_restarts_the_container(agent, peer):
    # It ends with 0, which for its policy would be a success: that its probe failed counts, not how it ends.
    polite = "trap 'exit 0' TERM; sleep 1000000 & wait"
    probe = {**get(peer.port), "failureThreshold": 2}
    put(agent, "web", polite, container={"livenessProbe": probe}, restart="OnFailure")
    agent.start()
    agent.until_status("web", "Running")
    first = agent.status("web")["containerID"]
    peer.answer = saying(500)
    agent.until(lambda: agent.status("web").get("restartCount") == 1, "it was restarted")
    peer.answer = saying(200)
    assert events(agent, "web", "Killing")[0] == "Container main failed liveness probe, will be restarted"
    unhealthy = events(agent, "web", "Unhealthy")
    assert unhealthy == ["Liveness probe failed: HTTP probe failed with statuscode: 500"]
    agent.until(lambda: "running" in agent.status("web")["state"], "it runs again")
    assert agent.status("web")["containerID"] != first
    agent.until(lambda: agent.status("web")["ready"], "it is ready")


def test_a_probe_has_a_grace_of_its_own(agent, peer):
    script = "trap '' TERM; while :; do sleep 0.2; done"
    probe = {**get(peer.port), "failureThreshold": 1, "terminationGracePeriodSeconds": 2}
    put(agent, "deaf", script, container={"livenessProbe": probe}, grace=3600)
    agent.start()
    agent.until_status("deaf", "Running")
    peer.answer = saying(500)
    agent.until(lambda: agent.status("deaf").get("restartCount") == 1, "it was killed and restarted")
    ended = agent.status("deaf")["lastState"]["terminated"]
    assert ended["exitCode"] == 137


def test_https_grpc_and_tcp_are_asked_too(agent, tmp_path):
    tls = HttpPeer(saying(200), tls=certificate(tmp_path))
    grpc = GrpcPeer({"web": "SERVING"})
    try:
        shapes = {
            "https": {"httpGet": {"host": LOCAL, "port": tls.port, "scheme": "HTTPS", "path": "/x?a=b"}},
            "tcp": {"tcpSocket": {"host": LOCAL, "port": tls.port}},
        }
        for name, shape in shapes.items():
            put(agent, name, container={"readinessProbe": {**shape, "periodSeconds": 1}})
        # A gRPC probe has no host of its own: it goes to the pod's address, which is this machine's.
        probe = {"grpc": {"port": grpc.port, "service": "web"}, "periodSeconds": 1, "failureThreshold": 1}
        put(agent, "grpc", container={"readinessProbe": probe})
        agent.start("--node-ip", LOCAL)
        for name in (*shapes, "grpc"):
            until_ready(agent, name, True)
        head = tls.requests[0].decode()
        assert head.startswith("GET /x?a=b HTTP/1.1\r\n")
        assert "User-Agent: kube-probe/" in head
        assert "Accept: */*" in head
        grpc.serving["web"] = "NOT_SERVING"
        until_ready(agent, "grpc", False)
        said = 'Readiness probe failed: service unhealthy (responded with "NOT_SERVING")'
        assert said in events(agent, "grpc", "Unhealthy")
    finally:
        tls.close()
        grpc.close()


def test_a_command_that_floods_or_hangs_is_cut_off_and_counts_as_a_failure(agent):
    commands = {
        "flood": "yes 0123456789012345678901234567890123456789 | head -c 30000000; exit 3",
        "hang": "sleep 1000001",
    }
    for name, script in commands.items():
        probe = {"exec": {"command": ["sh", "-c", script]}, "periodSeconds": 1, "failureThreshold": 1}
        put(
            agent,
            name,
            container={"readinessProbe": {**probe, "timeoutSeconds": 5 if name == "flood" else 1}},
        )
    put(agent, "well", container={"readinessProbe": {"exec": {"command": ["true"]}, "periodSeconds": 1}})
    agent.start()
    until_ready(agent, "well", True)
    (flood, *_) = agent.until(lambda: events(agent, "flood", "Unhealthy"), "the flood failed")
    assert flood.startswith("Readiness probe failed: 0123456789")
    assert len(flood) < 1200
    (hang, *_) = agent.until(lambda: events(agent, "hang", "Unhealthy"), "the hang failed")
    assert hang == ('Readiness probe failed: command timed out: "sh -c sleep 1000001" timed out after 1s')
    assert not agent.status("hang")["ready"]
    assert "command timed out" in agent.explain("hang")["waits_for"]


def test_a_restart_of_the_agent_changes_no_readiness(agent, peer):
    probe = {**get(peer.port), "periodSeconds": 3}
    put(agent, "web", container={"readinessProbe": probe, "startupProbe": probe})
    agent.start()
    before = until_ready(agent, "web", True)
    condition = conditions(agent, "web")["Ready"]
    agent.until(lambda: agent.status("web").get("started"), "it has started")
    agent.kill9()
    peer.answer = None
    asked = peer.connections
    agent.start()
    agent.until(lambda: agent.status("web"), "its status is there")
    # Nobody answers, and until that has counted nothing may change.
    while peer.connections == asked:
        status = agent.status("web")
        assert (status["ready"], status["started"], status["containerID"]) == (
            True,
            True,
            before["containerID"],
        )
    assert conditions(agent, "web")["Ready"] == condition


def conditions(agent, name):
    """Return a pod's conditions as (status, since when)."""
    (found,) = [p for p in agent.json("/pods")["items"] if p["metadata"]["name"].startswith(name)]
    return {c["type"]: (c["status"], c["lastTransitionTime"]) for c in found["status"]["conditions"]}


def test_a_port_name_that_does_not_exist_is_said(agent):
    put(agent, "web", container={"readinessProbe": get("nosuch")})
    agent.start()
    (said, *_) = agent.until(lambda: events(agent, "web", "Unhealthy"), "it is told")
    assert said.startswith("Readiness probe errored and resulted in unknown state: port")
    assert "nosuch" in said
    assert not agent.status("web")["ready"]


def test_while_a_pod_is_being_stopped_only_readiness_is_asked(agent, peer):
    live = HttpPeer(saying(200))
    try:
        script = "trap 'sleep 4; exit 0' TERM; sleep 1000000 & wait"
        probes = {"readinessProbe": get(peer.port), "livenessProbe": get(live.port)}
        put(agent, "web", script, container=probes, grace=30)
        agent.start()
        until_ready(agent, "web", True)
        agent.until(lambda: live.connections > 0, "it is asked whether it lives")
        agent.drop("web")
        agent.until_status("web", "Terminating")
        at_stop, asked = live.connections, peer.connections
        agent.until(lambda: peer.connections >= asked + 2, "readiness is asked twice more")
        # One that was under way may have come through.
        assert live.connections <= at_stop + 1
        agent.until_gone("web")
    finally:
        live.close()


def test_the_prober_is_there_and_explain_tells_what_each_probe_does(agent, peer):
    peer.answer = saying(418, b"teapot")
    put(agent, "web", container={"readinessProbe": {**get(peer.port, path="/ready"), "periodSeconds": 2}})
    agent.start()
    agent.until(lambda: len(peer.requests) >= 2, "it was asked twice")
    shown = agent.verb("actors", "-o", "json")
    assert "/node/probes" in shown.stdout
    (told,) = agent.until(lambda: agent.explain("web")["probes"], "the probe is explained")
    assert (
        told["what"] == f"readiness probe of container main: GET http://{LOCAL}:{peer.port}/ready every 2 s"
    )
    agent.until(lambda: agent.explain("web")["probes"][0]["failures"] >= 2, "it has failed twice")
    (told,) = agent.explain("web")["probes"]
    assert told["result"] in ("unknown", "failure")
    assert told["message"] == "HTTP probe failed with statuscode: 418"
    assert told["failing_s"] > 0
    assert told["next_in_s"] is None or told["next_in_s"] <= 2
    assert "readiness probe of container main" in agent.verb("explain", "web").stdout
