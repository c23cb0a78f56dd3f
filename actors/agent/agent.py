"""The agent as a whole on the real world: drivers, actors, admin socket, health port; started and stopped in order."""

import gc
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path as FilePath
from typing import Protocol

from msgspec.structs import replace

from actors.agent.assembly import Parts, assemble, pod_groups
from actors.agent.cluster import ClusterParts, connect
from actors.cgroups.tree import reserved_groups
from actors.rules.resources.cgrouppath import reserved_path
from actors.views.asked import AskedPorts
from actors.views.view import AgentView
from api.config.settings import EMBEDDED, Settings
from api.decoding import from_json
from api.errors import Failure, OperatingError, RejectedError
from api.faults import FaultPlan
from api.ports.cgroups import EnsureNodeCgroups, NodeCgroupsMade
from api.ports.node import NodeFacts
from api.ports.port import BlockingPort, Port, Stream
from api.ports.urls import shown_url
from runtime.cli.location import socket_path
from runtime.drivers.host.cgroups.cgroup import PodCgroups
from runtime.drivers.host.credential import NodeCredentialFiles
from runtime.drivers.host.kernel.kernelevent import KernelEvents
from runtime.drivers.host.kernel.kernellog import KernelLog
from runtime.drivers.host.kernel.memoryevent import MemoryCrossings
from runtime.drivers.host.ledger import FileLedger
from runtime.drivers.host.logs.containerlog import open_log
from runtime.drivers.host.logs.logfile import LogFiles
from runtime.drivers.host.manifests.inotify import ManifestChanges
from runtime.drivers.host.manifests.manifest import FileManifests
from runtime.drivers.host.node.node import NodeDescriber
from runtime.drivers.host.podfiles.podfolder import PodFolderDriver
from runtime.drivers.host.usage.usage import UsageReader
from runtime.drivers.host.volumes.volume import Volumes
from runtime.drivers.net.network import Network
from runtime.edge import perform
from runtime.kernel.intercept import FaultInterceptor
from runtime.kernel.pooled import PooledSystem
from runtime.logs import LEVELS, log_factory
from runtime.net.address import host_address
from runtime.net.endpoint import listen_tcp, listen_unix
from runtime.process import (
    FAULTS,
    RootLock,
    faults_file,
    has_cgroup_v2,
    home_folder,
    kill_self,
    lacks_room,
    prepare_root,
    raise_open_files,
    set_umask,
)
from runtime.server.health import health_answer
from runtime.server.server import Server
from runtime.server.view import Admin
from runtime.trust import read_regular

CGROUP_DEADLINE_S = 30.0
STOP_S = 1.0
"""How long the actors may take to stop; what hangs longer is named and left."""


class Agent:
    """One running agent. `start` raises an `OperatingError` of one line for any missing part."""

    def __init__(self, settings: Settings, node_ip: str = "", *, injects_faults: bool = False) -> None:
        self._settings, self._node_ip = settings, node_ip
        self._injects_faults = injects_faults
        self._log = log_factory("")
        self._undo: list[Callable[[], None]] = []
        self.system: PooledSystem | None = None
        self.view: AgentView | None = None

    def start(self) -> None:
        """Start all parts; stop those already started when a later one fails."""
        try:
            self._start()
        except BaseException:
            self._unwind()
            raise

    def _start(self) -> None:
        settings = self._settings
        if settings.fail_cgroup_v1 and not has_cgroup_v2():
            raise RejectedError(
                "failCgroupV1: this machine has no cgroup version 2; boot it with unified cgroups, or set failCgroupV1"
                " to false"
            )
        plan = self._plan()
        faults = planned_faults(plan)
        root = self._root_dir()
        before, open_files = raise_open_files()
        runtime = container_runtime(
            root, settings, self._node_ip, before, partial(self._bug, "runtime callback failed")
        )
        self._undo.append(runtime.close)
        own_root = own_cgroup_root(root, settings)
        cgroups = PodCgroups(own_root=own_root)
        self._undo.append(cgroups.close)
        settings = replace(settings, cgroup_root=own_root) if own_root else settings
        network = Network(partial(self._bug, "conversation failed"))
        self._undo.append(network.close)
        events = KernelEvents()
        self._undo.append(events.close)
        cluster = self._cluster(settings)
        parts = real_parts(root, settings, runtime, cgroups, self._node_ip, network, events, cluster)
        enforce_reservations(cgroups, parts.facts)
        # Both listeners are made before any pod is touched: a second agent or a used port changes nothing here.
        listener = listen_unix(socket_path(str(root)))
        self._undo.append(listener.close)
        health = (
            listen_tcp(settings.healthz_address, settings.healthz_port) if settings.healthz_port else None
        )
        if health is not None:
            self._undo.append(health.close)
        if faults is not None:
            self._log.warning(
                "fault injection is on",
                plan=plan,
                faults=len(faults.plan.faults),
            )
        system = PooledSystem(log=log_factory, interceptor=faults)
        self._undo.append(partial(self._stop_actors, system))
        asked = AskedPorts(
            runtime=partial(perform, runtime),
            images=partial(perform, runtime.images),
            streams=partial(perform, runtime.streams),
        )
        view = AgentView(system, time.monotonic, time.time_ns, asked, breaks=plan)
        admin = Admin(view, open_log, LEVELS)
        view_failed = partial(self._bug, "view failed")
        servers = [
            Server(
                listener.sock,
                admin,
                name="admin",
                is_long=Admin.is_long,
                on_bug=view_failed,
                close=listener.close,
            )
        ]
        if health is not None:
            servers.append(Server(health, health_answer(view), name="healthz", limit=16, on_bug=view_failed))
        assemble(system, settings, parts)
        for server in servers:
            server.start()
            self._undo.append(server.stop)
        self.system, self.view = system, view
        # What was loaded by now stays: the collector need not walk through all of it again and again.
        gc.collect()
        gc.freeze()
        url = settings.manifest_url
        self._log.info(
            "agent started",
            node=settings.node_name,
            runtime=settings.runtime_endpoint,
            root=str(root),
            manifests=settings.pod_manifest_path or (url and shown_url(url)),
        )
        self._log_file_limit(open_files)

    def _root_dir(self) -> FilePath:
        """Return the root directory, made and locked."""
        set_umask()
        root = prepare_root(FilePath(self._settings.root_dir))
        self._undo.append(RootLock.acquire(root).release)
        full = lacks_room(root)
        if full:
            self._log.warning(
                "the root directory is full: statuses and records are not written until space is free",
                root=str(root),
                why=full,
            )
        return root

    def _cluster(self, settings: Settings) -> ClusterParts | None:
        """Return the drivers of the API server, None for an agent on its own, which need not spend the memory."""
        if not settings.cluster.kubeconfig:
            return None
        return connect(
            settings,
            partial(self._bug, "conversation with the API server failed"),
            lambda what: self._log.warning("object of the API server ignored", what=what),
            self._identity_renewed,
            self._undo,
        )

    def _identity_renewed(self, failure: Failure | None) -> None:
        if failure is None:
            self._log.info("identity for the API server was read again")
        else:
            self._log.warning(
                "identity for the API server cannot be read again, the last one stays in use",
                why=failure.message,
            )

    def _plan(self) -> str:
        """Return the file with a plan of faults, empty for none; without the flag the environment's is not heeded."""
        path = faults_file()
        if path and not self._injects_faults:
            self._log.warning(
                f"{FAULTS} is set and ignored", what_to_do="unset it, or give --enable-fault-injection"
            )
            return ""
        return path

    def _log_file_limit(self, open_files: int) -> None:
        """Log how many pods this agent can hold: on the embedded runtime each pod costs it a descriptor."""
        settings = self._settings
        if settings.runtime_endpoint != EMBEDDED:
            self._log.info("open file limit", open_files=open_files)
            return
        from runtime.drivers.embedded.descriptor import pods_at_most  # noqa: PLC0415

        room = pods_at_most(open_files)
        tell = self._log.info if room >= settings.max_pods else self._log.warning
        tell("open file limit", open_files=open_files, pods_at_most=room, max_pods=settings.max_pods)

    def failure(self) -> str:
        """Return why the actor system is past saving, empty while it is not."""
        failed = self.system.failed if self.system is not None else None
        return failed.message if failed is not None else ""

    def stop(self) -> None:
        """Stop everything in reverse order; pods keep running."""
        self._unwind()
        self._log.info("agent stopped, pods keep running")

    def _unwind(self) -> None:
        while self._undo:
            self._undo.pop()()

    def _stop_actors(self, system: PooledSystem) -> None:
        for path in system.shutdown(STOP_S):
            self._log.warning("actor did not stop in time", actor=path)

    def _bug(self, text: str, what: str, error: BaseException) -> None:
        self._log.error(text, what=what, error=type(error).__name__)


def planned_faults(path: str) -> FaultInterceptor | None:
    """Return the fault injector for the plan in `path`, None for no path. Raises `RejectedError`."""
    if not path:
        return None
    try:
        return FaultInterceptor(from_json(read_regular(path), FaultPlan), on_kill=kill_self)
    except (OperatingError, ValueError) as error:
        raise RejectedError(
            f"{FAULTS}: cannot read the plan of faults: {error}; unset it to run normally"
        ) from None


class ContainerRuntime(Port, Protocol):
    """What the agent needs of a container runtime's drivers: it is the port ``runtime`` itself, and has the others."""

    @property
    def images(self) -> Port:
        """Return the port ``images``."""
        ...

    @property
    def streams(self) -> Port:
        """Return the port ``streams``."""
        ...

    @property
    def events(self) -> Stream:
        """Return the stream ``runtime.events``."""
        ...

    def close(self) -> None:
        """Let go of it; pods run on."""
        ...


def container_runtime(
    root: FilePath,
    settings: Settings,
    node_ip: str,
    open_files: int,
    on_bug: Callable[[str, Exception], None],
) -> ContainerRuntime:
    """Return the driver of the runtime that the settings name. One that is away is no error: it may come later.

    `open_files` is the soft limit of open files that containers of the embedded runtime have.
    """
    if settings.runtime_endpoint == EMBEDDED:
        from runtime.drivers.embedded.driver import EmbeddedRuntime  # noqa: PLC0415

        return EmbeddedRuntime(root=str(root), address=node_ip, open_files=open_files)
    # gRPC costs memory that an agent on the embedded runtime need not spend.
    from runtime.drivers.cri.driver import CriRuntime  # noqa: PLC0415

    return CriRuntime(
        endpoint=settings.runtime_endpoint,
        image_endpoint=settings.image_endpoint,
        request_timeout_s=settings.runtime_request_timeout_s,
        on_bug=on_bug,
    )


def own_cgroup_root(root: FilePath, settings: Settings) -> str:
    """Return the cgroup that the embedded runtime's pods are in unless another is configured; empty for other runtimes.

    It is meant for tests beside a kubelet too: two agents must not share ``/kubepods``.
    """
    if settings.runtime_endpoint != EMBEDDED or settings.cgroup_root != "/":
        return ""
    from runtime.drivers.embedded.driver import cgroup_name  # noqa: PLC0415

    return f"/{cgroup_name(str(root))}"


def enforce_reservations(cgroups: PodCgroups, facts: NodeFacts) -> None:
    """Give the operator's cgroups what is reserved for them; raises `RejectedError` when one is not there."""
    groups = tuple(reserved_groups(facts))
    if not groups or not facts.pod_cgroups:
        return
    made = cgroups.perform(EnsureNodeCgroups(groups=groups, driver=facts.cgroup_driver), CGROUP_DEADLINE_S)
    assert isinstance(made, NodeCgroupsMade)
    for path, text in made.unapplied:
        system = path == reserved_path(facts.reserved.system_cgroup, facts.cgroup_driver)
        name = facts.reserved.system_cgroup if system else facts.reserved.kube_cgroup
        title = "System" if system else "Kube"
        raise RejectedError(f'Failed to enforce {title} Reserved Cgroup Limits on "{name}": {text}')


def real_parts(
    root: FilePath,
    settings: Settings,
    runtime: ContainerRuntime,
    cgroups: PodCgroups,
    node_ip: str,
    network: Port,
    events: KernelEvents,
    cluster: ClusterParts | None,
) -> Parts:
    """Return the drivers of the real world on one root directory; without `node_ip` the node's address is looked for."""
    logs, links = FilePath(settings.pod_logs_dir), FilePath(settings.container_links_dir)

    node = NodeDescriber(settings, (lambda: node_ip) if node_ip else host_address)
    return Parts(
        runtime=runtime,
        runtime_events=runtime.events,
        images=runtime.images,
        manifests=FileManifests(),
        manifest_changes=ManifestChanges(settings.pod_manifest_path) if settings.pod_manifest_path else None,
        urls=url_manifests() if settings.manifest_url else None,
        ledger=FileLedger(root),
        podfiles=PodFolderDriver(root / "pods", logs, links),
        logfiles=LogFiles(logs, links),
        cgroups=cgroups,
        node=node,
        facts=node.facts,
        volumes=Volumes(root / "pods"),
        credentials=NodeCredentialFiles(root, home_folder()),
        net=network,
        usage=UsageReader(),
        memory_crossings=MemoryCrossings(events, settings.eviction.thresholds, pod_groups(settings)),
        kernel_ooms=KernelLog(events),
        node_ip=node.facts.ips[0],
        cluster=cluster,
    )


def url_manifests() -> BlockingPort:
    """Return the driver of manifest URLs; its TLS and HTTP modules cost memory that most agents need not spend."""
    from runtime.drivers.host.manifests.yamltext import read_document  # noqa: PLC0415
    from runtime.drivers.net.url import UrlManifests  # noqa: PLC0415

    return UrlManifests(read_document)
