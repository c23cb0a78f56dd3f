"""A private containerd: its own root, state, socket, network and images, and the proof that nothing of it is left.

```python
runtime = Containerd(folder).start()      # pause and busybox are there
Agent(folder / "agent", containerRuntimeEndpoint=runtime.endpoint, cgroupRoot=runtime.cgroup_root)
runtime.kill9(); runtime.start()          # pods run on under their shims
runtime.clean_up()
```

All that it makes lies below its folder, except: a folder for its socket (a socket's path may have 107 bytes), a bridge,
and a number, held as a name among the abstract sockets, from which bridge, addresses and cgroup root are made.
"""

import contextlib
import ctypes
import ipaddress
import itertools
import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
from pathlib import Path

import grpc

from tests.harness.agent.usage import read
from tests.harness.cri.crilink import CriLink
from tests.harness.cri.image import PAUSE_NAME, Image, archive, busybox, pause
from tests.harness.part import CNI_PLUGINS, SEARCH_PATH, containerd_folder
from tests.harness.wait import until

NAMESPACE = "k8s.io"
CGROUPS = Path("/sys/fs/cgroup")
CNI_CACHE = Path("/var/lib/cni")
NETWORKS = 128
"""How many instances a machine may have: each has 1,022 addresses of 198.18.0.0/15, which is set aside for tests."""
MNT_DETACH = 2

CONFIG = """\
version = 2
root = {root}
state = {state}
temp = {temp}
disabled_plugins = [
  "io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.devmapper",
  "io.containerd.snapshotter.v1.zfs", "io.containerd.snapshotter.v1.blockfile", "io.containerd.nri.v1.nri",
  "io.containerd.internal.v1.tracing", "io.containerd.tracing.processor.v1.otlp",
]
[grpc]
address = {socket}
[plugins."io.containerd.internal.v1.opt"]
path = {opt}
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "{pause}"
restrict_oom_score_adj = true
netns_mounts_under_state_dir = true
{cri}
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "{plugins}"
conf_dir = {network}
[plugins."io.containerd.grpc.v1.cri".containerd]
snapshotter = "{snapshotter}"
{handlers}
"""

HANDLER = """\
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.{name}]
runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.{name}.options]
Root = {root}
"""


class Containerd:
    """One containerd. `bin_folder` holds its program and its shim: see `containerd_folder`."""

    def __init__(
        self,
        folder: Path,
        bin_folder: str = "",
        *,
        cri: str = "",
        handlers: tuple[str, ...] = ("runc",),
        images: tuple[Image, ...] | None = None,
        addresses: int = 0,
    ) -> None:
        """Its network has so many addresses for pods, all of its own where `addresses` is 0."""
        self.folder = folder.resolve()
        self.folder.mkdir(parents=True, exist_ok=True)
        self.bin_folder = bin_folder or containerd_folder("1.6")
        self._short = Path(tempfile.mkdtemp(prefix="na-"))
        self.socket = str(self._short / "c.sock")
        self.endpoint = f"unix://{self.socket}"
        self.root, self.state = self.folder / "root", self.folder / "state"
        self.log = self.folder / "containerd.log"
        self.number, self._claim = _claim_number()
        self.bridge = f"nalab{self.number}"
        self.subnet = f"198.{18 + self.number // 64}.{self.number % 64 * 4}.0/22"
        self.cgroup_root = f"/nalab{self.number}"
        """For the agent's ``cgroupRoot``: removed by `clean_up` with everything below it."""
        self.process: subprocess.Popen[bytes] | None = None
        self.link = CriLink(self.socket)
        self.cleaned = False
        self._images = (pause(), busybox()) if images is None else images
        self._seen: set[str] = set()
        self._shim_sockets: set[str] = set()
        self._ports: set[str] = set()
        self._configure(cri, handlers, addresses)

    # life

    def start(self) -> "Containerd":
        """Start it and wait until it answers; the first start brings the images."""
        assert self.process is None or self.process.poll() is not None, "it runs already"
        with self.log.open("ab") as output:
            self.process = subprocess.Popen(
                [f"{self.bin_folder}/containerd", "--config", self.folder / "config.toml"],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=self._environment(),
                start_new_session=True,
            )
        until(self._is_up, "containerd answers", 30.0, self._last_words)
        if self._images:
            self.add_images(*self._images)
            self._images = ()
        return self

    def stop(self) -> None:
        """End it; its pods run on under their shims."""
        self._end(signal.SIGTERM)

    def kill9(self) -> None:
        """Kill it without a word; its pods run on under their shims."""
        self._end(signal.SIGKILL)

    def power_off(self) -> None:
        """Kill it, its shims and all containers without a word, as a machine does that loses its power."""
        self._remember()
        containers, shims = self._container_pids(), self.shims()
        self.kill9()
        for pid in (*shims, *containers):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        until(lambda: not self.shims() and not self._container_pids(), "all are dead", 20.0)

    def restart(self) -> None:
        """End it and start it again."""
        self.stop()
        self.start()

    def pause(self) -> None:
        """Stop it from doing anything: its socket takes connections and never answers."""
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on."""
        assert self.process is not None
        self.process.send_signal(signal.SIGCONT)

    @property
    def pid(self) -> int:
        """Return its process id."""
        assert self.process is not None
        return self.process.pid

    # images

    def add_images(self, *images: Image) -> None:
        """Import images and wait until the runtime shows them."""
        self.ctr("images", "import", "-", data=archive(*images))
        names = {image.name for image in images}

        def shown() -> bool:
            return names <= set(itertools.chain(*self.link.images().values()))

        until(shown, f"the images {sorted(names)} are shown", 20.0, self._last_words)

    def ctr(self, *words: str, data: bytes = b"", deadline_s: float = 60.0) -> str:
        """Run containerd's own client with these words and return what it printed."""
        done = subprocess.run(
            [f"{self.bin_folder}/ctr", "-a", self.socket, "-n", NAMESPACE, *words],
            input=data,
            capture_output=True,
            env=self._environment(),
            timeout=deadline_s,
            check=False,
        )
        assert done.returncode == 0, f"ctr {' '.join(words)}: {done.stderr.decode()}"
        return done.stdout.decode()

    # what there is of it on the machine

    def shims(self) -> list[int]:
        """Return the pids of its shims: they name its socket."""
        mark = self.socket.encode()
        found = []
        for pid in _pids():
            words = read(f"/proc/{pid}/cmdline").split(b"\0")
            if b"containerd-shim" in words[0] and mark in words:
                found.append(pid)
        return found

    def remains(self) -> list[str]:
        """Return all that is left on the machine of it and its pods, one line each."""
        left = [f"shim {pid}" for pid in self.shims()]
        left += [f"process {pid} of a container" for pid in self._container_pids()]
        left += [f"mount {path}" for path in self._mounts()]
        left += [f"interface {name}" for name in sorted({self.bridge, *self._ports}) if _has_interface(name)]
        left += [f"cgroup {path}" for path in self._cgroups()]
        left += [f"record of the network {path}" for path in self._network_records()]
        left += [f"socket {path}" for path in sorted(self._shim_sockets) if Path(path).exists()]
        left += [f"iptables rule {line}" for line in self._rules()]
        return left

    def remove_pods(self) -> None:
        """Remove every pod, bringing it back up when it does not answer; raises grpc.RpcError or AssertionError."""
        if self._runs():
            self.resume()
        else:
            self.start()
        if not self.link.is_ready():
            self._end(signal.SIGKILL)
            self.start()
        self._remember()
        self.link.remove_pods()
        with contextlib.suppress(AssertionError):
            until(lambda: not self.shims(), "no shim is left", 5.0)
        self._end_forgotten_shims()
        until(lambda: not self.shims(), "no shim is left", 20.0, self._last_words)
        # Nobody listens there any more: containerd forgets the socket of a shim that was killed.
        for path in self._shim_sockets:
            Path(path).unlink(missing_ok=True)

    def _end_forgotten_shims(self) -> None:
        """End shims of sandboxes that containerd does not know.

        It forgets the shim of a RunPodSandbox whose client went away in the middle, as an agent does that is killed.
        """
        if self.link.sandboxes() or self.link.containers():
            return
        for pid in self.shims():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def clean_up(self) -> None:
        """Remove every pod and all that was made, then fail if that did not go as it should."""
        trouble = ""
        if self.process is not None:
            self._remember()
            try:
                self.remove_pods()
            except (grpc.RpcError, AssertionError) as error:
                trouble = f"the pods could not be removed: {error}\n{self._last_words()}"
            self._end(signal.SIGTERM if self._runs() else signal.SIGKILL)
        self.link.close()
        if _has_interface(self.bridge):
            subprocess.run(["ip", "link", "delete", self.bridge], env=self._environment(), check=False)
        self._remove_cgroup_root()
        if not trouble:
            # A network namespace, and with it a port of the bridge, goes a moment after its last user.
            with contextlib.suppress(AssertionError):
                until(lambda: not self.remains(), "nothing is left", 5.0)
        left = self.remains()
        if left:
            self._force()
            trouble += f"left by containerd: {left}; and after all was removed by force: {self.remains()}"
        shutil.rmtree(self._short, ignore_errors=True)
        shutil.rmtree(self.root, ignore_errors=True)
        shutil.rmtree(self.state, ignore_errors=True)
        self._claim.close()
        self.cleaned = True
        assert not trouble, trouble

    # within

    def _configure(self, cri: str, handlers: tuple[str, ...], addresses: int) -> None:
        quoted = {
            name: json.dumps(str(self.folder / name)) for name in ("root", "state", "temp", "opt", "network")
        }
        runc = json.dumps(str(self.folder / "runc"))
        text = CONFIG.format(
            **quoted,
            socket=json.dumps(self.socket),
            pause=PAUSE_NAME,
            plugins=CNI_PLUGINS,
            snapshotter=_snapshotter(self.folder),
            cri=cri,
            handlers="".join(HANDLER.format(name=name, root=runc) for name in handlers),
        )
        (self.folder / "config.toml").write_text(text)
        (self.folder / "temp").mkdir(exist_ok=True)
        (self.folder / "network").mkdir(exist_ok=True)
        pool = {"subnet": self.subnet}
        if addresses:
            # The first one is the bridge's own.
            first = ipaddress.ip_network(self.subnet)[2]
            pool |= {"rangeStart": str(first), "rangeEnd": str(first + addresses - 1)}
        bridge = {
            "type": "bridge",
            "bridge": self.bridge,
            "isGateway": True,
            "hairpinMode": True,
            "ipam": {
                "type": "host-local",
                "dataDir": str(self.folder / "addresses"),
                "ranges": [[pool]],
                "routes": [{"dst": "0.0.0.0/0"}],
            },
        }
        network = {"cniVersion": "0.4.0", "name": self.bridge, "plugins": [bridge]}
        (self.folder / "network" / "10-bridge.conflist").write_text(json.dumps(network))

    def _environment(self) -> dict[str, str]:
        # Its own folder comes first, so that it takes the shim that belongs to it.
        return {
            "PATH": f"{self.bin_folder}:{SEARCH_PATH}",
            "TMPDIR": str(self.folder / "temp"),
            "HOME": str(self.folder),
        }

    def _runs(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def _is_up(self) -> bool:
        assert self._runs(), f"containerd ended:\n{self._last_words()}"
        return self.link.is_ready()

    def _last_words(self) -> str:
        return self.log.read_text(errors="replace")[-3000:] if self.log.exists() else ""

    def _end(self, number: int) -> None:
        self._remember()
        if self.process is None:
            return
        # One that a test stopped would not hear.
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(signal.SIGCONT)
        self.process.send_signal(number)
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(20)

    def _remember(self) -> None:
        """Note what only shows while it is there: ids, the shims' sockets, the bridge's ports."""
        bundles = self.state / "io.containerd.runtime.v2.task" / NAMESPACE
        for bundle in _entries(bundles):
            self._seen.add(bundle.name)
            address = read(str(bundle / "address")).decode()
            if address.startswith("unix://"):
                self._shim_sockets.add(address.removeprefix("unix://"))
        self._ports |= {port.name for port in _entries(Path(f"/sys/class/net/{self.bridge}/brif"))}

    def _container_pids(self) -> list[int]:
        names = [name.encode() for name in self._seen]
        return [pid for pid in _pids() if any(name in read(f"/proc/{pid}/cgroup") for name in names)]

    def _mounts(self) -> list[str]:
        below = (f"{self.folder}/", f"{self._short}/")
        lines = Path("/proc/self/mountinfo").read_text().splitlines()
        return [path for line in lines if (path := line.split(" ")[4]).startswith(below)]

    def _cgroups(self) -> list[Path]:
        names = {*self._seen, self.cgroup_root.lstrip("/")}
        return [Path(at) / name for at, folders, _ in os.walk(CGROUPS) for name in folders if name in names]

    def _network_records(self) -> list[Path]:
        found = [path for folder in ("results", "cache/results") for path in _entries(CNI_CACHE / folder)]
        return [path for path in found if any(name in path.name for name in self._seen)]

    def _rules(self) -> list[str]:
        tool = shutil.which("iptables-save", path=SEARCH_PATH)
        lines = (
            subprocess.run([tool], capture_output=True, text=True, check=True).stdout.splitlines()
            if tool
            else []
        )
        network = self.subnet.partition("/")[0].rpartition(".")[0]
        return [line for line in lines if self.bridge in line or f"{network}." in line]

    def _remove_cgroup_root(self) -> None:
        name = self.cgroup_root.lstrip("/")
        for hierarchy in [CGROUPS, *_entries(CGROUPS)]:
            for at, _, _ in os.walk(hierarchy / name, topdown=False):
                with contextlib.suppress(OSError):
                    Path(at).rmdir()

    def _force(self) -> None:
        """Take away what orderly removal left, so that a failed test does not spoil the next."""
        for pid in [*self.shims(), *self._container_pids()]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(AssertionError):
            until(lambda: not self.shims() and not self._container_pids(), "all are dead", 5.0)
        for path in sorted(self._mounts(), key=len, reverse=True):
            _unmount(path)
        for path in sorted(self._cgroups(), key=lambda path: len(path.parts), reverse=True):
            for at, _, _ in os.walk(path, topdown=False):
                with contextlib.suppress(OSError):
                    Path(at).rmdir()
        for path in [*self._network_records(), *(Path(p) for p in self._shim_sockets)]:
            path.unlink(missing_ok=True)
        with contextlib.suppress(AssertionError):
            until(lambda: not self.remains(), "nothing is left", 5.0)


def _claim_number() -> tuple[int, socket.socket]:
    """Return a number that no other instance on this machine has, and what holds it until it is closed."""
    for number in range(NETWORKS):
        holder = socket.socket(socket.AF_UNIX)
        try:
            holder.bind(f"\0nodeagent-lab-{number}")
        except OSError:
            holder.close()
            continue
        if not _has_interface(f"nalab{number}"):
            return number, holder
        # A killed test run left its bridge: what else it left is not known, so its number stays unused.
        holder.close()
    raise AssertionError(
        f"all {NETWORKS} networks for tests are in use on this machine: ip link shows them as nalab"
    )


def _has_interface(name: str) -> bool:
    return Path(f"/sys/class/net/{name}").exists()


def _entries(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []


def _pids() -> list[int]:
    return [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]


def _snapshotter(folder: Path) -> str:
    """Return the way to store images: layers cannot be laid over each other on what is itself made of such layers."""
    best, kind = "", ""
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        fields = line.split(" ")
        inside = fields[4] == "/" or f"{folder}/".startswith(f"{fields[4]}/")
        if inside and len(fields[4]) >= len(best):
            best, kind = fields[4], fields[fields.index("-") + 1]
    return "native" if kind == "overlay" else "overlayfs"


def _unmount(path: str) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.umount2(os.fsencode(path), MNT_DETACH)
