"""Commands with streams in tests: an admin socket in front of a real containerd, or of a small SPDY server of our own."""

import contextlib
import json
import socket
import subprocess
import sys
import threading
from pathlib import Path

from runtime.drivers.host.logs.containerlog import open_log
from runtime.net.endpoint import listen_unix
from runtime.net.spdy.session import HalfClosed, Opened, Received, Session
from runtime.server.server import Server
from runtime.server.view import Admin
from runtime.wire.generated import cri_pb2 as cri
from tests.harness.cri.crilink import RUNTIME
from tests.harness.cri.image import BUSYBOX_NAME
from tests.harness.wait import until
from tests.harness.world.window import PlainLevels, PlainWindow

REPOSITORY = Path(__file__).parents[3]


class StreamWindow(PlainWindow):
    """A window whose commands with streams are found at the URL that `opener` returns."""

    def __init__(self, opener):
        super().__init__()
        self.opener = opener

    def open_exec(self, pod, container, command, *, tty, stdin, stdout, stderr):
        self.ran.append((pod, container, command, tty, stdin, stdout, stderr))
        return self.opener(command, tty=tty, stdin=stdin, stdout=stdout, stderr=stderr)


class Socket:
    """A served admin socket, and the command line against it."""

    def __init__(self, folder, opener):
        self.path = str(folder / "nodeagent.sock")
        self.window, self.bugs = StreamWindow(opener), []
        listener = listen_unix(self.path)
        self.server = Server(
            listener.sock,
            Admin(self.window, open_log, PlainLevels()),
            name="stream-admin",
            is_long=Admin.is_long,
            on_bug=lambda what, error: self.bugs.append((what, error)),
            close=listener.close,
        )
        self.server.start()

    def words(self, *words):
        """Return the command line of ``exec`` with these words."""
        return [sys.executable, "-m", "actors.agent.main", "exec", "--socket", self.path, *words]

    def exec(self, *words, data=b"", deadline_s=60.0):
        """Run ``exec`` with `data` as its input and return the completed process."""
        return subprocess.run(
            self.words(*words),
            input=data,
            capture_output=True,
            cwd=REPOSITORY,
            timeout=deadline_s,
            check=False,
        )

    def close(self):
        """Stop serving; fail when a relay is left, or a view failed."""
        self.server.stop()
        until(
            lambda: not [t for t in threading.enumerate() if t.name.startswith("stream-admin")],
            "no connection is left",
        )
        assert self.bugs == []


class BusyboxPod:
    """A pod with one container of busybox in a containerd, made without the agent's own client."""

    def __init__(self, runtime, name, script="while :; do sleep 1000; done"):
        self.link = runtime.link
        metadata = cri.PodSandboxMetadata(name=name, uid=f"uid-{name}", namespace="default")
        options = cri.NamespaceOption(network=cri.NODE)
        linux = cri.LinuxPodSandboxConfig(
            security_context=cri.LinuxSandboxSecurityContext(namespace_options=options)
        )
        config = cri.PodSandboxConfig(
            metadata=metadata, log_directory=str(runtime.folder / f"logs-{name}"), linux=linux
        )
        Path(config.log_directory).mkdir(parents=True)
        answer = self._call("RunPodSandbox", cri.RunPodSandboxRequest(config=config))
        self.sandbox = cri.RunPodSandboxResponse.FromString(answer).pod_sandbox_id
        container = cri.ContainerConfig(
            metadata=cri.ContainerMetadata(name="main"),
            image=cri.ImageSpec(image=BUSYBOX_NAME),
            command=["sh", "-c", script],
            log_path="main.log",
        )
        request = cri.CreateContainerRequest(
            pod_sandbox_id=self.sandbox, config=container, sandbox_config=config
        )
        answer = self._call("CreateContainer", request)
        self.container = cri.CreateContainerResponse.FromString(answer).container_id
        self._call("StartContainer", cri.StartContainerRequest(container_id=self.container))

    def open(self, command, **streams):
        """Return the URL of a command's streams."""
        request = cri.ExecRequest(container_id=self.container, cmd=list(command), **streams)
        return cri.ExecResponse.FromString(self._call("Exec", request)).url

    def remove(self):
        """Remove the pod."""
        self._call("StopPodSandbox", cri.StopPodSandboxRequest(pod_sandbox_id=self.sandbox))
        self._call("RemovePodSandbox", cri.RemovePodSandboxRequest(pod_sandbox_id=self.sandbox))

    def _call(self, method, request):
        return self.link.call(f"{RUNTIME}{method}", request.SerializeToString())


class SpdyServer:
    """A streaming endpoint of our own on loopback. What it runs is not a program: the words say what the "command" does.

    ``echo`` says what it hears until its input ends; ``exit N`` ends at once; ``fail TEXT`` cannot be run; ``cut`` loses
    the connection without a status; ``mute`` closes its outputs and says nothing more; ``size`` says each window size that it is told; ``flood N`` says N bytes.
    """

    def __init__(self):
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.requests, self.commands, self._conns = [], [], []
        self.refuse = b""
        """What it answers instead of switching."""
        self._thread = threading.Thread(target=self._accept, name="spdy-server", daemon=True)
        self._thread.start()

    def open(self, command, **streams):
        """Return the URL of a command's streams."""
        self.commands.append((command, streams))
        return f"http://127.0.0.1:{self.port}/exec/{len(self.commands) - 1}"

    def close(self):
        """End all connections and wait for their threads."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for conn in self._conns:
            with contextlib.suppress(OSError):
                conn.shutdown(socket.SHUT_RDWR)
        until(
            lambda: not [t for t in threading.enumerate() if t.name.startswith("spdy-server")],
            "the SPDY server has ended",
        )

    def _accept(self):
        while True:
            try:
                conn, _ = self._listener.accept()
            except OSError:
                return
            self._conns.append(conn)
            threading.Thread(target=self._serve, args=(conn,), name="spdy-server-conn", daemon=True).start()

    def _serve(self, conn):
        with conn, contextlib.suppress(OSError):
            data = b""
            while b"\r\n\r\n" not in data:
                data += conn.recv(65536) or b"\r\n\r\n"
            head, _, rest = data.partition(b"\r\n\r\n")
            self.requests.append(head.decode())
            if self.refuse:
                conn.sendall(self.refuse)
                return
            conn.sendall(
                b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n"
                b"X-Stream-Protocol-Version: v4.channel.k8s.io\r\nX-Secret: of the runtime\r\n\r\n"
            )
            command, streams = self.commands[int(head.split(b" ")[1].partition(b"?")[0].rpartition(b"/")[2])]
            Command(conn, command, streams).run(rest)


class Command:
    """One "command" of a `SpdyServer`."""

    def __init__(self, conn, command, streams):
        self.conn, self.command, self.session = conn, command, Session(server=True)
        self.kinds = {}
        wanted = {kind for kind in ("stdin", "stdout", "stderr") if streams[kind]}
        self.missing = {"error", *wanted, *(("resize",) if streams["tty"] else ())}
        self.over = False

    def run(self, data):
        while True:
            for event in self.session.receive(data):
                self._take(event)
            self.conn.sendall(self.session.outgoing())
            # Once its windows count, the client decides when the last byte has gone out.
            if self.over and not any(self.session.waiting(stream) for stream in self.kinds):
                return
            if not (data := self.conn.recv(65536)):
                return

    def _take(self, event):
        match event:
            case Opened(stream=stream, headers=headers):
                kind = dict(headers)["streamtype"]
                self.missing.remove(kind)
                self.kinds[stream] = kind
                self.session.reply(stream)
                if not self.missing:
                    self._begin()
            case Received(stream=stream, data=data):
                self.session.consumed(stream, len(data))
                echoed = {"echo": "stdin", "size": "resize"}.get(self.command[0])
                if self.kinds[stream] == echoed:
                    self._say("stdout", data)
            case HalfClosed(stream=stream) if self.kinds[stream] == "stdin" and self.command[0] not in {
                "size",
                "mute",
            }:
                self._end({"status": "Success"})

    def _begin(self):
        match self.command:
            case ("exit", code):
                self._say("stderr", b"bye\n")
                cause = {"reason": "ExitCode", "message": code}
                self._end({"status": "Failure", "reason": "NonZeroExitCode", "details": {"causes": [cause]}})
            case ("fail", why):
                self._end({"status": "Failure", "reason": "InternalError", "message": why})
            case ("flood", size):
                self._say("stdout", bytes(int(size)))
                self._end({"status": "Success"})
            case ("cut",):
                self.over = True
            case ("mute",):
                for stream, kind in self.kinds.items():
                    if kind in {"stdout", "stderr"}:
                        self.session.finish(stream)

    def _say(self, kind, data):
        for stream, found in self.kinds.items():
            if found == kind:
                self.session.send(stream, data)

    def _end(self, status):
        self._say("error", json.dumps(status).encode())
        for stream, kind in self.kinds.items():
            if kind in {"stdout", "stderr", "error"}:
                self.session.finish(stream)
        self.over = True
