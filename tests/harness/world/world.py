"""The world of one seed: virtual time, a runtime, a disk, manifests and a web server; and the agent that lives in it.

The agent is built by `assemble`, the function that `nodeagent run` uses; only drivers and executor differ. It is killed
and started again in the same world: what it keeps, it keeps in the ledger.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import msgspec
from msgspec.structs import replace

from actors.agent.assembly import Parts, assemble
from actors.eviction.state import CROSSINGS
from actors.oom.state import OOMS
from api.config.cluster import ClusterSettings
from api.config.settings import Settings
from api.ids import Path, Uid
from api.messages import Message
from api.ports.images import PullImage, RemoveImage
from api.ports.ledger import Forget, Recall, RecallAll
from api.ports.node import NodeFacts
from api.ports.port import Done, Undo
from api.ports.runtime import (
    CreateContainer,
    InspectPod,
    RemoveContainer,
    RemoveSandbox,
    RunSandbox,
    RuntimeContainerState,
    StartContainer,
    StopContainer,
    StopSandbox,
    UpdateContainer,
)
from api.ports.volumes import HostKind, RemoveVolumes
from runtime.drivers.memory.call import Latency
from runtime.drivers.memory.cgroup import MemoryCgroups
from runtime.drivers.memory.credential import MemoryCredentials
from runtime.drivers.memory.host import MemoryLedger, MemoryManifests, MemoryUrls
from runtime.drivers.memory.logs import MemoryLogFiles
from runtime.drivers.memory.net import MemoryNet
from runtime.drivers.memory.node import MemoryNode
from runtime.drivers.memory.podfolder import MemoryPodFolders
from runtime.drivers.memory.runtime import MemoryRuntime
from runtime.drivers.memory.stream import MemoryStream
from runtime.drivers.memory.volume import MemoryVolumes
from runtime.kernel.sim import SimSystem, VirtualTime
from tests.harness.check.pace import Pace
from tests.harness.eviction.evictionrule import draw_policy
from tests.harness.world.apiserver import KUBECONFIG, ApiServer
from tests.harness.world.fault import Seam
from tests.harness.world.kernelrule import Kernel
from tests.harness.world.noderule import Machine
from tests.harness.world.probescript import Answers
from tests.harness.world.scarceusage import ScarceDisk, ScarceUsage
from tests.harness.world.scarcity import Scarcity
from tests.harness.world.scarcityseed import scarce_settings
from tests.harness.world.usagerule import DrawnUsage
from tests.harness.world.workload import FOLDER, NODE, REGISTRY, URL

LOG_ROOT = "/var/log/pods"
MUTATING = (
    RunSandbox,
    StopSandbox,
    RemoveSandbox,
    CreateContainer,
    StartContainer,
    StopContainer,
    RemoveContainer,
    UpdateContainer,
)
FACTS = NodeFacts(
    name=NODE,
    ips=("10.0.0.7",),
    log_root=LOG_ROOT,
    confined=True,
    memory_bytes=16 << 30,
    allocatable_cpu_milli=4000,
    allocatable_memory_bytes=16 << 30,
    cgroup_version=2,
    pod_cgroups=True,
    pod_pids_limit=1000,
    cpu_milli=4000,
    max_pids=32768,
)
"""Of a node whose runtime confines containers."""
CLUSTER_FACTS = {"ephemeral_bytes": 100 << 30, "allocatable_ephemeral_bytes": 90 << 30}
"""What a Node must have beside them to be ready."""
LATENCY = Latency(effect_s=(0.0, 0.15), pull_s=(0.2, 25.0), reply_s=(0.0, 0.1), event_s=(0.0, 0.3))
FETCHABLE = {row.id for row in REGISTRY}


class WatchedRuntime(MemoryRuntime):
    """A memory runtime that notes when two kinds of change of one pod are under way side by side."""

    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)
        self.overlaps: list[str] = []
        self.updates = 0
        """How often a container was confined otherwise."""
        self.vanishes: Callable[[], bool] = lambda: False
        """Whether the image of the container that is being made vanishes right before."""
        self.ignores: Callable[[msgspec.Struct], bool] = lambda _call: False
        """Whether a call is answered as done and not carried out."""
        self.pace = Pace()
        self._under_way: dict[int, object] = {}
        self._changes = 0

    def begin(self, call: msgspec.Struct, deadline_s: float, done: Done) -> Undo:
        """Start a call, noting an overlap."""
        if not isinstance(call, MUTATING):
            return super().begin(call, deadline_s, done)
        if isinstance(call, CreateContainer) and call.spec.image in FETCHABLE and self.vanishes():
            self.remove_image(call.spec.image)
        uid = call.spec.uid if isinstance(call, RunSandbox) else call.uid
        self.pace.note(uid, call, self._timers.now())
        for other in self._under_way.values():
            other_uid = other.spec.uid if isinstance(other, RunSandbox) else other.uid
            if other_uid == uid and type(other) is not type(call):
                self.overlaps.append(f"pod {uid}: {call.brief()} began while {other.brief()} was under way")
        self._changes += 1
        number = self._changes
        self._under_way[number] = call

        def ended(result: msgspec.Struct | None, failure: object) -> None:
            self._under_way.pop(number, None)
            self.updates += isinstance(call, UpdateContainer)
            done(result, failure)

        carried_out = InspectPod(uid=uid) if self.ignores(call) else call
        return super().begin(carried_out, deadline_s, ended)

    def disconnect(self) -> None:
        """Forget the agent and what it waited for."""
        self._under_way.clear()
        super().disconnect()


class WatchedImages:
    """The images of a memory runtime; notes equal pulls side by side."""

    name = "images"

    def __init__(self, runtime: MemoryRuntime) -> None:
        self._images = runtime.images
        self.doubles: list[str] = []
        """Pulls that began beside another one of the same image with the same credentials."""
        self.on_removal: Callable[[RemoveImage], None] = lambda _call: None
        """Is shown each removal of an image as it is asked for."""
        self._fetching: dict[tuple[str, object], int] = {}

    def begin(self, call: msgspec.Struct, deadline_s: float, done: Done) -> Undo:
        """Start a call, noting a pull that is under way already."""
        if isinstance(call, RemoveImage):
            self.on_removal(call)
        if not isinstance(call, PullImage):
            return self._images.begin(call, deadline_s, done)
        key = (call.image, call.auth)
        if self._fetching.get(key):
            self.doubles.append(call.brief())
        self._fetching[key] = self._fetching.get(key, 0) + 1

        def ended(result: msgspec.Struct | None, failure: object) -> None:
            self._fetching[key] -= 1
            done(result, failure)

        return self._images.begin(call, deadline_s, ended)

    def disconnect(self) -> None:
        """Forget the agent and what it waited for."""
        self._fetching.clear()


class WatchedVolumes(MemoryVolumes):
    """Memory volumes that note when they are removed while a container of their pod runs."""

    def __init__(self, runtime: MemoryRuntime) -> None:
        super().__init__()
        self._runtime = runtime
        self.torn: list[str] = []

    def perform(self, call: msgspec.Struct, deadline_s: float) -> msgspec.Struct:
        """Carry out a call, noting what it tears from under a container."""
        if isinstance(call, RemoveVolumes):
            alive = [
                c.name
                for c in self._runtime._world.pod(call.uid).containers
                if c.state is RuntimeContainerState.RUNNING
            ]
            if alive:
                self.torn.append(f"the volumes of pod {call.uid} are removed while {alive} run")
        return super().perform(call, deadline_s)


class WatchedLedger(MemoryLedger):
    """A memory ledger that tells which pods were wholly forgotten."""

    def __init__(self, *, seed: int, forgotten: Callable[[Uid, str], None]) -> None:
        super().__init__(seed=seed)
        self._forgotten = forgotten

    def perform(self, call: msgspec.Struct, deadline_s: float) -> msgspec.Struct:
        """Carry out a call; a damaged page that is read is set aside, which forgets its pod too."""
        lost = [
            (Uid(key), section)
            for section, key in sorted(self._damaged)
            if section in ("pods", "status")
            and isinstance(call, Recall | RecallAll)
            and call.section == section
            and (not call.only_look if isinstance(call, RecallAll) else call.key == key)
        ]
        result = super().perform(call, deadline_s)
        for uid, section in lost:
            self._forgotten(uid, section)
        if isinstance(call, Forget) and call.section == "pods":
            self._forgotten(Uid(call.key), call.section)
        return result

    def read(self, section: str) -> dict[Uid, bytes]:
        """Return the entries of a section as the next agent will recall them."""
        return {
            Uid(key): data
            for (found, key), data in sorted(self._now.items())
            if found == section and (found, key) not in self._damaged
        }


class World:
    """Everything that outlives the agent, and the agent."""

    def __init__(
        self,
        seed: int,
        *,
        with_url: bool,
        complete_listings: bool = True,
        call_deadline_s: float = 120.0,
        latency: Latency = LATENCY,
        scarcity: Scarcity | None = None,
        in_cluster: bool = False,
        see: Callable[[Path, Message], None] = lambda _path, _message: None,
        on_step: Callable[[], None] = lambda: None,
        forgotten: Callable[[Uid, str], None] = lambda _uid, _section: None,
    ) -> None:
        self.seed = seed
        self.time = VirtualTime(seed)
        self.answers = Answers(seed, self.time.now)
        self.runtime = WatchedRuntime(
            self.time,
            seed=seed,
            latency=latency,
            complete_listings=complete_listings,
            registry=REGISTRY,
            exec_behave=self.answers.command,
            disk=ScarceDisk(scarcity) if scarcity is not None else None,
        )
        self.images = WatchedImages(self.runtime)
        self.ledger = WatchedLedger(seed=seed, forgotten=forgotten)
        self.logfiles = MemoryLogFiles(LOG_ROOT, self.runtime.files)
        self.cgroups = MemoryCgroups()
        self.folders = MemoryPodFolders(LOG_ROOT, logs=self.logfiles)
        self.volumes = WatchedVolumes(self.runtime)
        self.volumes.put("/srv", HostKind.FOLDER)
        self.manifests = MemoryManifests()
        self.urls = MemoryUrls()
        self.net = MemoryNet(self.time, seed=seed, peers=self.answers.peer, takes_s=(0.0, 0.05))
        self.scarcity = scarcity
        self.api = ApiServer(self.time, seed, NODE) if in_cluster else None
        self.usage = (
            DrawnUsage(self.time, seed) if scarcity is None else ScarceUsage(self.time, seed, scarcity)
        )
        self.runtime.usage = self.usage
        self.crossings = MemoryStream(CROSSINGS)
        self.ooms = MemoryStream(OOMS)
        self.settings = Settings(
            root_dir="/var/lib/nodeagent",
            node_name=NODE,
            cluster=ClusterSettings(kubeconfig=KUBECONFIG) if in_cluster else ClusterSettings(),
            pod_manifest_path=FOLDER,
            manifest_url=URL if with_url else "",
            file_check_s=20.0,
            http_check_s=20.0,
            sync_s=60.0,
            runtime_endpoint="memory",
            image_endpoint="memory",
            runtime_request_timeout_s=call_deadline_s,
            pod_logs_dir=LOG_ROOT,
            # So little that the first line of a container is rotated away.
            log_max_size_bytes=20,
            max_pods=110,
            max_container_backoff_s=300.0,
            healthz_address="127.0.0.1",
            healthz_port=0,
            fail_cgroup_v1=False,
            log_format="text",
            verbosity=0,
            allow_host_image=True,
            image_pulls_at_once=Random(f"{seed}/pulls").choice((1, 2, None)),
            # A pull that hangs for ever is to be over before a seed is.
            image_pull_deadline_s=200.0,
            eviction=draw_policy(seed),
        )
        if scarcity is not None:
            scarcity.attach(self.runtime, self.volumes, self.time.now)
            self.settings = scarce_settings(scarcity, self.settings)
        facts = replace(FACTS, **CLUSTER_FACTS) if in_cluster else FACTS
        self.node = MemoryNode(facts)
        self.parts = Parts(
            runtime=self.runtime,
            runtime_events=self.runtime.events,
            images=self.images,
            manifests=self.manifests,
            manifest_changes=self.manifests.changes,
            urls=self.urls,
            ledger=self.ledger,
            podfiles=self.folders,
            logfiles=self.logfiles,
            cgroups=self.cgroups,
            node=self.node,
            facts=facts,
            volumes=self.volumes,
            credentials=MemoryCredentials(),
            net=self.net,
            usage=self.usage,
            memory_crossings=self.crossings,
            kernel_ooms=self.ooms,
            node_ip="10.0.0.7",
            cluster=self.api.parts() if self.api is not None else None,
        )
        self.system: SimSystem | None = None
        self.seam: Seam | None = None
        self.trace: Callable[[str], None] | None = None
        self.damaged: set[Uid] = set()
        """Pods of which a page in the ledger was damaged: how they ended may be known to nobody."""
        self.stopping = False
        """Whether the agent stops in good order just now."""
        self.lives = 0
        self.started_at = 0.0
        """When this life of the agent began."""
        self.handled = 0
        self.see = see
        self._on_step = on_step
        self.kernel = Kernel(self)
        self.machine = Machine(self)
        self.latency_random = Random(f"{seed}/world")

    # ------------------------------------------------------------ the agent

    def start(self) -> None:
        """Start the agent, its first or another life."""
        self.lives += 1
        self.started_at = self.time.now()
        self.runtime.pace.begin()
        self.system = SimSystem(
            self.seed, time=self.time, interceptor=self.seam, trace_log=self.trace, on_step=self._on_step
        )
        assemble(self.system, self.settings, self.parts)

    def kill(self) -> None:
        """Kill the agent as SIGKILL does; what it asked the runtime for goes on."""
        system = self.system
        if system is None or system.halted:
            return
        self.handled += system.summarize_actors().handled
        system.halt()
        self.runtime.disconnect()
        self.images.disconnect()
        self.net.disconnect()
        for stream in (self.manifests.changes, self.crossings, self.ooms):
            stream.forget_listeners()
        if self.api is not None:
            self.api.kube.forget_listeners()

    def stop(self) -> tuple[Path, ...]:
        """Stop the agent as SIGTERM does; return who did not stop in time."""
        system = self.system
        assert system is not None
        self.stopping = True
        overdue = system.shutdown(10.0)
        self.stopping = False
        self.kill()
        return overdue

    @property
    def alive(self) -> bool:
        """Tell whether the agent runs."""
        return self.system is not None and not self.system.halted

    # ------------------------------------------------------------ time

    def run_until(self, at: float) -> None:
        """Let the world go on until `at`; ends early when the agent dies or gives up."""
        if not self.alive:
            self.idle_until(at)
            return
        assert self.system is not None
        self.system.run_until(at)

    def idle_until(self, at: float) -> None:
        """Let the world go on without an agent."""
        while (due := self.time.next_at()) is not None and due <= at:
            self.time.fire_next()
            self._on_step()
        self.time.advance(at)

    def reboot(self) -> None:
        """Cut the machine's power: the agent dies, containers end, what was not written durably may be lost."""
        self.kill()
        self.ledger.full = False
        self.ledger.lose_power()
        self.runtime.reboot()
        self.volumes.reboot()
