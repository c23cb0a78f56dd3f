"""Pods of a cluster as actors, in virtual time and under faults: in the end API server and node say the same."""

from random import Random

import pytest

from actors.apistatus.actor import ApiStatusWriter
from actors.mirrors.actor import MirrorManager
from actors.mirrors.state import MirrorsState
from actors.rules.desiredsources import DesiredSources
from actors.sources.api.actor import ApiSource
from actors.sources.merge.actor import PodConfig
from actors.status import ledger as ledger_sink
from actors.status.actor import StatusManager
from api import errors, paths
from api.errors import Failure
from api.faults import (
    CrashActor,
    CutStream,
    DropItem,
    DropMessage,
    DuplicateMessage,
    FailOperation,
    FaultPlan,
    HangOperation,
    When,
)
from api.ids import Uid
from api.kube.objects.meta import ObjectMeta
from api.kube.objects.pod import Pod
from api.kube.objects.podstatus import PodStatus
from api.kube.objects.strmap import StrMap
from api.messages.eviction import ActivePod, ActivePods
from api.messages.kernel import Alarm, Restarted
from api.messages.nodestatus import NodeObjectSeen, WatchNodeObject
from api.messages.podconfig import PodsSeen, SnapshotWanted
from api.messages.status import ForgetPodStatus, PodStatusComposed
from api.messages.supervisor import PodOp, PodsSnapshot, WatchPods
from api.ports.kube import PODS, ApiPodsListed
from runtime.drivers.memory.host import MemoryLedger
from runtime.drivers.memory.stream import MemoryStream
from runtime.kernel.actor import Actor
from runtime.kernel.intercept import FaultInterceptor
from runtime.kernel.sim import SimSystem
from tests.unit.actors.apistatus.fakeapi import FakeApi

MIRROR, HASH = "kubernetes.io/config.mirror", "kubernetes.io/config.hash"
ERRORS = {
    one.kind: one
    for one in vars(errors).values()
    if isinstance(one, type) and issubclass(one, errors.OperatingError)
}
END_S = 2.0
"""How long a pod takes to end."""


class PodStream(MemoryStream):
    """Shows at once what there is to each who opens it."""

    def __init__(self, server):
        super().__init__(PODS)
        self.server = server

    def open(self, push, ended):
        undo = super().open(push, ended)
        if not self.server.down:
            push(ApiPodsListed(pods=self.server.api.pods()))
        return undo


class Server:
    """The port ``kube`` and its stream of pods, on a small API server."""

    name = "kube"

    def __init__(self):
        self.api, self.pods, self.down = FakeApi(), PodStream(self), False

    def perform(self, call, deadline_s):
        if self.down:
            raise errors.UnavailableError("connection refused")
        answer = self.api.perform(call)
        if isinstance(answer, Failure):
            raise ERRORS[answer.kind](answer.message, reason=answer.reason)
        self.show()
        return answer

    def show(self):
        if not self.down:
            self.pods.push(ApiPodsListed(pods=self.api.pods()))


class Node(Actor):
    """Runs what it is sent, as supervisor and pod actors do; what runs outlives it."""

    def __init__(self, world):
        self.world = world
        self.number, self.watchers, self.seen = None, [], set()

    def on_start(self, ctx):
        ctx.watch(paths.STATUS)
        ctx.handle(paths.CONFIG).tell(SnapshotWanted(asked_by=paths.PODS))

    def receive(self, message, ctx):
        wanted = self.world.wanted
        match message:
            case WatchPods(asked_by=path):
                self.watchers = [*(one for one in self.watchers if one != path), path]
            case PodsSnapshot(seen=seen, pods=pods):
                kept = {uid: one for uid, one in wanted.items() if one[0] not in seen}
                self.world.wanted = kept | {one.pod.metadata.uid: (one.source, one.pod) for one in pods}
                self.number, self.seen = message.number, set(seen)
            case Restarted() | Alarm():
                pass
            case _ if self.number is None or message.number != self.number + 1:
                ctx.handle(paths.CONFIG).tell(SnapshotWanted(asked_by=paths.PODS))
                return
            case _:
                self.number = message.number
                if message.op is not PodOp.RESTORE:
                    self.seen.add(message.source)
                for pod in message.pods:
                    if message.op is PodOp.REMOVE:
                        wanted.pop(pod.metadata.uid, None)
                    else:
                        wanted[pod.metadata.uid] = (message.source, pod)
        self.world.live(ctx, self, again=isinstance(message, Restarted))
        ctx.wake_at(ctx.now() + END_S / 2)


class NodeStatus(Actor):
    """Knows the Node."""

    def receive(self, message, ctx):
        assert isinstance(message, WatchNodeObject)
        ctx.handle(message.asked_by).tell(NodeObjectSeen(uid="node-1"))


class World:
    """An API server, a node with its ledger and what runs there: they outlive the agent."""

    def __init__(self, seed=0, faults=()):
        self.server, self.ledger = Server(), MemoryLedger()
        self.wanted, self.runs, self.sent, self.ended, self.active = {}, {}, {}, set(), None
        self.static, self.seed, self.system = {}, seed, None
        self.began = set()
        self.start(faults)

    def start(self, faults=()):
        interceptor = FaultInterceptor(FaultPlan(faults=tuple(faults)), lambda: None)
        time = self.system.time if self.system else None
        self.system = system = SimSystem(self.seed, time=time, interceptor=interceptor)
        system.spawn(
            StatusManager.options(name="status").bind(
                (ledger_sink,), {"ledger": self.ledger}, (paths.APISTATUS,)
            )
        )
        system.spawn(PodConfig.options(name="config").bind(subscribers=(paths.PODS, paths.MIRRORS)))
        system.spawn(Node.options(name="pods").bind(self))
        system.spawn(NodeStatus.options(name="nodestatus").bind())
        system.spawn(ApiStatusWriter.options(name="apistatus").bind({"kube": self.server}))
        state = MirrorsState(node_name="n", sources=DesiredSources(expected=("file",)))
        system.spawn(MirrorManager.options(name="mirrors").bind(state, {"kube": self.server}))
        system.spawn(
            ApiSource.options(name="api").bind(
                server="https://api", config=paths.CONFIG, pods=self.server.pods, ledger=self.ledger
            )
        )

    def kill(self):
        self.system.halt()
        self.server.pods.forget_listeners()
        self.sent, self.active, self.wanted = {}, None, {}

    def live(self, ctx, node, *, again):
        """Bring what runs one step further, and say what changed."""
        now = ctx.now()
        if again:
            self.sent.clear()
        for uid, (source, pod) in self.wanted.items():
            if uid in self.ended:
                continue
            deleted = pod.metadata.deletion_timestamp is not None
            if uid not in self.runs and not deleted and pod.status.phase not in ("Failed", "Succeeded"):
                self.began.add(uid)
            self.runs.setdefault(uid, (pod, source, None))
            if deleted and self.runs[uid][2] is None:
                self.runs[uid] = (pod, source, now)
        for uid, (pod, source, since) in list(self.runs.items()):
            gone = uid not in self.wanted and source in node.seen
            if gone and since is None:
                self.runs[uid] = (pod, source, now)
            over = since is not None and now >= since + END_S
            if over:
                self.ended.add(uid)
            if over and gone:
                del self.runs[uid]
                self.sent.pop(uid, None)
                ctx.handle(paths.STATUS).tell(ForgetPodStatus(uid=Uid(uid)))
                continue
            if self.sent.get(uid) != over:
                self.sent[uid] = over
                meta, phase = pod.metadata, "Failed" if over else "Running"
                ctx.handle(paths.STATUS).tell(
                    PodStatusComposed(
                        uid=Uid(uid),
                        namespace=meta.namespace,
                        name=meta.name,
                        status=PodStatus(phase=phase),
                        finished=over,
                    )
                )
        pods = tuple(
            ActivePod(uid=Uid(uid), pod=one[0]) for uid, one in self.runs.items() if uid in self.wanted
        )
        leaving = tuple(sorted(Uid(uid) for uid in self.runs if uid not in self.wanted))
        whole = node.seen == {"api", "file"}
        for path in node.watchers:
            ctx.handle(path).tell(ActivePods(pods=pods, leaving=leaving, whole=whole))

    def manifests(self, static):
        """Have the file source list these pods: version by name."""
        self.static = static
        pods = []
        for name, version in sorted(static.items()):
            uid = f"{name}-{version}"
            meta = ObjectMeta(name=f"{name}-n", namespace="d", uid=uid, annotations=StrMap({HASH: uid}))
            pods.append(Pod(metadata=meta))
        self.system.handle(paths.CONFIG).tell(PodsSeen(source="file", pods=tuple(pods)))

    def run(self, seconds):
        self.system.run_for(seconds)

    def shown(self):
        """Return pods and mirrors on the server with their phases."""
        pods, mirrors = {}, {}
        for (_, name), raw in self.server.api.objects.items():
            mirrored = raw["metadata"].get("annotations", {}).get(MIRROR)
            (mirrors if mirrored else pods)[name] = (mirrored, raw["status"]["phase"])
        return pods, mirrors


def test_pods_run_end_and_go_and_static_pods_are_shown():
    world = World()
    world.server.api.put(name="a")
    world.server.api.put(name="b", finalizers=["example.com/wait"])
    world.server.show()
    world.manifests({"s": 1})
    world.run(3)
    assert world.shown() == ({"a": (None, "Running"), "b": (None, "Running")}, {"s-n": ("s-1", "Running")})
    for name in ("a", "b"):
        world.server.api.ask_to_delete(name)
    world.server.show()
    world.manifests({"s": 2})
    world.run(10)
    assert world.shown() == ({"b": (None, "Failed")}, {"s-n": ("s-2", "Running")})
    began = len(world.began)
    world.kill()
    world.start()
    world.manifests({"s": 2})
    world.server.show()
    world.run(10)
    assert world.shown() == ({"b": (None, "Failed")}, {"s-n": ("s-2", "Running")})
    assert len(world.began) == began, "what a finalizer keeps is not started again"


def test_pods_are_restored_while_no_server_answers_and_nothing_of_them_is_written():
    world = World()
    world.server.api.put(name="a")
    world.server.show()
    world.manifests({})
    world.run(10)
    world.kill()
    world.server.down = True
    world.start()
    world.manifests({})
    world.run(5)
    assert [pod.metadata.name for _, pod in world.wanted.values()] == ["a"]
    writes = len(world.server.api.writes)
    world.server.down = False
    world.run(5)
    assert len(world.server.api.writes) == writes, "what is restored is no news for the server"
    world.server.api.set_status("a", phase="Pending")
    world.server.show()
    world.run(1)
    assert world.shown()[0] == {"a": (None, "Running")}


@pytest.mark.parametrize("seed", [*range(10), 1037, 1073])
def test_whatever_breaks_for_a_while_server_and_node_say_the_same_in_the_end(seed):
    random = Random(seed)
    ours = ["/node/api", "/node/apistatus", "/node/mirrors", "/node/status", "/node/config"]
    lossy = ["/node/apistatus", "/node/mirrors", "/node/config"]
    kinds = [
        lambda: CrashActor(path=random.choice(ours), message="*", after=random.randrange(30)),
        lambda: DropMessage(path=random.choice(lossy), message="*Seen", after=random.randrange(6), times=2),
        lambda: DuplicateMessage(path=random.choice(ours), after=random.randrange(10)),
        lambda: DropItem(stream=PODS, after=random.randrange(6)),
        lambda: CutStream(stream=PODS, after=random.randrange(6)),
        lambda: FailOperation(port="*", after=random.randrange(20), when=random.choice(list(When))),
        lambda: HangOperation(port="*", after=random.randrange(20), when=random.choice(list(When))),
    ]
    world = World(seed, faults=[random.choice(kinds)() for _ in range(8)])
    api, static, deleted = world.server.api, {}, set()
    for step in range(30):
        name = random.choice("abcd")
        match random.randrange(7):
            case 0 if ("d", name) in api.objects:
                api.ask_to_delete(name)
                deleted.add(api.objects["d", name]["metadata"]["uid"])
            case 1:
                static = dict(static) | {random.choice("st"): step}
            case 2:
                static = {key: value for key, value in static.items() if random.random() < 0.5}
            case 3 if random.random() < 0.3:
                world.kill()
                world.start()
            case 4:
                world.server.down = not world.server.down
            case 5 if ("d", name) in api.objects:
                if api.status(name)["phase"] != "Failed":
                    api.set_status(name, phase="Unknown")
            case _:
                if ("d", name) not in api.objects:
                    api.put(name=name)
        world.server.show()
        world.manifests(static)
        world.run(random.choice([0.01, 0.3, 2.0]))
    world.server.down = False
    for _ in range(4):
        world.server.show()
        world.manifests(static)
        world.run(60)
    pods, mirrors = world.shown()
    left = {raw["metadata"]["uid"] for raw in api.objects.values()}
    assert not left & deleted
    assert set(pods.values()) <= {(None, "Running")}
    assert mirrors == {f"{name}-n": (f"{name}-{version}", "Running") for name, version in static.items()}
