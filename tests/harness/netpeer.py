"""Servers in this process for probes and hooks to talk to: plain sockets that say one thing, and gRPC health."""

from __future__ import annotations

import contextlib
import shutil
import socket
import ssl
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest

from runtime.wire.generated import health_pb2 as pb


class HttpPeer:
    """Answers every request with the same bytes, counts connections, keeps requests.

    An answer of None never comes; one that is a function returns the pieces, which are sent for as long as anyone reads.
    """

    def __init__(self, answer, *, tls=None, host="127.0.0.1"):
        self.answer = answer
        self.requests = []
        self.answered_at = []
        """Monotonic instants of the answers."""
        self.connections = 0
        self._tls = tls
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._listener = socket.create_server((host, 0), family=family, backlog=512)
        self.port = self._listener.getsockname()[1]
        self._open = []
        threading.Thread(target=self._serve, name="peer", daemon=True).start()

    def _serve(self):
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            threading.Thread(target=self._talk, args=(sock,), daemon=True).start()

    def _talk(self, sock):
        self._open.append(sock)
        with contextlib.ExitStack() as left, contextlib.suppress(OSError, ValueError):
            left.enter_context(sock)
            if self._tls is not None:
                sock = left.enter_context(self._tls.wrap_socket(sock, server_side=True))
                self._open.append(sock)
            request = b""
            # What is no text is a handshake of TLS, which a plain server answers as it answers any nonsense.
            while b"\r\n\r\n" not in request and request[:1] != b"\x16":
                data = sock.recv(4096)
                if not data:
                    return
                request += data
            self.requests.append(request)
            if self.answer is None:
                sock.recv(1)
                return
            self.answered_at.append(time.monotonic())
            for piece in self.answer() if callable(self.answer) else (self.answer,):
                sock.sendall(piece)
            # The end of a connection that is shut down in order reaches the peer after the data.
            sock.shutdown(socket.SHUT_WR)

    def close(self):
        """Stop listening and drop every connection."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for sock in self._open:
            with contextlib.suppress(OSError):
                sock.close()


class GrpcPeer:
    """A gRPC server whose health service knows these services; None: it has no such service."""

    def __init__(self, serving):
        self.serving = dict(serving or {})
        self.unknown = "unknown service"
        self._server = grpc.server(ThreadPoolExecutor(4))
        handler = grpc.unary_unary_rpc_method_handler(
            self._check,
            request_deserializer=pb.HealthCheckRequest.FromString,
            response_serializer=pb.HealthCheckResponse.SerializeToString,
        )
        service = grpc.method_handlers_generic_handler("grpc.health.v1.Health", {"Check": handler})
        if serving is not None:
            self._server.add_generic_rpc_handlers((service,))
        self.port = self._server.add_insecure_port("127.0.0.1:0")
        self._server.start()

    def _check(self, request, context):
        status = self.serving.get(request.service)
        if status is None:
            context.abort(grpc.StatusCode.NOT_FOUND, self.unknown)
        return pb.HealthCheckResponse(status=status)

    def close(self):
        """Stop."""
        self._server.stop(0).wait(10)


def saying(status, body=b""):
    """Return the bytes of a whole answer."""
    return f"HTTP/1.1 {status} Something\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


def certificate(folder):
    """Return a context with a self-made certificate."""
    if shutil.which("openssl") is None:
        pytest.skip("needs the openssl command (Debian package openssl) to make a certificate")
    pem = folder / "own.pem"
    if not pem.exists():
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
             "-subj", "/CN=somebody.else", "-days", "2", "-keyout", str(pem), "-out", f"{pem}.crt"],
            check=True,
            capture_output=True,
        )  # fmt: skip
        pem.write_text(pem.read_text() + (folder / "own.pem.crt").read_text())
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem)
    return context
