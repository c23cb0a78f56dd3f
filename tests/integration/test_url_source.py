"""Pods from a URL: a list, an outage, and what a stranger may not ask for."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tests.harness.agent.agent import pod

FOREVER = "exec sleep 1000000"


class Shelf:
    """A local HTTP server whose answer the test sets."""

    def __init__(self, port=0):
        self.status, self.body, self.headers = 200, b"", []
        shelf = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                shelf.headers.append(dict(self.headers))
                self.send_response(shelf.status)
                self.send_header("Content-Length", str(len(shelf.body)))
                self.end_headers()
                self.wfile.write(shelf.body)

            def log_message(self, *words):
                """Say nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self.port = self.server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}/pods"
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True)
        self.thread.start()

    def pods(self, *pods):
        """Answer with a PodList."""
        self.body = json.dumps({"apiVersion": "v1", "kind": "PodList", "items": list(pods)}).encode()

    def close(self):
        """Stop serving."""
        self.server.shutdown()
        self.server.server_close()
        self.thread.join(5)


@pytest.fixture
def shelf():
    made = Shelf()
    yield made
    made.close()


def test_pods_of_a_list_run_change_and_go_with_it(agent, shelf):
    one, two = (pod(name, FOREVER, folder=agent.folder) for name in ("one", "two"))
    shelf.pods(one, two)
    agent.start(
        "--manifest-url",
        shelf.url,
        "--manifest-url-header",
        "X-Test=yes",
        "--allow-host-image",
        manifests=False,
    )
    for name in ("one", "two"):
        assert agent.until_status(name, "Running")["source"] == "http"
    assert shelf.headers[0]["X-Test"] == "yes"
    main = agent.mains("one")
    shelf.pods(one)
    agent.until_gone("two")
    assert agent.mains("one") == main
    shelf.body = b""
    agent.until_gone("one")


@pytest.mark.parametrize(("status", "body"), [(500, b"out of order"), (404, b""), (200, b"kind: [")])
def test_an_answer_that_is_wrong_keeps_the_pods_and_is_told(agent, shelf, status, body):
    shelf.pods(pod("one", FOREVER, folder=agent.folder))
    agent.start("--manifest-url", shelf.url, "--allow-host-image", manifests=False)
    agent.until_status("one", "Running")
    main = agent.mains("one")
    shelf.status, shelf.body = status, body
    told = agent.until(
        lambda: next(
            (r for r in agent.json("/sources")["sources"] if r["status"] in ("unreachable", "broken")), None
        ),
        "the answer is told of",
    )
    assert f"127.0.0.1:{shelf.port}" in json.dumps(told)
    assert str(status) in json.dumps(told) or status == 200
    assert agent.mains("one") == main
    assert agent.row("one")["status"] == "Running"


def test_an_outage_keeps_the_pods_also_over_a_restart(agent, shelf):
    shelf.pods(pod("one", FOREVER, folder=agent.folder))
    flags = ("--manifest-url", shelf.url, "--allow-host-image")
    agent.start(*flags, manifests=False)
    agent.until_status("one", "Running")
    main, port = agent.mains("one"), shelf.port
    body = shelf.body
    shelf.close()
    agent.until(lambda: "unreachable" in json.dumps(agent.json("/sources")), "the outage is told")
    agent.stop()
    agent.start(*flags, manifests=False, ready=False)
    agent.until(
        lambda: "unreachable" in json.dumps(agent.json("/sources")),
        "it is told again",
    )
    [keeper_main] = main.values()
    agent.until(lambda: agent.ask("/readyz")[0] == 500, "it is not ready while the URL is silent")
    back = Shelf(port)
    try:
        back.body = body
        agent.until(lambda: agent.mains("one") == main, "the same process runs on")
        assert keeper_main[0] > 0
        assert agent.row("one")["restarts"] == 0
    finally:
        back.close()
    # The fixture closes it once more.
    shelf.server = ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler)
    shelf.thread = threading.Thread(target=shelf.server.serve_forever, args=(0.05,), daemon=True)
    shelf.thread.start()


def test_the_host_image_is_refused_from_a_url_unless_allowed(agent, shelf):
    marker = agent.folder / "marker"
    shelf.pods(pod("one", f"touch {marker}; {FOREVER}", folder=agent.folder))
    agent.put("local", FOREVER)
    agent.start("--manifest-url", shelf.url)
    agent.until_status("local", "Running")
    told = agent.until(
        lambda: "--allow-host-image" in json.dumps(agent.explain("one")) and json.dumps(agent.explain("one")),
        "it is refused",
    )
    assert "nodeagent.local/host" in told
    assert agent.row("one")["ready"] == "0/1"
    assert not marker.exists()
    agent.stop()
    agent.start("--manifest-url", shelf.url, "--allow-host-image")
    agent.until_status("one", "Running")
    agent.until(marker.exists, "it runs once it is allowed")
