"""Commands with streams in tests: an admin socket in front of a real containerd, or of a small SPDY server of our own."""

import subprocess
import sys
import threading
from pathlib import Path

from runtime.drivers.host.containerlog import open_log
from runtime.drivers.http.endpoint import listen_unix
from runtime.drivers.http.server import Server
from runtime.drivers.http.view import Admin
from runtime.wire.generated import cri_pb2 as cri
from tests.harness.crilink import RUNTIME
from tests.harness.image import BUSYBOX_NAME
from tests.harness.wait import until
from tests.harness.window import PlainLevels, PlainWindow

REPOSITORY = Path(__file__).parents[2]


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
        return [sys.executable, "-m", "actors.main", "exec", "--socket", self.path, *words]

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
