"""What is counted, as metrics: usage of node, pods and containers under a kubelet's names, and the agent's own inside.

Usage carries the time of its sample. An unknown number has no sample, so that it is not taken for 0.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping

from actors.certificates.state import CertificatesState
from actors.oom.state import OomCount
from api.eviction import Pressure
from api.ids import Instant, WallNs
from api.ports.runtime import RuntimeContainerState, RuntimePod
from api.shown.introspection import HOP_BOUNDS_S, ActorRow, ActorState, Hop, HopRow, KernelRow
from api.shown.metric import Family, Labels, MetricKind, Sample, histogram
from api.usage import ContainerUsage, PodUsage, Usage

NS, MS_NS = 1e9, 1_000_000
OPERATIONS = {
    "RunSandbox": "run_podsandbox",
    "StopSandbox": "stop_podsandbox",
    "RemoveSandbox": "remove_podsandbox",
    "CreateContainer": "create_container",
    "StartContainer": "start_container",
    "StopContainer": "stop_container",
    "RemoveContainer": "remove_container",
    "UpdateContainer": "update_container",
    "ListPods": "list_podsandbox",
    "InspectPod": "podsandbox_status",
    "ExecInContainer": "exec_sync",
    "ReopenContainerLog": "reopen_container_log",
    "ListImages": "list_images",
    "ImageStatus": "image_status",
    "PullImage": "pull_image",
    "RemoveImage": "remove_image",
    "ImageFsUsage": "image_fs_info",
    "ReadContainerStats": "list_container_stats",
    "RuntimeStatus": "status",
}
"""What a kubelet calls our calls of the runtime and its images."""
GAUGE, COUNTER, HISTOGRAM = MetricKind.GAUGE, MetricKind.COUNTER, MetricKind.HISTOGRAM
RUNTIME_PORTS = frozenset({"runtime", "images"})
"""Whose calls a kubelet counts as operations of the runtime."""

Labelled = tuple[Labels, PodUsage | ContainerUsage]


def gauge(name: str, text: str, samples: Iterable[Sample]) -> Family:
    """Return a metric that goes up and down."""
    return Family(name=name, kind=GAUGE, help=text, samples=tuple(samples))


def counter(name: str, text: str, samples: Iterable[Sample]) -> Family:
    """Return a metric that only grows."""
    return Family(name=name, kind=COUNTER, help=text, samples=tuple(samples))


# ---------------------------------------------------------------- usage


def usage_families(usage: Usage | None) -> list[Family]:
    """Return the metrics of a kubelet's ``/metrics/resource``."""
    failed = [Sample(int(usage is None))]
    error = gauge("resource_scrape_error", "1 if no usage is known, 0 otherwise", failed)
    if usage is None:
        return [error]
    node, pods = usage.node, usage.pods
    whole: list[Labelled] = [(_pod(pod), pod) for pod in pods]
    every: list[Labelled] = [(_container(pod, c), c) for pod in pods for c in pod.containers]
    families = [
        counter(
            "node_cpu_usage_seconds_total",
            "CPU time of the node",
            [Sample(node.cpu.total_ns / NS, (), node.cpu.at // MS_NS)] if node.cpu else (),
        ),
        gauge(
            "node_memory_working_set_bytes",
            "Working set of the node",
            [Sample(node.memory.working_set_bytes, (), node.memory.at // MS_NS)] if node.memory else (),
        ),
        gauge(
            "node_swap_usage_bytes",
            "Swap in use on the node",
            [Sample(node.swap.usage_bytes, (), node.swap.at // MS_NS)] if node.swap else (),
        ),
        counter("pod_cpu_usage_seconds_total", "CPU time of the pod", _cpu(whole)),
        gauge("pod_memory_working_set_bytes", "Working set of the pod", _memory(whole)),
        gauge("pod_swap_usage_bytes", "Swap in use by the pod", _swap(whole)),
    ]
    families += [
        counter("container_cpu_usage_seconds_total", "CPU time of the container", _cpu(every)),
        gauge("container_memory_working_set_bytes", "Working set of the container", _memory(every)),
        gauge("container_swap_usage_bytes", "Swap in use by the container", _swap(every)),
        gauge(
            "container_start_time_seconds",
            "When the container started, in seconds since the epoch",
            [
                Sample(c.started_at / NS, _container(pod, c))
                for pod in pods
                for c in pod.containers
                if c.started_at is not None
            ],
        ),
        error,
    ]
    return families


def _pod(pod: PodUsage) -> Labels:
    return (("namespace", pod.namespace), ("pod", pod.name))


def _container(pod: PodUsage, container: ContainerUsage) -> Labels:
    return (("container", container.name), ("namespace", pod.namespace), ("pod", pod.name))


def _cpu(rows: Iterable[Labelled]) -> list[Sample]:
    return [Sample(r.cpu.total_ns / NS, labels, r.cpu.at // MS_NS) for labels, r in rows if r.cpu is not None]


def _memory(rows: Iterable[Labelled]) -> list[Sample]:
    return [
        Sample(r.memory.working_set_bytes, labels, r.memory.at // MS_NS)
        for labels, r in rows
        if r.memory is not None
    ]


def _swap(rows: Iterable[Labelled]) -> list[Sample]:
    return [
        Sample(r.swap.usage_bytes, labels, r.swap.at // MS_NS) for labels, r in rows if r.swap is not None
    ]


def disk_families(usage: Usage | None) -> list[Family]:
    """Return file systems and what pods take of them, and how old and complete the last round is."""
    if usage is None:
        return []
    node = usage.node
    disks = [(name, fs) for name, fs in (("nodefs", node.fs), ("imagefs", node.image_fs)) if fs]
    logs = [
        Sample(
            container.logs.used_bytes or 0,
            (
                ("uid", pod.uid),
                ("namespace", pod.namespace),
                ("pod", pod.name),
                ("container", container.name),
            ),
        )
        for pod in usage.pods
        for container in pod.containers
        if container.logs is not None
    ]
    ephemeral = [(pod, pod.ephemeral) for pod in usage.pods if pod.ephemeral is not None]
    volumes = [(pod, volume) for pod in usage.pods for volume in pod.volumes]
    families = [
        gauge("kubelet_container_log_filesystem_used_bytes", "Bytes of a container's logs", logs),
        gauge(
            "nodeagent_pod_ephemeral_used_bytes",
            "Bytes that a pod has on local disk",
            [Sample(fs.used_bytes or 0, _pod(pod)) for pod, fs in ephemeral],
        ),
        gauge(
            "nodeagent_pod_ephemeral_inodes_used",
            "Inodes that a pod has on local disk",
            [Sample(fs.inodes_used or 0, _pod(pod)) for pod, fs in ephemeral],
        ),
        gauge(
            "nodeagent_pod_volume_used_bytes",
            "Bytes in a local volume of a pod",
            [
                Sample(v.fs.used_bytes or 0, (*_pod(pod), ("volume", v.name), ("kind", v.kind)))
                for pod, v in volumes
            ],
        ),
        gauge(
            "nodeagent_pod_processes",
            "Processes of a pod",
            [Sample(pod.pids, _pod(pod)) for pod in usage.pods if pod.pids is not None],
        ),
    ]
    for name, text in (
        ("capacity_bytes", "Size of a file system"),
        ("available_bytes", "Space of a file system that is available to unprivileged users"),
        ("inodes", "Inodes of a file system"),
        ("inodes_free", "Free inodes of a file system"),
    ):
        rows = [(disk, getattr(fs, name)) for disk, fs in disks]
        samples = [Sample(value, (("filesystem", disk),)) for disk, value in rows if value is not None]
        families.append(gauge(f"nodeagent_filesystem_{name}", text, samples))
    return families


def round_families(usage: Usage | None, took_s: float, now: Instant) -> list[Family]:
    """Return how the last round of usage went."""
    if usage is None:
        return []
    return [
        gauge("nodeagent_usage_age_seconds", "Age of the last round", [Sample(max(0.0, now - usage.as_of))]),
        gauge("nodeagent_usage_round_seconds", "How long the last round took", [Sample(took_s)]),
        counter("nodeagent_usage_rounds_total", "Rounds of usage", [Sample(usage.round)]),
        gauge(
            "nodeagent_usage_troubles",
            "Readings of the last round that are missing, old or refused",
            [Sample(len(usage.troubles))],
        ),
    ]


# ---------------------------------------------------------------- pods


def pod_families(node_name: str, pods: Iterable[RuntimePod], desired: int) -> list[Family]:
    """Return how many pods and containers there are."""
    states = Counter(dict.fromkeys((state.value for state in RuntimeContainerState), 0))
    alive = 0
    for pod in pods:
        states.update(container.state.value for container in pod.containers)
        alive += any(container.state is RuntimeContainerState.RUNNING for container in pod.containers)
    return [
        gauge("kubelet_node_name", "The node's name", [Sample(1, (("node", node_name),))]),
        gauge("kubelet_desired_pods", "Desired pods", [Sample(desired)]),
        gauge("kubelet_running_pods", "Pods with a running container", [Sample(alive)]),
        gauge(
            "kubelet_running_containers",
            "Containers by state",
            [Sample(count, (("container_state", state),)) for state, count in sorted(states.items())],
        ),
    ]


# ---------------------------------------------------------------- inside


def actor_families(rows: Iterable[ActorRow], kernel: KernelRow) -> list[Family]:
    """Return the actors by class: how many, and their mailboxes."""
    rows = list(rows)
    living = [row for row in rows if row.state is not ActorState.DEAD]
    states = Counter((row.class_name, row.state.value) for row in rows)
    depth: Counter[str] = Counter()
    high: dict[str, int] = {}
    flying: Counter[tuple[str, str]] = Counter()
    for row in living:
        depth[row.class_name] += row.mailbox_depth
        high[row.class_name] = max(high.get(row.class_name, 0), row.mailbox_high_water)
        flying.update((operation.port, operation.call) for operation in row.operations)

    def by_class(counts: dict[str, int]) -> list[Sample]:
        return [Sample(count, (("class", name),)) for name, count in sorted(counts.items())]

    return [
        gauge(
            "nodeagent_actors",
            "Actors by class and state",
            [
                Sample(count, (("class", name), ("state", state)))
                for (name, state), count in sorted(states.items())
            ],
        ),
        gauge("nodeagent_mailbox_depth", "Messages that wait, in all mailboxes of a class", by_class(depth)),
        gauge(
            "nodeagent_mailbox_high_water",
            "The most messages that ever waited in one mailbox of a class",
            by_class(high),
        ),
        gauge("nodeagent_actors_stuck", "Actors that do not answer", [Sample(len(kernel.stuck))]),
        gauge("nodeagent_threads", "Threads of the actor system", [Sample(kernel.threads)]),
        counter(
            "nodeagent_messages_total",
            "Messages by result",
            [
                Sample(count, (("outcome", outcome),))
                for outcome, count in (
                    ("handled", kernel.handled),
                    ("conflated", kernel.conflated),
                    ("dead-lettered", kernel.dead_lettered),
                )
            ],
        ),
        gauge(
            "nodeagent_operations_in_flight",
            "Calls in flight",
            [
                Sample(count, (("port", port), ("call", call)))
                for (port, call), count in sorted(flying.items())
            ],
        ),
    ]


def hop_families(hops: Iterable[HopRow], letters: Iterable[tuple[str, int]]) -> list[Family]:
    """Return how long each kind of hop took."""
    hops = list(hops)
    waits, takes, calls = (
        [row for row in hops if row.hop is hop] for hop in (Hop.MAILBOX, Hop.HANDLER, Hop.OPERATION)
    )
    own = [row for row in calls if row.name in RUNTIME_PORTS and row.call in OPERATIONS]

    def samples(rows: list[HopRow], labels: Callable[[HopRow], Labels]) -> tuple[Sample, ...]:
        return tuple(
            sample for row in rows for sample in histogram(labels(row), HOP_BOUNDS_S, row.counts, row.sum_s)
        )

    def kind(row: HopRow) -> Labels:
        return (("class", row.name),)

    def called(row: HopRow) -> Labels:
        return (("port", row.name), ("call", row.call))

    def operation(row: HopRow) -> Labels:
        return (("operation_type", OPERATIONS[row.call]),)

    def failures(row: HopRow) -> int:
        return sum(count for ending, count in row.endings if ending != "ok")

    return [
        Family(
            name="nodeagent_mailbox_wait_seconds",
            kind=HISTOGRAM,
            help="How long messages waited before they were handled",
            samples=samples(waits, kind),
        ),
        Family(
            name="nodeagent_handling_seconds",
            kind=HISTOGRAM,
            help="How long messages were handled",
            samples=samples(takes, kind),
        ),
        Family(
            name="nodeagent_operation_seconds",
            kind=HISTOGRAM,
            help="How long calls took",
            samples=samples(calls, called),
        ),
        counter(
            "nodeagent_messages_handled_total",
            "Messages handled, by class of actor",
            [Sample(sum(row.counts), kind(row)) for row in takes],
        ),
        counter(
            "nodeagent_actor_restarts_total",
            "Incarnations that failed and were replaced",
            [Sample(dict(row.endings).get("restarted", 0), kind(row)) for row in takes],
        ),
        counter(
            "nodeagent_operations_total",
            "Calls by result",
            [Sample(count, (*called(row), ("outcome", end))) for row in calls for end, count in row.endings],
        ),
        counter(
            "nodeagent_dead_letters_total",
            "Messages that no actor handled",
            [Sample(count, (("reason", reason),)) for reason, count in letters],
        ),
        counter(
            "kubelet_runtime_operations_total",
            "Calls of the container runtime",
            [Sample(sum(row.counts), operation(row)) for row in own],
        ),
        counter(
            "kubelet_runtime_operations_errors_total",
            "Calls of the container runtime that failed",
            [Sample(failures(row), operation(row)) for row in own if failures(row)],
        ),
        Family(
            name="kubelet_runtime_operations_duration_seconds",
            kind=HISTOGRAM,
            help="How long calls of the container runtime took",
            samples=samples(own, operation),
        ),
    ]


def oom_families(listed: Iterable[RuntimePod], oom_counts: Iterable[OomCount]) -> list[Family]:
    """Return the OOM kills of each existing container."""
    counts = {(row.uid, row.container): row.kills for row in oom_counts}
    rows = {
        (("container", container.name), ("namespace", pod.namespace), ("pod", pod.name)): counts.get(
            (pod.uid, container.name), 0
        )
        for pod in listed
        for container in pod.containers
    }
    samples = [Sample(count, labels) for labels, count in sorted(rows.items())]
    text = "OOM kills of the container"
    return [counter("container_oom_events_total", text, samples)]


def eviction_families(evictions: Mapping[str, int], conditions: Iterable[str]) -> list[Family]:
    """Return the number of evictions by signal, and the node conditions that are set."""
    told = frozenset(conditions)
    counts = [Sample(count, (("eviction_signal", signal),)) for signal, count in sorted(evictions.items())]
    pressures = [Sample(int(one in told), (("condition", one.value),)) for one in Pressure]
    return [
        counter("kubelet_evictions", "Pods evicted, by signal", counts),
        gauge("nodeagent_pressure", "1 while the node has this condition, 0 otherwise", pressures),
    ]


def certificate_families(state: CertificatesState, wall: WallNs) -> list[Family]:
    """Return how long the client certificate is valid for, and how often a new one was not got, under a kubelet's names."""
    one = state.certificate
    return [
        gauge(
            "kubelet_certificate_manager_client_ttl_seconds",
            "For how long the client certificate is valid, negative once it has expired",
            [Sample((one.valid_until - wall) / NS)] if one is not None else (),
        ),
        counter(
            "kubelet_certificate_manager_client_expiration_renew_errors",
            "Requests of a client certificate that came to nothing",
            [Sample(state.errors)],
        ),
    ]
