"""Health and every verb answer, also while something hangs."""

import contextlib
import http.client
import os
import signal
import socket

import msgspec
import pytest

from api.faults import FaultPlan, HangOperation
from runtime.net.endpoint import connect_unix
from tests.harness.agent.agent import NODE, processes

FOREVER = "exec sleep 1000000"
VERBS = (
    ("pods",),
    ("pods", "-o", "json"),
    ("explain", "hung"),
    ("actors", "--tree"),
    ("actors", "--detail"),
    ("trace", "/node/pods"),
    ("events",),
    ("sources",),
    ("logs", "talks", "--tail", "1"),
)


def over_tcp(port, path):
    """Return status and body of a request to the health port."""
    link = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        link.request("GET", path)
        answer = link.getresponse()
        return answer.status, answer.read().decode()
    finally:
        link.close()


def test_the_health_port_says_ok_and_names_each_check(agent, free_port):
    agent.start("--healthz-port", str(free_port))
    for path in ("/healthz", "/livez", "/readyz"):
        assert over_tcp(free_port, path)[0] == 200
        status, body = over_tcp(free_port, f"{path}?verbose")
        assert status == 200
        assert body.count("[+]ping ok") == 1, body
    assert over_tcp(free_port, "/pods")[0] == 404
    assert agent.ask("/healthz")[0] == 200


def test_ready_waits_for_a_source_that_does_not_speak_and_names_it(agent, free_port, silent_server):
    agent.start("--healthz-port", str(free_port), "--manifest-url", silent_server, ready=False)
    agent.until(lambda: agent.ask("/healthz")[0] == 200, "it lives")
    status, body = over_tcp(free_port, "/readyz")
    assert status in (500, 503), body
    # The file source speaks at once; until then both are named.
    agent.until(
        lambda: "no list yet from: http\n" in over_tcp(free_port, "/readyz")[1], "the URL alone is named"
    )
    assert over_tcp(free_port, "/livez")[0] == 200


def test_half_sent_requests_keep_neither_health_nor_verbs_from_answering(agent, free_port):
    agent.start("--healthz-port", str(free_port))
    with contextlib.ExitStack() as stack:
        for _ in range(40):
            sock = stack.enter_context(socket.create_connection(("127.0.0.1", free_port), 10))
            sock.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n")
            admin = stack.enter_context(connect_unix(str(agent.root / "nodeagent.sock"), 10))
            admin.sendall(b"GET /pods HTTP/1.1\r\nHost: x\r\n")
        for _ in range(20):
            assert over_tcp(free_port, "/healthz") == (200, "ok")
            assert agent.ask("/pods")[0] == 200


def answers_everything(agent, port):
    """Hold every verb and health answer to coming soon and well."""
    for path in ("/healthz", "/livez"):
        status, body = over_tcp(port, path)
        assert status == 200, body
    assert over_tcp(port, "/readyz")[0] in (200, 503, 500)
    for words in VERBS:
        ended = agent.verb(*words, deadline_s=10)
        assert ended.returncode == 0, (words, ended.stderr)
        assert ended.stdout, words


def test_everything_answers_while_the_keeper_of_a_pod_hangs(agent, free_port):
    agent.put("hung", FOREVER)
    agent.put("talks", f"echo hello; {FOREVER}")
    agent.start("--healthz-port", str(free_port))
    agent.until_status("hung", "Running")
    agent.until_status("talks", "Running")
    agent.until(lambda: agent.verb("logs", "talks").stdout == "hello\n", "it talks")
    [(pid, _)] = agent.mains("hung").values()
    keeper = processes.look(pid).parent
    assert keeper in agent.keepers()
    os.kill(keeper, signal.SIGSTOP)
    agent.drop("hung")
    agent.until(lambda: "to exit; SIGKILL" in agent.explain("hung")["waits_for"], "its stop hangs")
    answers_everything(agent, free_port)
    # One that hangs delays itself only.
    agent.put("late", FOREVER)
    agent.until_status("late", "Running")
    os.kill(keeper, signal.SIGCONT)
    agent.until_gone("hung", deadline_s=40)


@pytest.mark.parametrize(
    ("port", "call"),
    [
        ("runtime", "RunSandbox"),
        ("runtime", "StartContainer"),
        ("ledger", "Remember"),
        ("podfiles", "MakePodFolders"),
    ],
)
def test_everything_answers_while_calls_hang(agent, free_port, port, call):
    plan = agent.folder / "faults.json"
    plan.write_bytes(
        msgspec.json.encode(FaultPlan(faults=(HangOperation(port=port, call=call, after=1, times=1000),)))
    )
    agent.put("talks", f"echo hello; {FOREVER}")
    agent.start("--healthz-port", str(free_port), env={"NODEAGENT_FAULTS": str(plan)})
    agent.until(lambda: "talks" in agent.rows(), "the pod is known")
    agent.put("hung", FOREVER)
    agent.until(lambda: "hung" in agent.rows(), "the other is known")
    agent.until(
        lambda: any(
            f["call"] == call
            for row in agent.json("/actors?detail=true")["actors"]
            for f in row["operations"]
        ),
        f"{call} hangs",
    )
    for path in ("/healthz", "/livez"):
        assert over_tcp(free_port, path)[0] == 200
    for words in VERBS[:-1]:
        ended = agent.verb(*words, deadline_s=10)
        assert ended.returncode == 0, (words, ended.stderr)
    assert f"hung-{NODE}" in agent.verb("pods").stdout
    code, took_s = agent.stop(signal.SIGINT)
    assert (code, took_s < 2.0) == (0, True), took_s
