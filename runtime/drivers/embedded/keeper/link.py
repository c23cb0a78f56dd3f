"""The connections of drivers to a keeper: who may come, what arrives, and what is still to be sent."""

from __future__ import annotations

import contextlib
import errno
import os
import selectors
import socket
import time
from collections.abc import Callable

from runtime.drivers.embedded.keeper.frame import MAX_REQUEST_BYTES, Body, FrameReader, pack, peer_uid
from runtime.drivers.embedded.keeper.loop import KeeperLoop

MAX_UNSENT_BYTES = 32 << 20
"""A driver that leaves so much unread is hung: its connection is dropped."""
GOODBYE_S = 1.0
ACCEPT_PAUSE_S = 1.0
"""Pause of accepting after this process had no free descriptor: the listener stays readable meanwhile."""


class DriverConnection:
    """One driver's connection."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.inbox = FrameReader(MAX_REQUEST_BYTES)
        self.unsent = bytearray()
        sock.setblocking(False)


class Links:
    """All drivers of one keeper. Nothing here blocks, except the goodbye."""

    def __init__(
        self,
        loop: KeeperLoop,
        greeting: Callable[[], Body],
        answer: Callable[[DriverConnection, Body], None],
        left_alone: Callable[[], None],
    ) -> None:
        self._loop = loop
        self._greeting = greeting
        self._answer = answer
        self._left_alone = left_alone
        self._links: list[DriverConnection] = []

    def listen(self, name: str) -> None:
        """Let drivers in at a socket of this name, which only its owner may open."""
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listener.bind(name)
        os.chmod(name, 0o600)  # noqa: PTH101
        listener.listen(8)
        listener.setblocking(False)
        self._let_in(listener)

    def greet(self, sock: socket.socket) -> None:
        """Begin to talk to a driver."""
        link = DriverConnection(sock)
        self._links.append(link)
        self._loop.watch(sock, lambda mask: self._serve(link, mask))
        self.send(link, self._greeting())

    def send(self, link: DriverConnection, body: Body) -> None:
        """Send an object to a driver, which may have gone."""
        if link in self._links:
            self._push(link, pack(body))

    def send_all(self, body: Body) -> None:
        """Send an object to every driver."""
        frame = pack(body)
        for link in list(self._links):
            self._push(link, frame)

    def say_goodbye(self) -> None:
        """Send what is still unsent, and wait a little for those who are slow to read it."""
        for link in self._links:
            link.sock.settimeout(GOODBYE_S)
            with contextlib.suppress(OSError):
                link.sock.sendall(link.unsent)

    def _let_in(self, listener: socket.socket) -> None:
        self._loop.watch(listener, lambda _: self._accept(listener))

    def _accept(self, listener: socket.socket) -> None:
        try:
            sock, _ = listener.accept()
        except OSError as error:
            if error.errno not in (errno.EAGAIN, errno.ECONNABORTED):
                self._loop.forget(listener)
                self._loop.at(time.monotonic() + ACCEPT_PAUSE_S, lambda: self._let_in(listener))
            return
        if peer_uid(sock) not in (0, os.geteuid()):
            sock.close()
            return
        self.greet(sock)

    def _serve(self, link: DriverConnection, mask: int) -> None:
        if mask & selectors.EVENT_WRITE:
            self._flush(link)
        if not mask & selectors.EVENT_READ or link not in self._links:
            return
        bodies = link.inbox.receive(link.sock)
        if bodies is None:
            self._drop(link)
            return
        for body in bodies:
            self._answer(link, body)

    def _push(self, link: DriverConnection, frame: bytes) -> None:
        link.unsent += frame
        self._flush(link)

    def _flush(self, link: DriverConnection) -> None:
        try:
            while link.unsent:
                del link.unsent[: link.sock.send(link.unsent)]
        except BlockingIOError:
            pass
        except OSError:
            self._drop(link)
            return
        if len(link.unsent) > MAX_UNSENT_BYTES:
            self._drop(link)
            return
        self._loop.watch_for(link.sock, selectors.EVENT_READ | (selectors.EVENT_WRITE if link.unsent else 0))

    def _drop(self, link: DriverConnection) -> None:
        if link not in self._links:
            return
        self._links.remove(link)
        self._loop.forget(link.sock)
        link.sock.close()
        if not self._links:
            self._left_alone()
