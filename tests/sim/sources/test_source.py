"""Sources and merge as actors, in virtual time and under faults: a subscriber ends up with what the sources say."""

import json
from random import Random

import pytest

from actors.sources.file.actor import FileSource
from actors.sources.http.actor import HttpSource
from actors.sources.merge.actor import PodConfig
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
from api.ids import Path
from api.messages.podconfig import SnapshotWanted
from api.messages.supervisor import PodOp, PodsSnapshot
from runtime.drivers.memory.host import MemoryLedger, MemoryManifests, MemoryUrls
from runtime.kernel.actor import Actor
from runtime.kernel.intercept import FaultInterceptor
from runtime.kernel.sim import SimSystem

CONFIG, WATCHER = Path("/node/config"), Path("/node/watcher")
URL = "http://h/pods"


def manifest(name, image="i"):
    spec = {"containers": [{"name": "c", "image": image}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


class Watcher(Actor):
    """Does with the merge's messages what a supervisor does: numbered changes, a snapshot on each gap."""

    def __init__(self, world):
        self.world = world
        self.number = None
        self.pods = {}

    def on_start(self, ctx):
        ctx.handle(CONFIG).tell(SnapshotWanted(asked_by=WATCHER))

    def receive(self, message, ctx):
        if isinstance(message, PodsSnapshot):
            unseen = {key: pod for key, pod in self.pods.items() if key[0] not in message.seen}
            self.pods = unseen | {(s.source, s.pod.metadata.uid): s.pod for s in message.pods}
        elif self.number is None or message.number != self.number + 1:
            ctx.handle(CONFIG).tell(SnapshotWanted(asked_by=WATCHER))
            return
        else:
            for pod in message.pods:
                key = (message.source, pod.metadata.uid)
                if message.op is PodOp.REMOVE:
                    self.pods.pop(key, None)
                else:
                    self.pods[key] = pod
        self.number = message.number
        self.world.holds = {
            (source, pod.metadata.name): pod.spec.containers[0].image
            for (source, _), pod in self.pods.items()
        }
        self.world.removed += [
            pod.metadata.name
            for pod in getattr(message, "pods", ())
            if getattr(message, "op", None) == "REMOVE"
        ]


class World:
    """A node's folder, web server and ledger, which outlive its agent."""

    def __init__(self, seed=0, faults=()):
        self.manifests, self.urls, self.ledger = MemoryManifests(), MemoryUrls(), MemoryLedger()
        self.holds, self.removed = {}, []
        self.seed = seed
        self.system = None
        self.start(faults)

    def start(self, faults=()):
        interceptor = FaultInterceptor(FaultPlan(faults=tuple(faults)), lambda: None)
        time = self.system.time if self.system else None
        self.system = SimSystem(self.seed, time=time, interceptor=interceptor)
        self.system.spawn(Watcher.options(name="watcher").bind(self))
        self.system.spawn(PodConfig.options(name="config").bind(subscribers=(WATCHER,)))
        files = FileSource.options(name="files").bind(
            path="/m",
            node_name="n",
            config=CONFIG,
            manifests=self.manifests,
            changes=self.manifests.changes,
            ledger=self.ledger,
        )
        self.system.spawn(files)
        urls = HttpSource.options(name="urls").bind(url=URL, node_name="n", config=CONFIG, urls=self.urls)
        self.system.spawn(urls)

    def kill(self):
        self.system.halt()
        self.manifests.changes.forget_listeners()

    def put(self, name, image="i", file=None):
        document = json.dumps(manifest(name, image)).encode()
        self.manifests.put(f"/m/{file or name}.json", document)

    def serve(self, *names):
        items = [manifest(name) for name in names]
        body = json.dumps({"apiVersion": "v1", "kind": "List", "items": items}).encode()
        self.urls.put(URL, body if names else b"")

    def run(self, seconds):
        self.system.run_for(seconds)


def test_pods_of_files_and_url_reach_the_subscriber_and_leave_it():
    world = World()
    world.put("a")
    world.serve("w")
    world.run(3)
    assert world.holds == {("file", "a-n"): "i", ("http", "w-n"): "i"}
    world.put("a", image="j")
    world.serve()
    world.run(21)
    assert world.holds == {("file", "a-n"): "j"}
    world.manifests.remove("/m/a.json")
    world.run(1)
    assert world.holds == {}


def test_a_manifest_reaches_the_subscriber_within_a_blink():
    world = World()
    world.run(5)
    world.put("a")
    # Four virtual steps of at most 20 ms each: reading begins, reading ends, merge, subscriber.
    world.run(0.1)
    assert world.holds == {("file", "a-n"): "i"}


def test_a_crash_of_the_merge_or_a_source_removes_no_pod():
    faults = [
        CrashActor(path="/node/config", message="PodsSeen", after=1, times=2),
        CrashActor(path="/node/files", message="Outcome", after=4, times=2),
        CrashActor(path="/node/urls", message="Alarm", after=1, times=1),
    ]
    world = World(faults=faults)
    world.put("a")
    world.serve("w")
    world.run(120)
    assert world.system.interceptor.struck == tuple((fault, fault.times) for fault in faults)
    assert world.holds == {("file", "a-n"): "i", ("http", "w-n"): "i"}
    assert world.removed == []


def test_a_pod_whose_file_went_while_the_merge_was_down_is_removed():
    world = World()
    world.put("a")
    world.put("b")
    world.run(1)
    world.system.kill(world.system.handle(CONFIG), no_restart=False)
    world.manifests.remove("/m/a.json")
    world.run(3)
    assert world.holds == {("file", "b-n"): "i"}


def test_a_file_that_breaks_while_the_agent_is_down_keeps_its_pod():
    world = World()
    world.put("a")
    world.run(1)
    world.kill()
    world.manifests.put("/m/a.json", b"{")
    world.holds = {}
    world.start()
    world.run(1)
    assert world.holds == {("file", "a-n"): "i"}


@pytest.mark.parametrize("seed", range(12))
def test_whatever_breaks_for_a_while_the_subscriber_ends_up_with_what_the_sources_say(seed):
    random = Random(seed)
    kinds = [
        lambda: CrashActor(path="/node/*", message="*", after=random.randrange(40)),
        lambda: DropMessage(path="/node/*", after=random.randrange(10), times=2),
        lambda: DuplicateMessage(path="/node/*", after=random.randrange(10)),
        lambda: DropItem(stream="manifests.changes", after=random.randrange(6)),
        lambda: CutStream(stream="manifests.changes", after=random.randrange(6)),
        lambda: FailOperation(port="*", after=random.randrange(10), when=random.choice(list(When))),
        lambda: HangOperation(port="*", after=random.randrange(10), when=random.choice(list(When))),
    ]
    world = World(seed, faults=[random.choice(kinds)() for _ in range(8)])
    files, served = {}, ()
    for _ in range(30):
        name = random.choice("abcd")
        match random.randrange(5):
            case 0:
                world.manifests.remove(f"/m/{name}.json")
                files.pop(name, None)
            case 1:
                served = tuple(sorted(random.sample("wxyz", random.randrange(4))))
                world.serve(*served)
            case 2 if random.random() < 0.3:
                world.kill()
                world.start()
            case _:
                files[name] = random.choice("ij")
                world.put(name, image=files[name])
        world.run(random.choice([0.01, 0.3, 2.0]))
    world.serve(*served)
    world.run(120)
    wanted = {("file", f"{name}-n"): image for name, image in files.items()}
    wanted |= {("http", f"{name}-n"): "i" for name in served}
    assert world.holds == wanted
