"""The URL fetcher against a real server on loopback."""

import shutil
import socket
import ssl
import subprocess
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from api.errors import DeniedError, NotFoundError, RejectedError, TimedOutError, UnavailableError
from api.ports.manifests import ReadManifests
from api.ports.urls import FetchManifests
from runtime.drivers.host.manifests.yamltext import read_document
from runtime.drivers.net import url
from runtime.drivers.net.url import UrlManifests

SECRET = "s3cr3t"


class Server(ThreadingHTTPServer):
    """Answers each path as told and keeps what it was asked."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Answer)
        self.answers = {}
        self.asked = []
        self.hang = threading.Event()

    def url(self, path="/", scheme="http"):
        return f"{scheme}://127.0.0.1:{self.server_address[1]}{path}"

    def last(self, header):
        return self.asked[-1][1].get(header)


class Answer(BaseHTTPRequestHandler):
    """One request."""

    def do_GET(self):
        self.server.asked.append((self.path, self.headers))
        status, headers, body = self.server.answers[self.path]
        if body == "hang":
            self.server.hang.wait(10)
            return
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


@contextmanager
def serving():
    server = Server()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        server.hang.set()
        server.shutdown()
        thread.join(10)
        server.server_close()


@pytest.fixture
def server():
    with serving() as one:
        yield one


def fetch(address, *, headers=(), known="", deadline_s=5.0, port=None):
    call = FetchManifests(url=address, headers=headers, known_digest=known)
    return (port or UrlManifests(read_document)).perform(call, deadline_s)


def test_a_body_is_read_and_known_bytes_are_not_read_again(server):
    server.answers["/x"] = (200, {}, b"kind: Pod")
    first = fetch(server.url("/x"), headers=(("X-Token", SECRET),))
    assert (first.document, first.problems, first.unchanged) == (b'{"kind":"Pod"}', (), False)
    assert server.last("X-Token") == SECRET
    again = fetch(server.url("/x"), known=first.digest)
    assert (again.unchanged, again.document, again.digest) == (True, None, first.digest)


def test_an_empty_body_is_an_empty_list_and_a_broken_one_has_problems(server):
    server.answers["/empty"] = (200, {}, b"")
    server.answers["/bad"] = (200, {}, b"a: [")
    empty = fetch(server.url("/empty"))
    assert (empty.document, empty.problems) == (None, ())
    (problem,) = fetch(server.url("/bad")).problems
    assert problem.where.startswith(server.url("/bad"))


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (401, DeniedError),
        (403, DeniedError),
        (404, NotFoundError),
        (500, UnavailableError),
        (503, UnavailableError),
        (204, UnavailableError),
        (206, UnavailableError),
    ],
)
def test_another_status_than_200_is_a_failure_that_names_it(server, status, kind):
    server.answers["/x"] = (status, {}, b"")
    with pytest.raises(kind, match=str(status)):
        fetch(server.url("/x"))


def test_a_body_over_the_limit_is_refused(server, monkeypatch):
    monkeypatch.setattr(url, "LIMIT_BYTES", 1 << 20)
    server.answers["/x"] = (200, {}, b"x" * ((1 << 20) + 1))
    with pytest.raises(RejectedError, match="1 MiB"):
        fetch(server.url("/x"))


def test_a_body_that_ends_early_is_a_failure(server):
    server.answers["/x"] = (200, {"Content-Length": "100"}, b"kind: Pod")
    with pytest.raises(UnavailableError):
        fetch(server.url("/x"))


def test_redirects_keep_headers_on_their_origin_and_drop_them_elsewhere(server):
    secret = (("X-Token", SECRET), ("Authorization", SECRET))
    server.answers["/a"] = (302, {"Location": "/b"}, b"")
    server.answers["/b"] = (200, {}, b"kind: Pod")
    fetch(server.url("/a"), headers=secret)
    assert (server.last("X-Token"), server.last("Authorization")) == (SECRET, SECRET)
    with serving() as other:
        other.answers["/b"] = (200, {}, b"kind: Pod")
        server.answers["/c"] = (307, {"Location": other.url("/b")}, b"")
        assert fetch(server.url("/c"), headers=secret).document == b'{"kind":"Pod"}'
        assert (other.last("X-Token"), other.last("Authorization")) == (None, None)
        assert SECRET not in str(other.asked[-1][1])


@pytest.mark.parametrize("to", ["file:///etc/passwd", "ftp://127.0.0.1/x", "data:,x"])
def test_redirects_lead_to_http_only(server, to):
    server.answers["/x"] = (302, {"Location": to}, b"")
    with pytest.raises((RejectedError, UnavailableError)) as caught:
        fetch(server.url("/x"))
    assert "root:" not in str(caught.value)


def test_redirects_in_a_circle_end(server):
    server.answers["/x"] = (302, {"Location": "/x"}, b"")
    with pytest.raises(UnavailableError):
        fetch(server.url("/x"))


def test_user_and_password_of_a_url_are_sent_as_a_header(server):
    server.answers["/x"] = (200, {}, b"kind: Pod")
    fetch(server.url("/x").replace("://", "://user:p%40w@"))
    assert server.last("Authorization") == "Basic dXNlcjpwQHc="


def test_a_server_that_hangs_costs_no_more_than_the_deadline(server):
    server.answers["/x"] = (200, {}, "hang")
    with pytest.raises(TimedOutError, match=r"0\.2 s"):
        fetch(server.url("/x"), deadline_s=0.2)


def test_a_server_that_drips_is_cut_off_at_the_deadline():
    with socket.create_server(("127.0.0.1", 0)) as listening:
        ended = threading.Event()

        def drip():
            connection, _ = listening.accept()
            with connection:
                connection.sendall(b"HTTP/1.0 200 OK\r\n\r\n")
                while not ended.wait(0.02):
                    try:
                        connection.sendall(b" ")
                    except OSError:
                        return

        thread = threading.Thread(target=drip)
        thread.start()
        with pytest.raises(TimedOutError, match="in full"):
            fetch(f"http://127.0.0.1:{listening.getsockname()[1]}/", deadline_s=0.3)
        ended.set()
        thread.join(10)


def test_nobody_there_is_a_failure_in_words():
    with socket.create_server(("127.0.0.1", 0)) as one:
        address = f"http://127.0.0.1:{one.getsockname()[1]}/x"
    with pytest.raises(UnavailableError, match="cannot be reached: Connection refused"):
        fetch(address)


@pytest.mark.parametrize("address", ["ftp://h/x", "file:///etc/passwd", "h/x", "http://", "http://[::1/x"])
def test_what_is_no_http_url_is_refused(address):
    with pytest.raises(RejectedError):
        fetch(address)


@pytest.mark.parametrize(
    "headers", [(("X-Token", f"{SECRET}\r\nA: b"),), ((f"Bad Name {SECRET}", "x"),), (("X", f"{SECRET}é"),)]
)
def test_bad_headers_are_refused_without_their_values(server, headers):
    with pytest.raises(RejectedError) as caught:
        fetch(server.url("/x"), headers=headers)
    assert SECRET not in str(caught.value)


def test_no_error_shows_a_secret_of_the_url(server):
    server.answers["/x?token=" + SECRET] = (500, {}, b"")
    with pytest.raises(UnavailableError) as caught:
        fetch(server.url("/x?token=" + SECRET).replace("://", f"://u:{SECRET}@"))
    assert SECRET not in str(caught.value)
    assert caught.value.__cause__ is None


def test_certificates_are_verified(server, tmp_path):
    if shutil.which("openssl") is None:
        pytest.skip("needs the openssl command (Debian package openssl) to make a certificate")
    key, certificate = tmp_path / "key.pem", tmp_path / "cert.pem"
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    command += ["-keyout", str(key), "-out", str(certificate), "-days", "2", "-subj", "/CN=test"]
    command += ["-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run(command, check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    server.answers["/x"] = (200, {}, b"kind: Pod")
    with pytest.raises(DeniedError, match="not trusted"):
        fetch(server.url("/x", "https"))
    trusting = ssl.create_default_context(cafile=str(certificate))
    port = UrlManifests(read_document, context=trusting)
    assert fetch(server.url("/x", "https"), port=port).document == b'{"kind":"Pod"}'


def test_another_call_is_refused():
    with pytest.raises(RejectedError):
        UrlManifests(read_document).perform(ReadManifests(path="/x"), 1.0)
