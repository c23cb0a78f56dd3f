"""The drivers of the port ``net`` that the suite holds to `api.ports.net`, and peers for each to talk to."""

import contextlib
import socket
import threading
import time
from abc import ABC, abstractmethod

from api.ports.net import GrpcHealth, HttpGet, TcpConnect
from api.ports.port import Port
from runtime.drivers.memory.net import MemoryNet, Peer
from runtime.drivers.net.network import Network
from tests.harness.netpeer import GrpcPeer, HttpPeer, certificate

HOST = "127.0.0.1"


class NetBench(ABC):
    """A driver, and the hands that put peers up."""

    port: Port

    @abstractmethod
    def listen(self, peer: Peer) -> int:
        """Put up a peer and return its port."""

    @abstractmethod
    def nobody(self) -> int:
        """Return a port where nobody listens."""

    @abstractmethod
    def close(self) -> None:
        """Take everything down."""


class RealTimers:
    """Real clocks, each alarm on a thread of its own."""

    now = staticmethod(time.monotonic)
    wall = staticmethod(time.time_ns)

    def call_at(self, at, then):
        timer = threading.Timer(max(0.0, at - time.monotonic()), then)
        timer.daemon = True
        timer.start()
        return timer.cancel


class MemoryBench(NetBench):
    def __init__(self, _folder):
        self.port = self.net = MemoryNet(RealTimers())
        self._next = 1000

    def listen(self, peer):
        self._next += 1
        self.net.listen(HOST, self._next, peer)
        return self._next

    def nobody(self):
        return 1

    def close(self):
        self.net.disconnect()


class RealBench(NetBench):
    def __init__(self, folder):
        self._folder = folder
        self.port = self.network = Network()
        self._peers = contextlib.ExitStack()

    def listen(self, peer):
        if peer.dark:
            return self._dark()
        if peer.grpc:
            server = GrpcPeer(dict(peer.serving))
        else:
            head = f"HTTP/1.1 {peer.status} Something\r\nContent-Length: {len(peer.body)}\r\n"
            if peer.location:
                head += f"Location: {peer.location}\r\n"
            answer = None if peer.deaf else head.encode() + b"\r\n" + peer.body
            server = HttpPeer(answer, tls=certificate(self._folder) if peer.tls else None)
        self._peers.callback(server.close)
        return server.port

    def _dark(self):
        """Fill a listener's queue, so that the kernel drops what comes after."""
        listener = socket.create_server((HOST, 0), backlog=0)
        self._peers.callback(listener.close)
        for _ in range(4):
            sock = socket.socket()
            sock.setblocking(False)
            sock.connect_ex(listener.getsockname())
            self._peers.callback(sock.close)
        return listener.getsockname()[1]

    def nobody(self):
        with socket.create_server((HOST, 0)) as sock:
            return sock.getsockname()[1]

    def close(self):
        self.network.close()
        self._peers.close()


DRIVERS = {"memory": MemoryBench, "real": RealBench}
CALLS = {
    "http": lambda port, timeout_s: HttpGet(host=HOST, port=port, timeout_s=timeout_s),
    "tcp": lambda port, timeout_s: TcpConnect(host=HOST, port=port, timeout_s=timeout_s),
    "grpc": lambda port, timeout_s: GrpcHealth(host=HOST, port=port, timeout_s=timeout_s),
}
