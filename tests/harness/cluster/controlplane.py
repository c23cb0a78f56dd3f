"""A private control plane: etcd and kube-apiserver on loopback, with certificates and kubeconfigs of its own.

```python
plane = ControlPlane(folder, assets()).start()
Agent(folder / "agent", kubeconfig=plane.node_kubeconfig("node1"))
plane.pause(); plane.resume()             # it takes connections and answers nothing
plane.kill9(); plane.start()              # on the same data and ports
plane.clean_up()
```

No controller manager and no scheduler run unless they are asked for: the default ServiceAccount of a namespace and the node of a pod
are for the test to set.
"""

import contextlib
import json
import os
import random
import shutil
import signal
import socket
import ssl
import subprocess
import urllib.request
from pathlib import Path

import pytest

from tests.harness.cluster.authority import Authority, signing_key
from tests.harness.part import need
from tests.harness.wait import until

PROGRAMS = ("etcd", "kube-apiserver")
CONTROLLERS = ("kube-controller-manager", "kube-scheduler")
ASSETS = ("KUBERNETES_ASSETS", "KUBEBUILDER_ASSETS")
"""Variables that name a folder with the programs; the first one that is set counts."""
ISSUER = "https://kubernetes.default.svc"
READY = ("/readyz", "/api/v1/namespaces/default", "/api/v1/namespaces/kube-node-lease")
"""What must answer: the server makes its namespaces some time after it calls itself ready."""
PORTS = range(20_000, 32_000)
"""Below those that the kernel gives to connections."""


def assets(*more: str) -> Path:
    """Return the folder of the programs; skip the test when there is none, or none with `more` programs."""
    need("openssl")
    named = next(((name, os.environ[name]) for name in ASSETS if os.environ.get(name)), None)
    if named is None:
        pytest.skip(
            f"needs a control plane: {' or '.join(ASSETS)} names a folder with {' and '.join(PROGRAMS)}"
        )
    name, folder = named
    absent = [program for program in PROGRAMS if not os.access(f"{folder}/{program}", os.X_OK)]
    assert not absent, f"{name}={folder}: there is no {' and no '.join(absent)}"
    lacking = [program for program in more if not os.access(f"{folder}/{program}", os.X_OK)]
    if lacking:
        pytest.skip(f"needs {' and '.join(lacking)} in the folder that {name} names")
    return Path(folder)


class ControlPlane:
    """One API server with its etcd; all that it makes lies below its folder."""

    def __init__(self, folder: Path, programs: Path, *, controllers: bool = False) -> None:
        """`controllers`: with controller manager and scheduler, which must be among the programs."""
        self._running = (*PROGRAMS, *CONTROLLERS) if controllers else PROGRAMS
        self.folder = folder.resolve()
        self.folder.mkdir(parents=True, exist_ok=True)
        self._programs = programs
        self._etcd_port, self._peer_port, self.port, *self._more_ports = _free_ports(5)
        self.server = f"https://127.0.0.1:{self.port}"
        self.authority = Authority(self.folder / "pki")
        self._serving = self.authority.issue(
            "serving", "kube-apiserver", addresses="IP:127.0.0.1,DNS:localhost"
        )
        self._admin = self.authority.issue("admin", "admin", "system:masters")
        self._signing_key = signing_key(self.folder / "pki" / "service-account.key")
        self.admin_kubeconfig = self._kubeconfig("admin", self._admin)
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    # life

    def start(self) -> "ControlPlane":
        """Start both and wait until the API server is ready."""
        assert not any(process.poll() is None for process in self._processes.values()), "it runs already"
        for name in PROGRAMS:
            self._run(name, self.flags(name))
        until(self._is_ready, "the API server is ready", 60.0, self._last_words, every_s=0.1)
        for name in self._running[len(PROGRAMS) :]:
            self._run(name, self.flags(name))
        return self

    def stop(self) -> None:
        """End both in order."""
        for name in reversed(self._running):
            self._end(name, signal.SIGTERM)

    def kill9(self) -> None:
        """Kill both without a word."""
        for name in reversed(self._running):
            self._end(name, signal.SIGKILL)

    def pause(self) -> None:
        """Stop the API server from doing anything: the kernel takes connections, no one answers."""
        process = self._processes["kube-apiserver"]
        process.send_signal(signal.SIGSTOP)

        def stands() -> bool:
            threads = Path(f"/proc/{process.pid}/task").iterdir()
            return all((one / "stat").read_text().rpartition(") ")[2][0] == "T" for one in threads)

        until(stands, "each thread of the API server stands")

    def resume(self) -> None:
        """Let it go on."""
        self._processes["kube-apiserver"].send_signal(signal.SIGCONT)

    def clean_up(self) -> None:
        """End both, also when they are paused or do not end by themselves."""
        self.kill9()

    def program(self, name: str) -> str:
        """Return one of the programs of its folder, or of the path; skips the test when there is none."""
        found = shutil.which(name, path=f"{self._programs}:{os.defpath}")
        if found is None:
            pytest.skip(f"needs {name} in {self._programs} or on the path")
        return found

    # identities

    def node_kubeconfig(self, node: str) -> Path:
        """Return the kubeconfig of a node's own identity, made at the first call."""
        path = self.folder / f"{node}.kubeconfig"
        if path.exists():
            return path
        return self._kubeconfig(node, self.authority.issue(node, f"system:node:{node}", "system:nodes"))

    def _kubeconfig(self, name: str, issued) -> Path:
        return self.kubeconfig_of(
            name, {"client-certificate": str(issued.cert), "client-key": str(issued.key)}
        )

    def kubeconfig_of(self, name: str, user: dict) -> Path:
        """Write a kubeconfig of this name for a user, as its entry in the file says; return its path."""
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [
                {
                    "name": "test",
                    "cluster": {"server": self.server, "certificate-authority": str(self.authority.cert)},
                }
            ],
            "users": [{"name": name, "user": user}],
            "contexts": [{"name": name, "context": {"cluster": "test", "user": name}}],
            "current-context": name,
        }
        path = self.folder / f"{name}.kubeconfig"
        path.write_text(json.dumps(content, indent=1))
        return path

    # processes

    def flags(self, name: str) -> list[str]:
        """Return the words after the name of one of its programs."""
        match name:
            case "etcd":
                return self._etcd_flags()
            case "kube-apiserver":
                return self._server_flags()
            case _:
                return self._controller_flags(name, self._more_ports[CONTROLLERS.index(name)])

    def _etcd_flags(self) -> list[str]:
        client, peer = (f"http://127.0.0.1:{port}" for port in (self._etcd_port, self._peer_port))
        # A flag of some versions, in the help of none.
        known = b"unsafe-no-fsync" in (self._programs / "etcd").read_bytes()
        return [
            f"--data-dir={self.folder / 'etcd'}",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
            *(["--unsafe-no-fsync"] if known else []),
        ]

    def _server_flags(self) -> list[str]:
        return [
            f"--etcd-servers=http://127.0.0.1:{self._etcd_port}",
            "--bind-address=127.0.0.1",
            f"--secure-port={self.port}",
            f"--cert-dir={self.folder / 'apiserver'}",
            f"--tls-cert-file={self._serving.cert}",
            f"--tls-private-key-file={self._serving.key}",
            f"--client-ca-file={self.authority.cert}",
            # Loopback is no address that an Endpoints may hold.
            "--endpoint-reconciler-type=none",
            "--authorization-mode=Node,RBAC",
            "--enable-admission-plugins=NodeRestriction",
            "--allow-privileged=true",
            "--enable-bootstrap-token-auth=true",
            "--service-cluster-ip-range=10.96.0.0/16",
            f"--service-account-issuer={ISSUER}",
            f"--service-account-key-file={self._signing_key}",
            f"--service-account-signing-key-file={self._signing_key}",
            f"--api-audiences={ISSUER}",
        ]

    def _controller_flags(self, name: str, port: int) -> list[str]:
        flags = [
            f"--kubeconfig={self.admin_kubeconfig}",
            "--bind-address=127.0.0.1",
            f"--secure-port={port}",
            "--leader-elect=false",
        ]
        if name == "kube-scheduler":
            return flags
        return [
            *flags,
            f"--service-account-private-key-file={self._signing_key}",
            f"--root-ca-file={self.authority.cert}",
            "--node-monitor-grace-period=3m",
        ]

    def _run(self, name: str, flags: list[str]) -> None:
        with self._log(name).open("ab") as output:
            self._processes[name] = subprocess.Popen(
                [self._programs / name, *flags],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd=self.folder,
                env={"PATH": os.defpath, "HOME": str(self.folder)},
                start_new_session=True,
            )

    def _end(self, name: str, number: signal.Signals) -> None:
        process = self._processes.pop(name, None)
        if process is None:
            return
        with process:
            process.send_signal(number)
            process.send_signal(signal.SIGCONT)
            try:
                process.wait(20.0)
            except subprocess.TimeoutExpired:
                process.kill()

    def _is_ready(self) -> bool:
        for name, process in self._processes.items():
            assert process.poll() is None, f"{name} ended with {process.returncode}\n{self._last_words()}"
        context = ssl.create_default_context(cafile=str(self.authority.cert))
        context.load_cert_chain(self._admin.cert, self._admin.key)
        try:
            for path in READY:
                with urllib.request.urlopen(f"{self.server}{path}", timeout=5.0, context=context):
                    pass
        except OSError:
            return False
        return True

    def _log(self, name: str) -> Path:
        return self.folder / f"{name}.log"

    def _last_words(self) -> str:
        logs = [self._log(name) for name in self._running if self._log(name).exists()]
        return "\n".join(f"{log.name}: ...{log.read_text(errors='replace')[-2000:]}" for log in logs)


def _free_ports(count: int) -> list[int]:
    """Return ports of loopback on which no one listens."""
    found: list[int] = []
    for port in random.sample(PORTS, len(PORTS)):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            found.append(port)
        if len(found) == count:
            break
    return found
