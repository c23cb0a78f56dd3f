"""A `Window` over plain data, with something of everything: a stuck actor, a crash loop, broken files, odd characters."""

import threading
import zlib

import msgspec

from actors.views.metrics import usage_families
from actors.views.summary import summary
from api.errors import ConflictError, DeniedError, NotFoundError, RejectedError, UnavailableError
from api.ids import Path, Uid
from api.ports.images import ImageFs
from api.ports.runtime import ExecResult
from api.shown.evictionrow import EvictionRow, RankingRow, StandRow, ThresholdRow, VictimRow
from api.shown.introspection import (
    ActorRow,
    ActorState,
    Collection,
    DeadLetterRow,
    EventRow,
    Explanation,
    HealthRow,
    HeldImage,
    ImageDecision,
    ImageGCRow,
    ImageVerdict,
    KernelRow,
    LevelRow,
    LogTarget,
    OperationRow,
    PodRow,
    SourceRow,
    Step,
    TraceRow,
)
from api.shown.metric import render
from api.usage import ContainerUsage, CpuUsage, FsUsage, MemoryUsage, NodeUsage, PodUsage, Usage

WALL = 1_780_000_000_000_000_000
UID_WEB = "0b5e9a52-8c1f-4e0e-9a55-0d3b1c4f7a11"
UID_LOOP = "7d0c1b4e-5a77-4c58-8d2c-2f1f6f0c9e22"


def actor(path: str, class_name: str, **fields) -> ActorRow:
    """Return an actor with what differs from an idle one."""
    parent = path.rpartition("/")[0]
    values = {
        "actor_id": f"{zlib.crc32(path.encode()):08x}",
        "path": Path(path),
        "class_name": class_name,
        "name": path.rpartition("/")[2],
        "state": ActorState.ALIVE,
        "num_restarts": 0,
        "parent": parent,
        "handled": 42,
        "handling_s": 0.0123,
        "mailbox_high_water": 3,
    }
    return ActorRow(**{**values, **fields})


ACTORS = (
    actor("/node", "NodeActor"),
    actor(
        "/node/pods",
        "PodSupervisor",
        mailbox_depth=2,
        current_message="UpdatePod default/web",
        current_message_age_s=0.004,
    ),
    actor(
        f"/node/pods/{UID_WEB}",
        "PodActor",
        operations=(
            OperationRow(op=7, port="runtime", call="StopContainer", age_s=12.4, deadline_in_s=107.6),
        ),
        alarm_in_s=4.25,
    ),
    actor(
        f"/node/pods/{UID_LOOP}",
        "PodActor",
        num_restarts=2,
        incarnation=2,
        death_cause="ValueError at plan.py:88",
        alarm_in_s=152.0,
    ),
    actor(
        "/node/pleg",
        "Pleg",
        mailbox_depth=40,
        mailbox_high_water=61,
        oldest_pending_s=33.0,
        current_message="Outcome op=3 ListPods",
        current_message_age_s=33.2,
        unresponsive="on Outcome op=3 ListPods for 33 s, at pleg/core.py:120 in absorb",
    ),
    actor("/node/sources", "SourceSupervisor"),
    actor("/node/sources/file", "FileSource", alarm_in_s=18.0),
    actor(
        "/node/sources/http",
        "HttpSource",
        state=ActorState.RESTARTING,
        num_restarts=3,
        death_cause="KeyError at source.py:31",
    ),
    actor(
        "/node/status",
        "StatusManager",
        state=ActorState.DEAD,
        num_restarts=10,
        death_cause="budget used up: AssertionError at core.py:9",
    ),
)
PODS = (
    PodRow(
        namespace="default",
        name="web-node1",
        uid=UID_WEB,
        ready="2/2",
        status="Running",
        restarts=0,
        age_s=7530,
        ip="10.1.2.3",
        source="file",
        containers=("nginx", "logger"),
    ),
    PodRow(
        namespace="default",
        name="loop",
        uid=UID_LOOP,
        ready="0/1",
        status="CrashLoopBackOff",
        restarts=6,
        last_restart_ago_s=72.0,
        age_s=1265,
        ip="10.1.2.4",
        source="api",
        why="container app exited 3 (Error); starts again in 2m32s",
        containers=("app",),
    ),
    PodRow(
        namespace="kube-system",
        name="very-long-pod-name-of-some-operator-in-a-deployment-6d4cf56db6-x7k2p",
        uid="u-3",
        ready="0/3",
        status="Pending",
        restarts=0,
        age_s=9,
        source="http",
        why="spec.volumes[2].iscsi: volume type iscsi is not supported\x1b[31m\nyet",
        containers=("a", "b", "c"),
    ),
)
EXPLANATION = Explanation(
    namespace="default",
    name="loop",
    uid=UID_LOOP,
    state="container app does not run; it ended 6 times, the last time with exit code 3 (Error) after 2s.",
    waits_for="the back-off of container app",
    since_s=72.0,
    tried=(
        Step(in_s=-1265, what="RunSandbox attempt 0", result="ok in 210ms"),
        Step(in_s=-74, what="StartContainer app attempt 6", result="ok in 35ms"),
        Step(in_s=-72, what="container app exited", result="exit code 3"),
    ),
    next=(Step(in_s=152, what="create and start container app, attempt 7"),),
    kill="the liveness probe of container app, 6m ago: HTTP GET /health answered 500",
    containers=("app: waiting (CrashLoopBackOff), last exit code 3 72s ago",),
)
IMAGES = (
    HeldImage(
        id="sha256:" + "0123456789abcdef" * 4,
        names=("docker.io/library/nginx:1.27", "docker.io/library/nginx@sha256:" + "ab12" * 16),
        size_bytes=187_654_321,
        containers=("default/web-node1/nginx", "default/web-node1/logger"),
        seen_ago_s=7530.0,
        used_ago_s=0.0,
    ),
    HeldImage(
        id="sha256:" + "cd" * 32,
        names=("docker.io/library/old:1",),
        size_bytes=7 << 20,
        seen_ago_s=90000.0,
        used_ago_s=3700.0,
    ),
    HeldImage(id="nodeagent.local/host", names=("nodeagent.local/host",), pinned=True),
)
PLANNED = (
    ImageVerdict(
        id=IMAGES[1].id,
        names=IMAGES[1].names,
        size_bytes=7 << 20,
        decision=ImageDecision.REMOVE,
        reason="unused for 1h1m",
    ),
    ImageVerdict(
        id=IMAGES[0].id,
        names=IMAGES[0].names,
        size_bytes=IMAGES[0].size_bytes,
        decision=ImageDecision.KEEP,
        reason="used by default/web-node1/nginx, default/web-node1/logger",
    ),
)
COLLECTION = Collection(
    runs=("run-1",),
    done=True,
    everything=True,
    images=(msgspec.structs.replace(PLANNED[0], decision=ImageDecision.REMOVED), PLANNED[1]),
    after=ImageFs(mountpoint="/var", capacity_bytes=100 << 30, available_bytes=40 << 30),
    removed_bytes=7 << 20,
    freed_bytes=6 << 20,
)
SECRET = "hunter2-in-an-environment-variable"


USED = Usage(
    at=WALL,
    as_of=100.0,
    round=7,
    node=NodeUsage(
        name="node1",
        capacity_bytes=8 << 30,
        cpu=CpuUsage(at=WALL, clock_ns=1, total_ns=90_000_000_000, nano_cores=1_500_000_000),
        memory=MemoryUsage(at=WALL, usage_bytes=3 << 30, working_set_bytes=2 << 30),
        fs=FsUsage(at=WALL, capacity_bytes=100 << 30, available_bytes=60 << 30, used_bytes=40 << 30),
        pids=321,
        pid_limit=32768,
    ),
    pods=(
        PodUsage(
            uid=Uid(UID_LOOP),
            namespace="default",
            name="loop-node1",
            troubles=("no usage: no container runs",),
        ),
        PodUsage(
            uid=Uid(UID_WEB),
            namespace="default",
            name="web-node1",
            cpu=CpuUsage(at=WALL, clock_ns=1, total_ns=5_000_000_000, nano_cores=12_300_000),
            memory=MemoryUsage(at=WALL, usage_bytes=80 << 20, working_set_bytes=64 << 20),
            pids=3,
            ephemeral=FsUsage(at=WALL, used_bytes=5 << 20, inodes_used=17),
            containers=(
                ContainerUsage(
                    name="nginx",
                    id="containerd://1",
                    memory=MemoryUsage(at=WALL, usage_bytes=80 << 20, working_set_bytes=64 << 20),
                ),
            ),
        ),
    ),
    troubles=("pod default/loop-node1: no usage: no container runs",),
)


EVICTION = EvictionRow(
    conditions=("MemoryPressure, observed now",),
    doing="evict pod default/web for memory.available",
    usage_age_s=3.0,
    kernel="notifies when a memory threshold is crossed",
    oom_kills=("default/web/main: hog (7), 3 s ago, limit of /kubepods",),
    thresholds=(
        ThresholdRow(
            signal="memory.available",
            condition="MemoryPressure",
            is_bytes=True,
            value="1Gi",
            least=1 << 30,
            enough=1 << 30,
            available=512 << 20,
            capacity=16 << 30,
            age_s=3.0,
            met_s=4.0,
        ),
        ThresholdRow(
            signal="pid.available", condition="PIDPressure", is_bytes=False, value="10%", grace_s=90.0
        ),
    ),
    short_of=(
        RankingRow(
            signal="memory.available",
            is_bytes=True,
            pods=(
                StandRow(pod="default/web", used=2 << 30, requested=0, priority=0, verdict="next"),
                StandRow(
                    pod="default/odd\x1b[2J",
                    used=None,
                    requested=0,
                    priority=5,
                    verdict="usage unknown",
                ),
            ),
        ),
    ),
    if_short=(
        RankingRow(
            signal="pid.available",
            is_bytes=False,
            pods=(StandRow(pod="default/web", used=9, requested=0, priority=0, verdict="next"),),
        ),
    ),
    over_limit=('default/full: Usage of EmptyDir volume "v" exceeds the limit "1Mi".',),
    victims=(
        VictimRow(
            pod="default/hog",
            signal="nodefs.available",
            message="The node was low on resource: ephemeral-storage.",
            ago_s=70.0,
            outcome="nothing of it runs any more",
        ),
    ),
    problems=("pid.available cannot be read: it neither starts nor ends pressure",),
)


class PlainWindow:
    """Implements `api.shown.introspection.Window`; tests change its fields."""

    def __init__(self) -> None:
        self.used = USED
        self.logs: dict[tuple[str, str], LogTarget] = {}
        self.gate: threading.Event | None = None
        self.broken: Exception | None = None
        self.checks = (HealthRow(name="kernel", ok=True), HealthRow(name="runtime", ok=True))
        self.asked_runs: list[str] = []
        self.looks = 0
        self.gc_failure = ""
        self.ran: list[tuple[str, str, tuple[str, ...], float]] = []
        self.stream_url = ""

    def actors(self):
        return ACTORS

    def kernel(self):
        return KernelRow(
            actors=len(ACTORS),
            by_state=(("ALIVE", 7), ("DEAD", 1), ("RESTARTING", 1)),
            by_class=(("PodActor", 2),),
            pending=42,
            stuck=("/node/pleg on Outcome op=3 ListPods for 33 s",),
        )

    def trace(self, path, limit):
        if path not in {row.path for row in ACTORS}:
            raise NotFoundError(f"there is no actor {path}")
        rows = tuple(
            TraceRow(
                at=1000.0 + at,
                path=path,
                message=f"PodObserved revision={at}",
                took_s=0.0004 * (at + 1),
                outcome="nothing to do" if at % 5 else "ValueError: no container named \x1b[2Japp",
            )
            for at in range(20)
        )
        return rows[-limit:]

    def dead_letters(self):
        return (DeadLetterRow(at=990.0, to=Path("/node/gone"), message="PodSynced", reason="no such actor"),)

    def pods(self):
        return PODS

    def pod_list(self):
        return (
            b'{"kind":"PodList","apiVersion":"v1","metadata":{},"items":[{"metadata":{"name":"web-node1"}}]}'
        )

    def explain(self, pod):
        if self.gate is not None:
            self.gate.wait(60)
        if self.broken is not None:
            raise self.broken
        if pod not in {"loop", "default/loop"}:
            raise NotFoundError(f"there is no pod {pod} on this node")
        return EXPLANATION

    def event_list(self, pod, kind):
        return msgspec.json.encode(
            {"kind": "EventList", "items": [row for row in self.events(pod) if kind in ("", row.type)]}
        )

    def eviction(self):
        return EVICTION

    def events(self, pod):
        rows = (
            EventRow(
                at=WALL - 75 * 10**9,
                namespace="default",
                pod="loop",
                type="Normal",
                reason="Started",
                message="Started container app",
                count=7,
            ),
            EventRow(
                at=WALL - 72 * 10**9,
                namespace="default",
                pod="loop",
                type="Warning",
                reason="BackOff",
                message="Back-off 160s restarting failed container=app pod=loop_default",
                count=12,
            ),
        )
        return tuple(row for row in rows if pod in {"", row.pod, f"{row.namespace}/{row.pod}"})

    def sources(self):
        return (
            SourceRow(
                source="file",
                where="/etc/kubernetes/manifests/web.yaml",
                status="accepted",
                pod="default/web-node1",
            ),
            SourceRow(
                source="file",
                where="/etc/kubernetes/manifests/bad.yaml",
                status="broken",
                problems=(
                    "bad.yaml:7: mapping values are not allowed here",
                    "the pod it had before keeps running",
                ),
            ),
            SourceRow(
                source="file",
                where="/etc/kubernetes/manifests/.web.yaml.swp",
                status="ignored",
                problems=("a dot file",),
            ),
        )

    def health(self):
        return self.checks

    def ready(self):
        return (
            HealthRow(
                name="sources", ok=False, detail="file source /etc/kubernetes/manifests not read yet, for 3 s"
            ),
        )

    def usage(self):
        if self.used is None:
            raise UnavailableError("usage was not read yet; try again in a moment")
        return self.used

    def stats_summary(self, *, short):
        return summary(self.usage(), short=short)

    def metrics(self, *, resource):
        return render(usage_families(self.used))

    def log_target(self, pod, container, *, previous):
        if pod == "two" and not container:
            raise RejectedError("pod default/two has containers a and b; choose one with -c")
        found = self.logs.get((pod.rpartition("/")[2], "previous" if previous else container or "app"))
        if found is None:
            raise NotFoundError(f'container "{container}" not found in pod "{pod}"')
        return found

    def exec(self, pod, container, command, timeout_s):
        if self.gate is not None:
            self.gate.wait(60)
        self.ran.append((pod, container, command, timeout_s))
        return ExecResult(exit_code=3, stdout=b"out \xff\n", stderr=b"err\n")

    def open_exec(self, pod, container, command, *, tty, stdin, stdout, stderr):
        self.ran.append((pod, container, command, tty, stdin, stdout, stderr))
        if not self.stream_url:
            raise RejectedError("the embedded runtime does not support streaming yet; remove -i and -t")
        return self.stream_url

    def images(self):
        return IMAGES

    def pull_image(self, reference):
        if self.gate is not None:
            self.gate.wait(60)
        if reference == "registry.local/private:1":
            raise DeniedError(f"image {reference}: the registry wants credentials", reason="ErrImagePull")
        return HeldImage(id="sha256:" + "ab" * 32, names=(reference,), size_bytes=5 << 20)

    def remove_image(self, reference):
        if reference == IMAGES[0].names[0]:
            raise ConflictError(
                f"image {reference} is used by default/web-node1/nginx; remove those pods first"
            )
        if reference != "old:1":
            raise NotFoundError(f'no image "{reference}" here; `nodeagent images ls` lists them')
        return HeldImage(id="sha256:" + "cd" * 32, names=("docker.io/library/old:1",), size_bytes=7 << 20)

    def plan_collection(self):
        return msgspec.structs.replace(COLLECTION, dry_run=True, images=PLANNED, freed_bytes=None, after=None)

    def start_collection(self):
        self.asked_runs.append("run-1")
        return "run-1"

    def collection(self, run):
        self.looks += 1
        if self.looks < 3:
            return Collection(runs=(run,), doing="lists images") if self.looks == 2 else None
        return msgspec.structs.replace(COLLECTION, failure=self.gc_failure)

    def image_gc(self):
        return ImageGCRow(last=COLLECTION, next_in_s=200.0)


class PlainLevels:
    """Implements `api.shown.introspection.Levels` in memory."""

    def __init__(self) -> None:
        self.rows = {"": "INFO"}

    def levels(self):
        return tuple(LevelRow(path=path, level=level) for path, level in sorted(self.rows.items()))

    def set_level(self, path, level):
        if level not in {"DEBUG", "INFO"}:
            raise RejectedError(f"there is no log level {level!r}")
        self.rows[path] = level
