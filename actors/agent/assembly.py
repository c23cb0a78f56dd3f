"""Which actor gets which port and handle: the one function by which `nodeagent run` and the simulation build the agent.

```text
/node/info   /node/status   /node/images   /node/events   /node/pleg   /node/probes   /node/pods/<uid> ...   /node/admission   /node/imagegc   /node/cgroups
/node/logs   /node/usage   /node/eviction   /node/oom   /node/config   /node/file   /node/http   (and those of `cluster`)
```
"""

from collections.abc import Mapping
from functools import partial

import msgspec

from actors.admission.actor import AdmissionManager
from actors.admission.state import AdmissionState
from actors.agent.cluster import KUBE, ClusterParts, assemble_events, assemble_node, assemble_pods
from actors.cgroups.actor import CgroupManager
from actors.cgroups.state import CgroupsState
from actors.events.actor import EventRecorder
from actors.events.state import EventsState
from actors.eviction.actor import EvictionManager
from actors.eviction.state import CROSSINGS, EvictionState, KernelHints
from actors.imagegc.actor import ImageGCManager
from actors.imagegc.state import ImageGCPolicy, ImageGCState
from actors.images.actor import ImagePuller
from actors.images.state import ImagesState
from actors.images.state import PullerPolicy as PullPolicy
from actors.logs.actor import LogRotator
from actors.logs.state import LogRotatorState
from actors.node.actor import NodeManager
from actors.node.state import NodeState
from actors.oom.actor import OomWatcher
from actors.oom.state import OOMS, OomState
from actors.pleg.actor import Pleg
from actors.pleg.state import STREAM as RUNTIME_EVENTS
from actors.pleg.state import PlegState
from actors.pod.actor import PodActor
from actors.pod.state import PodSettings, PodState
from actors.probes.actor import Prober
from actors.probes.state import ProberState
from actors.rules.desiredsources import DesiredSources
from actors.rules.resources.cgrouppath import PODS as POD_GROUPS
from actors.rules.resources.cgrouppath import names_in, path_of, pods_path
from actors.sources.file.actor import FileSource
from actors.sources.http.actor import HttpSource
from actors.sources.merge.actor import PodConfig
from actors.status import ledger as ledger_sink
from actors.status.actor import StatusManager
from actors.supervisor.actor import PodSupervisor
from actors.supervisor.state import FollowedNode, SupervisorState
from actors.usage.actor import UsageManager
from actors.usage.state import UsagePolicy, UsageState
from api import paths
from api.config.settings import Settings
from api.eviction import MEMORY_SIGNALS
from api.ids import Instant, Uid
from api.messages.pod import PodMessage
from api.ports.node import CgroupDriver, NodeFacts
from api.ports.port import BlockingPort, Port, Stream
from runtime.kernel.actor import Restart, Spec
from runtime.kernel.system import System

RELIST_S = 5.0
"""Between listings of the runtime while its events flow."""
EVENTS_PER_POD = 32
"""More than the events of all pods of a node during one ledger write."""
EVENTS_AT_LEAST = 16_384
"""Rejected pods send messages as well, however few pods the node may have."""
FOREVER = Restart(max_restarts=20, window_s=60.0)
"""Restart budget of the actors that the node needs: past it the process exits and its service manager restarts it."""


class Parts(msgspec.Struct, frozen=True, kw_only=True):
    """The drivers that the agent runs on."""

    runtime: Port | BlockingPort
    runtime_events: Stream
    images: Port | BlockingPort
    """The images of that runtime."""
    ledger: Port | BlockingPort
    podfiles: Port | BlockingPort
    cgroups: Port | BlockingPort
    node: Port | BlockingPort
    facts: NodeFacts = NodeFacts()
    """What is known of the node before the port ``node`` was asked."""
    logfiles: Port | BlockingPort
    manifests: Port | BlockingPort
    manifest_changes: Stream | None = None
    """Needed with a manifest path."""
    volumes: Port | BlockingPort
    credentials: Port | BlockingPort
    """The node's own, for registries."""
    net: Port | BlockingPort
    """Short network conversations for probes and hooks."""
    usage: Port | BlockingPort
    """What machine and pods use."""
    memory_crossings: Stream
    """Memory notifications of the kernel."""
    kernel_ooms: Stream
    """OOM kills of the kernel's log."""
    urls: Port | BlockingPort | None = None
    """Needed with a manifest URL."""
    node_ip: str = ""
    cluster: ClusterParts | None = None
    """Needed with a kubeconfig."""


def assemble(system: System, settings: Settings, parts: Parts) -> None:
    """Start every actor of the agent, each before those who talk to it first."""
    ports: Mapping[str, Port | BlockingPort] = {
        "runtime": parts.runtime,
        "images": parts.images,
        "ledger": parts.ledger,
        "podfiles": parts.podfiles,
        "cgroups": parts.cgroups,
        "node": parts.node,
        "logfiles": parts.logfiles,
        "volumes": parts.volumes,
        "credentials": parts.credentials,
        "net": parts.net,
        "usage": parts.usage,
    }
    fan_in = max(256, 8 * settings.max_pods)
    cluster, sources = parts.cluster, sources_of(settings)
    event_followers = (paths.APIEVENTS,) if cluster else ()
    if cluster is not None:
        assemble_events(system, settings, cluster, FOREVER)
    system.spawn(
        NodeManager.options(name=paths.leaf(paths.NODE), restart=FOREVER).bind(
            NodeState(machine=parts.facts, in_cluster=cluster is not None, pod_cidr=settings.pod_cidr),
            pick(ports, "node", "runtime"),
        )
    )
    system.spawn(
        StatusManager.options(name=paths.leaf(paths.STATUS), restart=FOREVER, mailbox=fan_in).bind(
            (ledger_sink,), pick(ports, ledger_sink.PORT), (paths.APISTATUS,) if cluster else ()
        )
    )
    system.spawn(
        ImagePuller.options(name=paths.leaf(paths.IMAGES), restart=FOREVER, mailbox=fan_in).bind(
            image_pulls(settings), pick(ports, "images", "credentials")
        )
    )
    system.spawn(
        EventRecorder.options(
            name=paths.leaf(paths.EVENTS),
            restart=FOREVER,
            mailbox=max(EVENTS_AT_LEAST, EVENTS_PER_POD * settings.max_pods),
        ).bind(EventsState(node_name=settings.node_name), pick(ports, "ledger"), event_followers)
    )
    groups = CgroupsState(node_name=settings.node_name, forget_s=max(180.0, 3 * settings.sync_s))
    system.spawn(
        CgroupManager.options(name=paths.leaf(paths.CGROUPS), restart=FOREVER, mailbox=fan_in).bind(
            groups, pick(ports, "cgroups"), event_followers
        )
    )
    probes = ProberState(deadline_s=settings.runtime_request_timeout_s)
    system.spawn(
        Prober.options(name=paths.leaf(paths.PROBES), restart=FOREVER, mailbox=fan_in).bind(
            probes, pick(ports, "runtime", "net")
        )
    )
    supervisor = SupervisorState(
        sources=DesiredSources(expected=sources),
        take_over=settings.take_over,
        resync_s=settings.sync_s,
        node=FollowedNode(facts=parts.facts),
    )
    admission = AdmissionState(node=parts.facts)
    system.spawn(
        AdmissionManager.options(name=paths.leaf(paths.ADMISSION), restart=FOREVER, mailbox=fan_in).bind(
            admission, {**pick(ports, "ledger"), **({KUBE: cluster.kube} if cluster is not None else {})}
        )
    )
    system.spawn(
        PodSupervisor.options(name=paths.leaf(paths.PODS), restart=FOREVER, mailbox=fan_in).bind(
            supervisor, pick(ports, "ledger", "podfiles"), partial(pod_spec, settings, parts, ports)
        )
    )
    # Its first listing goes to the supervisor, which admits no pod before that: lost, it would cost a whole period.
    pleg = PlegState(relist_s=RELIST_S, deadline_s=settings.runtime_request_timeout_s)
    system.spawn(
        Pleg.options(name=paths.leaf(paths.PLEG), restart=FOREVER, mailbox=fan_in).bind(
            pleg, pick(ports, "runtime"), {RUNTIME_EVENTS: parts.runtime_events}
        )
    )
    system.spawn(
        ImageGCManager.options(name=paths.leaf(paths.IMAGEGC), restart=FOREVER).bind(
            image_gc(settings), pick(ports, "runtime", "images"), event_followers
        )
    )
    rotator = LogRotatorState(
        limit_bytes=settings.log_max_size_bytes,
        max_files=settings.log_max_files,
        workers=settings.log_max_workers,
        period_s=settings.log_monitor_s,
        deadline_s=settings.runtime_request_timeout_s,
        take_over=settings.take_over,
    )
    system.spawn(
        LogRotator.options(name=paths.leaf(paths.LOGS), restart=FOREVER).bind(
            rotator, pick(ports, "runtime", "logfiles")
        )
    )
    system.spawn(
        UsageManager.options(name=paths.leaf(paths.USAGE), restart=FOREVER).bind(
            usage_of(settings, parts.facts), pick(ports, "usage", "runtime", "images")
        )
    )
    system.spawn(
        EvictionManager.options(name=paths.leaf(paths.EVICTION), restart=FOREVER).bind(
            eviction_of(settings), {CROSSINGS: parts.memory_crossings}, event_followers
        )
    )
    config = PodConfig.options(name=paths.leaf(paths.CONFIG), restart=FOREVER)
    system.spawn(config.bind(subscribers=(paths.PODS, paths.MIRRORS) if cluster else (paths.PODS,)))
    if settings.pod_manifest_path:
        system.spawn(
            FileSource.options(name=paths.leaf(paths.FILE), restart=FOREVER).bind(
                path=settings.pod_manifest_path,
                node_name=settings.node_name,
                config=paths.CONFIG,
                manifests=parts.manifests,
                changes=parts.manifest_changes,
                ledger=parts.ledger,
                period_s=settings.file_check_s,
            )
        )
    if settings.manifest_url:
        system.spawn(
            HttpSource.options(name=paths.leaf(paths.HTTP), restart=FOREVER).bind(
                url=settings.manifest_url,
                headers=settings.manifest_url_headers,
                node_name=settings.node_name,
                config=paths.CONFIG,
                urls=parts.urls,
                period_s=settings.http_check_s,
            )
        )
    if cluster is not None:
        assemble_node(system, settings, cluster, parts.images, FOREVER)
        assemble_pods(system, settings, cluster, parts.ledger, sources, FOREVER, fan_in)
    watcher = OomState(
        node_name=settings.node_name,
        take_over=settings.take_over,
        deadline_s=settings.runtime_request_timeout_s,
    )
    system.spawn(
        OomWatcher.options(name=paths.leaf(paths.OOM), restart=FOREVER).bind(
            watcher, pick(ports, "runtime"), {OOMS: parts.kernel_ooms}, event_followers
        )
    )


def pod_spec(
    settings: Settings,
    parts: Parts,
    ports: Mapping[str, Port | BlockingPort],
    uid: Uid,
    blank_as_of: Instant | None,
    node: NodeFacts,
) -> Spec[PodMessage]:
    """Return the spec of the actor that owns `uid`, of which nothing is anywhere as of an instant, if that is known.

    `node` is what its supervisor knows of the node, which may lack the runtime's word: an orphan needs none of it.
    """
    own = PodSettings(
        log_root=settings.pod_logs_dir,
        node_ip=parts.node_ip,
        restart_limit_s=settings.max_container_backoff_s,
        call_deadline_s=settings.runtime_request_timeout_s,
        allow_host_image=settings.allow_host_image,
    )
    state = PodState(uid=uid, settings=own, node=node)
    mine = pick(ports, "runtime", "ledger", "podfiles", "cgroups", "volumes", "net")
    if parts.cluster is not None:
        mine = {**mine, KUBE: parts.cluster.kube}
    return PodActor.options(name=uid, max_restarts=5).bind(state, mine, blank_as_of)


def image_pulls(settings: Settings) -> ImagesState:
    """Return the initial state of ImagePuller."""
    policy = PullPolicy(
        at_once=settings.image_pulls_at_once,
        per_second=float(settings.registry_pull_qps),
        burst=settings.registry_burst,
    )
    return ImagesState(
        policy=policy,
        deadline_s=settings.runtime_request_timeout_s,
        pull_deadline_s=settings.image_pull_deadline_s,
    )


def image_gc(settings: Settings) -> ImageGCState:
    """Return the initial state of ImageGCManager."""
    policy = ImageGCPolicy(
        high_percent=settings.image_gc_high_percent,
        low_percent=settings.image_gc_low_percent,
        min_age_s=settings.image_min_gc_age_s,
        max_age_s=settings.image_max_gc_age_s,
        sandbox_image=settings.sandbox_image,
    )
    return ImageGCState(
        policy=policy, node_name=settings.node_name, deadline_s=settings.runtime_request_timeout_s
    )


def eviction_of(settings: Settings) -> EvictionState:
    """Return the first state of the actor that has pods go."""
    on_memory = any(one.signal in MEMORY_SIGNALS for one in settings.eviction.thresholds)
    return EvictionState(
        policy=settings.eviction,
        node_name=settings.node_name,
        kernel=KernelHints() if settings.kernel_memory_events and on_memory else None,
    )


def pod_groups(settings: Settings) -> tuple[str, ...]:
    """Return the cgroups that may contain all pods: the runtime may use another driver than the settings."""
    names = [*names_in(settings.cgroup_root), POD_GROUPS]
    return tuple(path_of(names, driver) for driver in CgroupDriver)


def usage_of(settings: Settings, facts: NodeFacts) -> UsageState:
    """Return the first state of the actor that reads usage."""
    policy = UsagePolicy(
        node_name=settings.node_name,
        root_dir=settings.root_dir,
        log_root=settings.pod_logs_dir,
        take_over=settings.take_over,
        memory_bytes=facts.memory_bytes,
    )
    return UsageState(policy=policy, pods_group=pods_path(facts))


def sources_of(settings: Settings) -> tuple[str, ...]:
    """Return the names of the sources that the agent has."""
    cluster = settings.cluster.kubeconfig
    named = (("file", settings.pod_manifest_path), ("http", settings.manifest_url), ("api", cluster))
    return tuple(name for name, where in named if where)


def pick(ports: Mapping[str, Port | BlockingPort], *names: str) -> Mapping[str, Port | BlockingPort]:
    """Return only the ports of these names: an actor gets what it uses, no more."""
    return {name: ports[name] for name in names}
