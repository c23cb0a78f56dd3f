"""Probes of pods on a real containerd: over the pod's own network, and as commands in its containers."""

import pytest

from tests.harness.agent.node import container

pytestmark = pytest.mark.real
SERVE = "mkdir -p /tmp/www; echo up >/tmp/www/ready; exec httpd -f -p 8080 -h /tmp/www"


def events(node, name, reason):
    """Return the messages of a pod's events of this reason."""
    rows = node.json(f"/events?pod={name}")["events"]
    return [row["message"] for row in rows if row["reason"] == reason]


def test_a_pod_is_asked_at_its_own_address_and_by_commands(node_of_each):
    node = node_of_each
    asked = {
        "ports": [{"name": "web", "containerPort": 8080}],
        "startupProbe": {"exec": {"command": ["test", "-e", "/tmp/www/ready"]}, "periodSeconds": 1},
        "readinessProbe": {
            "httpGet": {"port": "web", "path": "/ready"},
            "periodSeconds": 1,
            "failureThreshold": 1,
        },
        "livenessProbe": {
            "exec": {"command": ["sh", "-c", "! test -e /tmp/ill || { echo feels ill; exit 1; }"]},
            "periodSeconds": 1,
            "failureThreshold": 1,
        },
    }
    node.put_pod("web", container("main", f"sleep 2; {SERVE}") | asked, terminationGracePeriodSeconds=1)
    node.start()
    node.until_running("web")
    assert not node.status("web")["ready"]
    node.until(lambda: node.status("web").get("ready"), "it is ready")
    assert node.status("web")["started"]
    node.verb("exec", "web", "--", "rm", "/tmp/www/ready")
    node.until(lambda: not node.status("web")["ready"], "it is ready no more")
    assert "Readiness probe failed: HTTP probe failed with statuscode: 404" in events(
        node, "web", "Unhealthy"
    )
    node.verb("exec", "web", "--", "touch", "/tmp/ill")
    node.until(lambda: node.status("web").get("restartCount") == 1, "it was restarted")
    assert "Liveness probe failed: feels ill\n" in events(node, "web", "Unhealthy")
    assert "Container main failed liveness probe, will be restarted" in events(node, "web", "Killing")
    node.until(lambda: node.status("web").get("ready"), "the next one is ready")


def test_commands_that_hang_or_flood_fail_and_hold_up_no_other(node):
    hang = {"exec": {"command": ["sleep", "1000"]}, "periodSeconds": 1, "failureThreshold": 1}
    flood = {
        "exec": {"command": ["sh", "-c", "yes 0123456789 | head -c 3000000; exit 1"]},
        "periodSeconds": 1,
        "timeoutSeconds": 10,
        "failureThreshold": 1,
    }
    well = {"tcpSocket": {"port": 8080}, "periodSeconds": 1}
    for name, probe in (("hang", hang), ("flood", flood), ("well", well)):
        node.put_pod(
            name, container("main", SERVE) | {"readinessProbe": probe}, terminationGracePeriodSeconds=1
        )
    node.start()
    node.until(lambda: node.status("well").get("ready"), "the well one is ready")
    said = node.until(lambda: events(node, "hang", "Unhealthy"), "the hang failed")
    assert said[0] == 'Readiness probe failed: command timed out: "sleep 1000" timed out after 1s'
    said = node.until(lambda: events(node, "flood", "Unhealthy"), "the flood failed")
    assert said[0].startswith("Readiness probe failed: 0123456789")
    assert len(said[0]) < 1200
