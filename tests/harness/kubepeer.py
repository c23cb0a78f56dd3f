"""An API server in this process that speaks HTTP/2 or HTTP/1 over TLS and answers as a test says, faults included."""

import contextlib
import socket
import ssl
import subprocess
import threading
from dataclasses import dataclass, field

import h2.config
import h2.connection
import h2.errors
import h2.events
import h2.exceptions
import hyperframe.frame

from tests.harness.part import need


@dataclass
class Asked:
    """One request, and the way to answer it."""

    connection: "PeerConnection"
    stream: int
    method: str
    target: str
    headers: dict[str, str]
    body: bytes = b""
    was_reset: threading.Event = field(default_factory=threading.Event)

    def answer(self, status=200, body=b"", *, media="application/json", end=True, headers=()):
        """Send head and body, and the end unless more follows."""
        self.connection.head(self.stream, status, media, headers)
        self.say(body, end=end)

    def say(self, body, *, end=False):
        """Send more of the body."""
        self.connection.data(self.stream, body, end=end)


class PeerConnection:
    """One connection: reads frames on a thread of its own; a body waits for the client's window."""

    MAY_ASK_AT_ONCE = 100

    def __init__(self, peer, sock):
        self.peer, self.sock = peer, sock
        self.lock = threading.RLock()
        self.moved = threading.Condition(self.lock)
        self.h2 = h2.connection.H2Connection(
            h2.config.H2Configuration(client_side=False, header_encoding="utf-8")
        )
        self.h2.local_settings.max_concurrent_streams = self.MAY_ASK_AT_ONCE
        self.h2.local_settings.acknowledge()
        self.asked = {}
        self.pings = 0
        self.gone = threading.Event()

    def serve(self):
        with contextlib.suppress(OSError, ValueError, h2.exceptions.H2Error):
            with self.lock:
                self.h2.initiate_connection()
                self.flush()
            while data := self.sock.recv(65536):
                with self.lock:
                    for event in self.h2.receive_data(data):
                        self.take(event)
                    if not self.peer.silent:
                        self.flush()
                    self.moved.notify_all()
        self.gone.set()

    def take(self, event):
        match event:
            case h2.events.RequestReceived(stream_id=stream, headers=headers):
                fields = dict(headers)
                self.asked[stream] = Asked(self, stream, fields[":method"], fields[":path"], fields)
            case h2.events.DataReceived(stream_id=stream, data=data):
                self.asked[stream].body += data
                self.h2.acknowledge_received_data(event.flow_controlled_length, stream)
            case h2.events.StreamEnded(stream_id=stream):
                self.peer.requests.append(self.asked[stream])
                threading.Thread(target=self.answer, args=(self.asked[stream],), daemon=True).start()
            case h2.events.StreamReset(stream_id=stream):
                self.asked[stream].was_reset.set()
            case h2.events.PingReceived():
                self.pings += 1

    def answer(self, asked):
        # A client that has heard enough resets the stream.
        with contextlib.suppress(h2.exceptions.H2Error, OSError):
            self.peer.handle(asked)

    def head(self, stream, status, media, headers=()):
        with self.lock:
            self.h2.send_headers(stream, [(":status", str(status)), ("content-type", media), *headers])
            self.flush()

    def data(self, stream, body, *, end):
        body = memoryview(body)
        with self.lock:
            while True:
                size = min(len(body), self.h2.local_flow_control_window(stream), 16384)
                if size or not body:
                    self.h2.send_data(stream, bytes(body[:size]), end_stream=end and size == len(body))
                    self.flush()
                    body = body[size:]
                    if not body:
                        return
                elif not self.moved.wait(10.0):
                    raise TimeoutError("the client opened no window")

    def go_away(self, last=None):
        with self.lock:
            self.h2.close_connection(last_stream_id=last)
            self.flush()

    def retire(self, last=2**31 - 1):
        """Say that no further request is taken, and go on with those up to `last`, as an API server that is shut down."""
        frame = hyperframe.frame.GoAwayFrame(0, last_stream_id=last)
        with self.lock:
            self.sock.sendall(frame.serialize())

    def refuse(self, stream):
        """Take a request not on."""
        with self.lock:
            self.h2.reset_stream(stream, h2.errors.ErrorCodes.REFUSED_STREAM)
            self.flush()

    def flush(self):
        self.sock.sendall(self.h2.data_to_send())

    def drop(self):
        with contextlib.suppress(OSError):
            self.sock.shutdown(socket.SHUT_RDWR)


class KubePeer:
    """Calls `handle` with each request, on a thread of its own."""

    def __init__(self, folder, handle, *, protocol="h2"):
        self.handle, self.requests, self.connections = handle, [], []
        self.silent = False
        """Reads, and answers nothing, not even a ping."""
        self.ca = make_certificate(folder)
        self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._tls.load_cert_chain(folder / "server.pem")
        self._tls.set_alpn_protocols([protocol])
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.server = f"https://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._greet, args=(sock,), daemon=True).start()

    def _greet(self, sock):
        with contextlib.suppress(OSError):
            sock = self._tls.wrap_socket(sock, server_side=True)
            connection = PeerConnection(self, sock)
            self.connections.append(connection)
            connection.serve()
        sock.close()

    def close(self):
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for connection in self.connections:
            connection.drop()


def make_certificate(folder):
    """Make a certificate for the loopback address, its own authority; return it as PEM."""
    need("openssl")
    pem, cert = folder / "server.pem", folder / "server.crt"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
         "-subj", "/CN=api", "-addext", "subjectAltName=IP:127.0.0.1", "-days", "2",
         "-keyout", str(pem), "-out", str(cert)],
        check=True,
        capture_output=True,
    )  # fmt: skip
    pem.write_text(pem.read_text() + cert.read_text())
    return cert.read_bytes()
