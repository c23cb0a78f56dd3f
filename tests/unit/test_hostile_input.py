"""Whatever a peer sends: each reader takes it or raises what it declares, so that it ends the peer's own connection only."""

import contextlib
import json
import socket
import ssl
import threading
import zlib

import h11
import pytest
from google.protobuf.message import DecodeError

from actors.probes.verdict import MESSAGE_LIMIT, verdict_of
from actors.sources.manifest import HTTP, Origin, read_pods
from api.errors import Failure, FailureKind, OperatingError, UnavailableError
from api.messages.kernel import Outcome
from api.ports.net import GrpcAnswer, GrpcHealth, HttpAnswer, HttpGet
from api.ports.runtime import ExecInContainer, ExecResult
from api.ports.urls import FetchManifests
from runtime.cli.client import VerbError
from runtime.cli.interactive import exit_code
from runtime.drivers.embedded.keeper.frame import FrameError, FrameReader, pack
from runtime.drivers.host.logs.containerlog import open_log
from runtime.drivers.host.manifests.yamltext import read_document
from runtime.drivers.net.httptext import GetExchange, MalformedError, Target, following
from runtime.drivers.net.tls import Tls
from runtime.drivers.net.url import UrlManifests
from runtime.net.spdy import frame as spdy
from runtime.net.spdy.header import SpdyError
from runtime.net.spdy.session import Session
from runtime.server.relay import read_answer
from runtime.server.view import Admin
from runtime.server.wire import Exchange, RequestRefusedError
from runtime.wire.generated import health_pb2 as pb
from runtime.wire.health import status_name
from tests.harness.mutation import mutated
from tests.harness.world.window import PlainLevels, PlainWindow


@contextlib.contextmanager
def received(data):
    """Return a socket on which `data` has come, and nothing more will."""
    near, far = socket.socketpair()
    with near, far:
        far.sendall(data)
        far.shutdown(socket.SHUT_WR)
        yield near


# ---------------------------------------------------------------- what is served

REQUESTS = (
    b"GET /healthz?verbose&exclude=kernel HTTP/1.1\r\nHost: 127.0.0.1:10248\r\nAccept: */*\r\n\r\n",
    b"GET /logs/default/loop/app?tail=2&timestamps=true HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET /actors/node/pods?n=10 HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET /explain/-/loop HTTP/1.0\r\n\r\n",
    b"DELETE /images?ref=docker.io%2Flibrary%2Fold:1 HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n",
    b'POST /exec/default/loop HTTP/1.1\r\nHost: x\r\nContent-Length: 22\r\nExpect: 100-continue\r\n\r\n{"command":["ls","x"]}',
    b"POST /images/gc?dry_run=true HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}",
    (b"GET /exec/default/loop/app?command=sh&command=-c&tty=true HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n"
    b"X-Stream-Protocol-Version: v4.channel.k8s.io\r\n\r\nearly"),
    (b"GET /exec/default/loop HTTP/1.1\r\nHost: x\r\nConnection: upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: dGhlIHNhbXBsZQ==\r\n"
    b"Sec-WebSocket-Version: 13\r\n\r\n\x81\x85\x37\xfa\x21\x3d\x7f\x9f\x4d\x51\x58"),
    b"POST /loglevels?path=/node&level=DEBUG HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n",
    b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n",
)  # fmt: skip


def request_head():
    def read(data):
        with received(data) as sock, contextlib.suppress(RequestRefusedError):
            Exchange(sock).read()

    return read


def admin_request():
    admin = Admin(PlainWindow(), open_log, PlainLevels(), now=lambda: 1030.0)

    def read(data):
        with received(data) as sock, contextlib.suppress(RequestRefusedError):
            request = Exchange(sock).read()
            if request is None:
                return
            Admin.is_long(request)
            response = admin(request)
            for held in (response.pieces, response.tunnel):
                if held is not None:
                    held.close()

    return read


# ---------------------------------------------------------------- what answers probes

ANSWERS = (
    b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
    b"HTTP/1.0 404 Not Found\r\ncontent-length:0\r\n\r\n",
    b"HTTP/1.1 204 No Content\r\nDate: today\r\n\r\n",
    b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 500 No\r\nContent-Length: 1\r\n\r\nx",
    b"HTTP/1.1 302 Found\r\nLocation: https://10.0.0.7:8443/a/../b?x=%20#y\r\nContent-Length: 0\r\n\r\n",
    b"HTTP/1.1 301 Moved\r\nLocation: //[fd00::1%25eth0]:80/\r\n\r\n",
    b"HTTP/1.1 200 OK\r\n\r\nuntil the end",
)
CHUNKED = (
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4;x=y\r\nwiki\r\n5\r\npedia\r\n0\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\nContent-Length: 3\r\n\r\n1\r\na\r\nA\r\n0123456789\r\n0\r\nTrailer: x\r\n\r\n",
    b"HTTP/1.1 503 No\r\ntransfer-encoding: chunked\r\n\r\n00000ff\r\n" + b"x" * 255 + b"\r\n0;last\r\n\r\n",
)  # fmt: skip


def http_answer():
    target = Target(scheme="http", host="10.0.0.7", port=80, path="/")

    def read(data):
        answer = GetExchange(target, (), 64)
        with contextlib.suppress(MalformedError):
            for at in range(0, len(data), 64):
                answer.feed(data[at : at + 64])
            answer.end()
        onward = following(target, answer.headers.get("location", ""))
        assert onward is None or onward.host == target.host
        assert len(answer.body) <= 64

    return read


# The server's hello of TLS 1.2 with a certificate that is none, an alert, data, and plain text.
RECORDS = (
    bytes.fromhex("160303003a020000360303" + "ab" * 32 + "00c02f00000eff0100010000170000000b00020100"),
    bytes.fromhex("160303007a020000760303" + "cd" * 32 + "20" + "ee" * 32 + "130100002e002b0002030400330024001d0020" + "77" * 32),
    bytes.fromhex("15030300020228"),
    bytes.fromhex("140303000101" + "1703030020" + "55" * 32),
    b"HTTP/1.1 400 Bad Request\r\n\r\n",
)  # fmt: skip


def tls_records():
    def read(data):
        tls = Tls("web.test", b"GET / HTTP/1.1\r\n\r\n")
        with contextlib.suppress(ssl.SSLError):
            tls.receive(data)
            tls.end()

    return read


HEALTH = tuple(pb.HealthCheckResponse(status=status).SerializeToString() + b"\x12\x03abc\x18\x07" for status in (0, 1, 2, 3))  # fmt: skip


def grpc_health():
    def read(data):
        with contextlib.suppress(DecodeError):
            assert len(status_name(pb.HealthCheckResponse.FromString(data).status)) < 30

    return read


BODIES = (b"ok", b"not found: \xff\x00\x1b[31m", "Fehler: ungültig ✗".encode() * 100, b"SERVING", b"")


def probe_answer():
    exec_ = ExecInContainer(uid="u", container_id="c", command=("x",), timeout_s=1.0)

    def read(data):
        text = data.decode("utf-8", "replace")
        unavailable = Failure(kind=FailureKind.UNAVAILABLE, message=text)
        for call, result, failure in (
            (HttpGet(host="h", port=1), HttpAnswer(status=zlib.crc32(data) % 1000, body=data), None),
            (GrpcHealth(host="h", port=1), GrpcAnswer(status=text), None),
            (GrpcHealth(host="h", port=1), None, unavailable),
            (exec_, ExecResult(exit_code=len(data) % 3, stdout=data, stderr=data), None),
            (exec_, None, unavailable),
        ):
            verdict = verdict_of(
                call, Outcome(op=1, call="", result=result, failure=failure, started_at=0.0, ended_at=0.0)
            )
            assert len(verdict.message) <= MESSAGE_LIMIT
            assert "\x1b" not in verdict.message

    return read


# ---------------------------------------------------------------- what comes from a URL

POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "web", "labels": {"app": "web"}},
    "spec": {
        "terminationGracePeriodSeconds": 30,
        "containers": [
            {
                "name": "app",
                "image": "a:1",
                "command": ["sh", "-c", "sleep 1"],
                "env": [{"name": "A", "value": "1"}],
                "ports": [{"containerPort": 80}],
                "resources": {"limits": {"cpu": "100m", "memory": "64Mi"}},
                "livenessProbe": {"httpGet": {"path": "/", "port": 80}},
            }
        ],
        "volumes": [{"name": "v", "emptyDir": {"sizeLimit": "1e3"}}],
    },
}
MANIFESTS = (
    json.dumps(POD).encode(),
    json.dumps({"apiVersion": "v1", "kind": "PodList", "items": [POD, POD]}).encode(),
    (b"apiVersion: v1\nkind: Pod\nmetadata: {name: web, annotations: &a {x: 'y'}}\nspec:\n  containers:\n  - name: app\n    image: a:1\n"
    b"    env:\n    - name: X\n      value: |\n        several\n        lines\n    resources:\n      limits: {cpu: 0.5, memory: 1_000}\n"),
    b"base: &b\n  x: 1\n  y: [~, yes, 0o17, .5, 2024-01-01]\nkind: Pod\nother:\n  <<: *b\n  z: !!str 5\n",
)  # fmt: skip


def url_body():
    origin = Origin(source=HTTP, where="http://h/x", shown="http://h/x", node_name="node")

    def read(data):
        document = read_document(data, "http://h/x")
        assert (document.json is None) == bool(document.problems)
        if document.json is not None:
            read_pods(document.json, origin)

    return read


def url_answer():
    """Answer each fetch with the next damaged bytes, over real connections."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=64)
    answers = []
    port = UrlManifests(read_document)
    call = FetchManifests(url=f"http://127.0.0.1:{listener.getsockname()[1]}/x")

    def serve():
        while True:
            try:
                sock, _ = listener.accept()
            except OSError:
                return
            with sock, contextlib.suppress(OSError):
                sock.recv(65536)
                sock.sendall(answers[-1])

    threading.Thread(target=serve, daemon=True).start()

    def read(data):
        answers[:] = [data]
        with contextlib.suppress(OperatingError):
            port.perform(call, 5.0)

    return contextlib.closing(listener), read


# ---------------------------------------------------------------- streams


def spdy_samples():
    encoder = spdy.Encoder()
    reply = spdy.SynReply(stream=1, headers=(("a", "b"),))
    frames = (
        spdy.SynStream(stream=2, headers=(("streamtype", "stdout"), ("port", "80"))),
        reply,
        spdy.Data(stream=1, data=b"hello"),
        spdy.Data(stream=2, data=b"x" * 100, finish=True),
        spdy.SettingsFrame(entries=((7, 1 << 20), (4, 100))),
        spdy.Ping(id=2),
        spdy.HeadersFrame(stream=1, headers=(("late", "yes"),)),
        spdy.WindowUpdate(stream=1, delta=500),
        spdy.WindowUpdate(stream=0, delta=1 << 20),
        spdy.RstStream(stream=2, status=5),
        spdy.GoAway(last=1, status=0),
    )
    whole = b"".join(encoder.encode(frame) for frame in frames)
    return (whole, spdy.Encoder().encode(reply), *(spdy.Encoder().encode(frame) for frame in frames[2:]))


def spdy_frames():
    def read(data):
        session = Session()
        stream = session.open((("streamtype", "stdin"),))
        session.send(stream, b"x" * 1000)
        with contextlib.suppress(SpdyError):
            session.receive(data)
        session.outgoing()

    return read


UPGRADES = (
    b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\nX-Stream-Protocol-Version: v4.channel.k8s.io\r\n\r\n\x80",
    b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n"
    b"Sec-WebSocket-Protocol: v5.channel.k8s.io\r\n\r\n\x82\x7e\x01\x00" + b"y" * 256,
    b"HTTP/1.1 404 Not Found\r\nContent-Length: 9\r\n\r\nnot found",
)  # fmt: skip


def streaming_answer():
    def read(data):
        with received(data) as sock, contextlib.suppress(UnavailableError):
            asked = h11.Request(method="POST", target="/", headers=[("Host", "x"), ("Upgrade", "SPDY/3.1")])
            http = h11.Connection(h11.CLIENT)
            http.send(asked)
            http.send(h11.EndOfMessage())
            headers = read_answer(http, sock, "127.0.0.1:1", "SPDY/3.1")
            # Nothing of it ends a line where it is passed on.
            assert not any(mark in word for pair in headers for word in pair for mark in ("\r", "\n", "\0"))

    return read


STATUSES = (
    b'{"metadata":{},"status":"Success"}',
    b'{"status":"Failure","details":{"causes":[{"reason":"ExitCode","message":"3"}]}}',
    b'{"status":"Failure","message":"no such container","reason":"NotFound","code":404}',
)


def exec_status():
    def read(data):
        with contextlib.suppress(VerbError):
            exit_code(data)

    return read


KEEPER = (
    pack({"hello": {"oldest": 1, "newest": 3, "sandbox": "ab", "pid": 7, "start": 1234}, "record": None}),
    pack({"record": {"boot": "b", "cgroups": [], "containers": [{"id": "x", "exit_code": 1}]}}) + pack({"id": 1, "ok": {}}),
    pack({"id": 2, "error": {"kind": "NotFound", "message": "no", "reason": ""}}),
)  # fmt: skip


def keeper_frames():
    def read(data):
        inbox = FrameReader()
        with contextlib.suppress(FrameError):
            for at in range(0, len(data), 500):
                assert all(isinstance(body, dict) for body in inbox.feed(data[at : at + 500]))

    return read


READERS = {
    "request head": (REQUESTS, request_head),
    "admin request": (REQUESTS, admin_request),
    "http answer": (ANSWERS, http_answer),
    "chunked answer": (CHUNKED, http_answer),
    "tls records": (RECORDS, tls_records),
    "grpc health": (HEALTH, grpc_health),
    "probe answer": (BODIES, probe_answer),
    "url body": (MANIFESTS, url_body),
    # Without redirects, which would lead out of this machine.
    "url answer": (tuple(one for one in (*ANSWERS, *CHUNKED) if b"Location" not in one), url_answer),
    "spdy frames": (spdy_samples(), spdy_frames),
    "streaming answer": (UPGRADES, streaming_answer),
    "exec status": (STATUSES, exec_status),
    "keeper frames": (KEEPER, keeper_frames),
}
FEW, MANY = 2000, 100_000


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("count", [FEW, pytest.param(MANY, marks=pytest.mark.slow)], ids=["few", "many"])
@pytest.mark.parametrize("name", READERS)
def test_a_reader_takes_damaged_input_or_raises_what_it_declares(name, count):
    samples, make = READERS[name]
    made = make()
    held, read = made if isinstance(made, tuple) else (contextlib.nullcontext(), made)
    with held:
        for number, data in enumerate((*samples, *mutated(count, samples, count))):
            try:
                read(data)
            except Exception as error:
                error.add_note(f"input {number} of {count}: {data[:2000]!r}")
                raise
