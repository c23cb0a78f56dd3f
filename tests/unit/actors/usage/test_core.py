"""UsageManager's rounds: what is read when, what a hang costs, what is believed, who is told."""

import itertools

import pytest
from msgspec.structs import replace

from actors.rules.nodewatch import SOON_S
from actors.usage.core import PUBLISH_S, WARM_ROUNDS, decide
from actors.usage.state import Part, UsagePolicy, UsageState
from api import paths
from api.errors import Failure, FailureKind
from api.ids import OpId, Path
from api.lifecycle import Start, Tell
from api.messages.kernel import Alarm, Outcome, Restarted
from api.messages.node import NodeChanged, WatchNode
from api.messages.usage import ReadUsageNow, UnwatchUsage, UsageRead, WatchUsage
from api.ports.images import ImageFs, ImageFsUsage
from api.ports.node import CgroupDriver, NodeFacts
from api.ports.runtime import (
    InspectPod,
    ListPods,
    PodListing,
    RuntimeContainer,
    RuntimeContainerState,
    RuntimePod,
    Sandbox,
    SandboxState,
)
from api.ports.usage import (
    ContainerStat,
    ContainerStats,
    DiskReading,
    DisksMeasured,
    FolderReading,
    FoldersMeasured,
    GroupReading,
    MeasureDisks,
    MeasureFolders,
    NodeRead,
    PodFoldersReading,
    PodReading,
    PodsRead,
    ReadContainerStats,
    ReadNode,
    ReadPods,
)
from api.usage import CpuUsage, FsUsage, MemoryUsage

NS = 1_000_000_000
GIB, MIB = 1 << 30, 1 << 20
WATCHER = Path("/node/eviction")
TIMED_OUT = Failure(kind=FailureKind.TIMED_OUT, message="not answered within 8 s")


def pod(uid, *, running=True, ours=True, pid=100, host_network=False):
    sandbox = Sandbox(
        id=f"box-{uid}",
        uid=uid,
        name=f"pod-{uid}",
        namespace="default",
        attempt=0,
        state=SandboxState.READY,
        created_at=5,
        host_network=host_network,
    )
    container = RuntimeContainer(
        id=f"memory://{uid}-main",
        sandbox_id=sandbox.id,
        name="main",
        attempt=0,
        image="x",
        state=RuntimeContainerState.RUNNING if running else RuntimeContainerState.EXITED,
        created_at=6,
        started_at=6 if running else None,
        pid=pid if running else 0,
    )
    return RuntimePod(
        uid=uid,
        name=f"pod-{uid}",
        namespace="default",
        sandboxes=(sandbox,),
        containers=(container,),
        ours=ours,
    )


def disk(**fields):
    good = {"capacity_bytes": 100 * GIB, "available_bytes": 50 * GIB, "used_bytes": 50 * GIB}
    good |= {"inodes": 1000, "inodes_free": 500, "inodes_used": 500}
    return FsUsage(at=9, **{**good, **fields})


class World:
    """Answers every call of a core, but those of parts that hang; time is the test's."""

    def __init__(self, **policy):
        self.state = UsageState(policy=UsagePolicy(node_name="node1", **policy))
        self.now = 1000.0
        self.ops = (OpId(number) for number in itertools.count(1))
        self.pods = [pod("a"), pod("b")]
        self.hanging = set()
        self.failing = {}
        self.open = {}
        self.asked = []
        self.ports = {}
        self.told = []
        self.hung_pods = set()
        self.pids = {}
        self.working_set = {}
        self.used = {}
        self.parts = set()
        """Pods of which the volume ``cache`` cannot be counted to the end."""
        self.disk = disk()
        self.images = ImageFs(mountpoint="/images", capacity_bytes=10 * GIB, available_bytes=5 * GIB)
        self.cpu_step_ns = NS
        self.totals = 0
        self.facts = NodeFacts()
        """What is answered to who follows the node; None: nothing."""
        self.follows = 0

    def tell(self, message):
        decision = decide(self.state, message, self.now, int(self.now * NS), lambda: next(self.ops))
        self.state = decision.state
        self.wake_at = decision.wake_at
        for action in decision.actions:
            match action:
                case Start():
                    self.asked.append(action.call)
                    self.ports[type(action.call)] = action.port
                    self.open[action.op] = (action, self.now)
                case Tell(message=WatchNode()):
                    self.follows += 1
                    if self.facts is not None:
                        self.tell(NodeChanged(facts=self.facts))
                case Tell():
                    self.told.append((action.to, action.message))

    def settle(self):
        """Answer what does not hang, until nothing more is asked."""
        while left := [op for op, (start, _) in self.open.items() if type(start.call) not in self.hanging]:
            start, since = self.open.pop(left[0])
            failure = self.failing.get(type(start.call))
            self.tell(
                Outcome(
                    op=start.op,
                    call=type(start.call).__name__,
                    result=None if failure else self.answer(start.call),
                    failure=failure,
                    started_at=since,
                    ended_at=self.now,
                )
            )

    def expire(self):
        """Let the deadlines of what hangs pass."""
        for op, (start, since) in list(self.open.items()):
            del self.open[op]
            self.tell(
                Outcome(
                    op=op,
                    call=type(start.call).__name__,
                    failure=TIMED_OUT,
                    started_at=since,
                    ended_at=self.now,
                )
            )
            self.settle()

    def round(self):
        """Let time pass until the next round is due, and carry it out as far as it goes."""
        self.now = max(self.now, self.state.rounds.next_at)
        self.tell(Alarm(at=self.now))
        self.settle()

    def wait(self, seconds):
        self.now += seconds
        self.tell(Alarm(at=self.now))
        self.settle()

    def begin(self, rounds=1):
        self.now = 1000.0
        self.tell(None)
        self.settle()
        for _ in range(rounds - 1):
            self.round()

    def answer(self, call):
        at = int(self.now * NS)
        self.totals = int((self.now - 900) * self.cpu_step_ns)
        match call:
            case ListPods():
                return PodListing(pods=tuple(self.pods), complete=True)
            case ReadNode():
                return NodeRead(
                    at=at,
                    cpus=2,
                    memory_bytes=8 * GIB,
                    cpu=CpuUsage(at=at, clock_ns=at, total_ns=self.totals),
                    memory=MemoryUsage(at=at, usage_bytes=2 * GIB, working_set_bytes=GIB),
                    pids=100,
                    pid_limit=1000,
                )
            case MeasureDisks():
                return DisksMeasured(
                    rows=tuple(
                        DiskReading(name=d.name, path=d.path, device=n, fs=self.disk)
                        for n, d in enumerate(call.disks)
                    )
                )
            case ImageFsUsage():
                return self.images
            case ReadPods():
                return PodsRead(rows=tuple(self.reading(place, at) for place in call.pods))
            case MeasureFolders():
                return FoldersMeasured(rows=tuple(self.walked(place, at) for place in call.pods))
            case InspectPod(uid=uid):
                return next(replace(p, containers=self.inspected(p)) for p in self.pods if p.uid == uid)
            case ReadContainerStats():
                return ContainerStats(
                    rows=tuple(
                        ContainerStat(id=c.id, layer=FsUsage(at=at, used_bytes=3 * MIB, inodes_used=30))
                        for p in self.pods
                        for c in p.containers
                    )
                )

    def inspected(self, pod):
        return tuple(replace(c, pid=self.pids.get(pod.uid, c.pid)) for c in pod.containers)

    def reading(self, place, at):
        if place.uid in self.hung_pods:
            return PodReading(uid=place.uid, trouble="hangs for 2.0 s now")
        used = self.working_set.get(place.uid, 64 * MIB)
        rows = tuple(
            GroupReading(
                id=c.id,
                cpu=CpuUsage(at=at, clock_ns=at, total_ns=self.totals // 10),
                memory=MemoryUsage(at=at, usage_bytes=used, working_set_bytes=used),
                pids=3,
                source="memory",
            )
            for c in place.containers
        )
        return PodReading(uid=place.uid, containers=rows)

    def walked(self, place, at):
        if place.uid in self.hung_pods:
            return PodFoldersReading(uid=place.uid, at=at, measured=False, trouble="hangs for 3.0 s now")
        used = self.used.get(place.uid, MIB)
        return PodFoldersReading(
            uid=place.uid,
            at=at,
            logs=(FolderReading(name="main", used_bytes=2 * MIB, inodes=3),),
            volumes=(
                FolderReading(
                    name="cache",
                    kind="empty-dir",
                    used_bytes=used,
                    inodes=5,
                    at_least=place.uid in self.parts,
                ),
                FolderReading(name="ram", kind="empty-dir", used_bytes=7, inodes=1, memory=True, fs=disk()),
            ),
            other_bytes=4096,
            other_inodes=1,
        )

    @property
    def usage(self):
        return self.state.usage

    def of(self, uid):
        return next(row for row in self.usage.pods if row.uid == uid)


@pytest.fixture
def world():
    return World()


def kinds(calls):
    return [type(call) for call in calls]


def test_each_part_is_asked_of_the_port_that_knows_it():
    world = World()
    world.pids = {"a": 0}
    world.pods = [pod("a", pid=0), pod("b")]
    world.begin(rounds=2)
    assert world.ports == {
        ListPods: "runtime",
        InspectPod: "runtime",
        ReadContainerStats: "runtime",
        ImageFsUsage: "images",
        ReadNode: "usage",
        MeasureDisks: "usage",
        ReadPods: "usage",
        MeasureFolders: "usage",
    }


def test_a_round_reads_every_part_once_and_is_told_once(world):
    world.tell(WatchUsage(asked_by=WATCHER))
    world.settle()
    assert sorted(kind.__name__ for kind in kinds(world.asked)) == sorted(
        kind.__name__
        for kind in (
            ListPods,
            ReadNode,
            MeasureDisks,
            ImageFsUsage,
            ReadContainerStats,
            ReadPods,
            MeasureFolders,
        )
    )
    [(to, message)] = world.told
    assert to == WATCHER
    assert isinstance(message, UsageRead)
    assert [row.name for row in message.usage.pods] == ["pod-a", "pod-b"]
    assert message.usage.troubles == ()


def test_the_numbers_of_a_pod_are_those_that_were_read(world):
    world.begin(2)
    row = world.of("a")
    assert row.memory.working_set_bytes == 64 * MIB
    assert row.cpu.nano_cores == NS // 10
    assert row.pids == 3
    assert row.containers[0].rootfs.used_bytes == 3 * MIB
    assert row.containers[0].logs.used_bytes == 2 * MIB
    # A volume in memory is no part of what it has on disk.
    assert row.ephemeral.used_bytes == 3 * MIB + 2 * MIB + MIB + 4096
    assert row.ephemeral.inodes_used == 30 + 3 + 5 + 1
    assert row.disk_used(rootfs=False, logs=True, volumes=True) == (3 * MIB, 8)
    assert row.disk_used(rootfs=True, logs=False, volumes=False) == (3 * MIB, 30)


def test_the_first_rounds_follow_each_other_sooner_then_every_period(world):
    world.begin()
    pauses = []
    for _ in range(WARM_ROUNDS + 2):
        pauses.append(world.state.rounds.next_at - world.now)
        world.round()
    assert pauses[:WARM_ROUNDS] == [2.0] * WARM_ROUNDS
    assert pauses[-1] == 10.0


def test_a_light_round_begins_at_once_and_leaves_out_what_is_not_due(world):
    world.begin(WARM_ROUNDS + 1)
    number = world.state.rounds.number
    walked_at = world.of("a").disk_as_of
    world.now += 1.0
    world.tell(ReadUsageNow(asked_by=WATCHER, everything=False))
    parts = {asked.part for asked in world.state.asked.values()}
    world.settle()
    assert world.state.rounds.published == number + 1
    assert world.usage.node.as_of == world.now
    assert world.of("a").as_of == world.now
    assert world.of("a").disk_as_of == walked_at
    assert Part.STATS not in parts
    assert world.state.rounds.next_at == world.now + 10.0


def test_a_light_round_never_replaces_a_full_one():
    messages = [ReadUsageNow(asked_by=WATCHER), ReadUsageNow(asked_by=WATCHER, everything=False)]
    assert len({one.conflation_key() for one in messages}) == 2


@pytest.mark.parametrize(
    "part", [ListPods, ReadNode, MeasureDisks, ImageFsUsage, ReadContainerStats, ReadPods, MeasureFolders]
)
def test_a_part_that_hangs_holds_up_no_other_and_no_round(world, part):
    world.begin(WARM_ROUNDS + 1)
    world.hanging = {part}
    world.tell(ReadUsageNow(asked_by=WATCHER))
    world.settle()
    number = world.state.rounds.number
    assert world.state.rounds.published == number - 1
    assert world.wake_at == pytest.approx(world.now + PUBLISH_S)
    world.now += PUBLISH_S
    world.tell(Alarm(at=world.now))
    assert world.state.rounds.published == number
    assert world.state.rounds.late == 1
    # What it had read before is still there, and the next round asks only for the others.
    assert world.of("a").memory is not None
    assert world.usage.node.memory is not None
    assert world.usage.node.fs is not None
    world.asked.clear()
    world.round()
    assert part not in kinds(world.asked)
    assert ReadNode in kinds(world.asked) or part is ReadNode


@pytest.mark.parametrize("fails", [False, True])
def test_folders_are_walked_after_the_pods_were_read_whatever_became_of_that(world, fails):
    world.hanging = {ReadPods}
    world.failing = {ReadPods: TIMED_OUT} if fails else {}
    world.begin(1)
    assert MeasureFolders not in kinds(world.asked)
    world.hanging = set()
    world.settle()
    assert kinds(world.asked).count(MeasureFolders) == 1


def test_folders_are_walked_of_pods_of_which_nothing_runs(world):
    world.pods = [pod("a", running=False)]
    world.begin(1)
    assert ReadPods not in kinds(world.asked)
    assert MeasureFolders in kinds(world.asked)


def test_rows_that_cannot_be_read_again_are_named_with_their_age_and_at_last_left_out(world):
    world.begin(WARM_ROUNDS + 1)
    world.hung_pods = {"a"}
    for _ in range(3):
        world.round()
    row = world.of("a")
    assert row.memory is not None
    assert any("hangs for" in why for why in row.troubles)
    assert any("was last read 30 s ago" in why for why in row.troubles)
    assert world.of("b").troubles == ()
    for _ in range(4):
        world.round()
    assert world.of("a").memory is None
    assert world.of("a").cpu is None
    assert any(why.startswith("pod default/pod-a: ") for why in world.usage.troubles)
    assert world.of("b").memory is not None


def test_a_pod_without_stats_is_named_and_has_no_zeros(world):
    world.pods = [pod("a"), pod("idle", running=False), pod("odd", pid=0)]
    world.begin(2)
    idle, odd = world.of("idle"), world.of("odd")
    assert (idle.memory, idle.cpu, idle.pids) == (None, None, None)
    assert "no usage: no container runs" in idle.troubles[0]
    assert odd.memory is None
    assert "no usage of main: the runtime shows no process of it" in odd.troubles
    assert world.of("a").troubles == ()


def test_a_process_that_the_listing_leaves_out_is_asked_for_once_in_a_while(world):
    world.pods = [pod("a"), pod("odd", pid=0), pod("never", pid=0)]
    world.pids = {"odd": 4711}
    world.begin(WARM_ROUNDS)
    assert world.of("odd").memory is not None
    [call] = [call for call in world.asked if isinstance(call, ReadPods)][-1:]
    assert {place.uid: place.containers[0].pid for place in call.pods} == {"a": 100, "odd": 4711}
    assert [call.uid for call in world.asked if isinstance(call, InspectPod)] == ["odd", "never"]
    for _ in range(7):
        world.round()
    assert [call.uid for call in world.asked if isinstance(call, InspectPod)] == ["odd", "never", "never"]


def test_what_no_cgroup_counts_the_runtime_may(world):
    world.pods = [pod("odd", pid=0)]
    told = ContainerStat(
        id="memory://odd-main",
        cpu=CpuUsage(at=1, clock_ns=1, total_ns=5),
        memory=MemoryUsage(at=1, usage_bytes=2 * MIB, working_set_bytes=MIB),
    )
    answer = world.answer
    world.answer = lambda call: (
        ContainerStats(rows=(told,)) if isinstance(call, ReadContainerStats) else answer(call)
    )
    world.begin(2)
    assert world.of("odd").memory.working_set_bytes == MIB
    assert world.of("odd").containers[0].source == "runtime"


def test_pods_of_others_have_no_place_in_it_unless_they_are_taken_over():
    for take_over, names in ((False, ["pod-a"]), (True, ["pod-a", "pod-x"])):
        world = World(take_over=take_over)
        world.pods = [pod("a"), pod("x", ours=False)]
        world.begin()
        assert [row.name for row in world.usage.pods] == names


def test_an_absurd_reading_of_a_pod_is_refused_and_named(world):
    world.begin(WARM_ROUNDS)
    world.working_set = {"a": 9 * GIB, "b": -5}
    world.round()
    for uid, why in (("a", "exceeds the maximum"), ("b", "negative")):
        row = world.of(uid)
        assert row.memory.working_set_bytes == 64 * MIB
        assert any(why in text and text.startswith("container main: ") for text in row.troubles), row.troubles
    world.working_set = {}
    world.round()
    assert world.usage.troubles == ()


def test_what_stands_for_a_refused_reading_is_as_old_as_it_is(world):
    world.begin(WARM_ROUNDS)
    node_as_of, pod_as_of = world.usage.node.as_of, world.of("a").as_of
    world.working_set = {"a": 9 * GIB}
    answer = world.answer

    def lie(call):
        result = answer(call)
        if not isinstance(call, ReadNode):
            return result
        memory = replace(result.memory, working_set_bytes=-1)
        return replace(result, memory=memory, pids=1 << 40, pid_limit=100)

    world.answer = lie
    world.round()
    assert world.usage.node.memory.working_set_bytes > 0
    assert (world.usage.node.as_of, world.of("a").as_of) == (node_as_of, pod_as_of)
    assert world.of("b").as_of > pod_as_of
    assert world.usage.node.pids is None, "nobody knows how old a count is that stands for a refused one"
    world.answer, world.working_set = answer, {}
    world.round()
    assert world.usage.node.as_of > node_as_of
    assert world.of("a").as_of > pod_as_of


def test_no_pod_takes_more_than_there_is_while_the_machine_cannot_be_read():
    world = World(memory_bytes=8 * GIB)
    world.hanging = {ReadNode}
    world.working_set = {"a": 9 * GIB}
    world.begin(WARM_ROUNDS)
    row = world.of("a")
    assert row.memory is None
    assert any("exceeds the maximum" in text for text in row.troubles), row.troubles
    assert world.of("b").memory.working_set_bytes == 64 * MIB


def test_a_volume_larger_than_its_disk_is_refused_and_named(world):
    world.begin(WARM_ROUNDS)
    world.used = {"a": 200 * GIB}
    world.tell(ReadUsageNow(asked_by=WATCHER))
    world.settle()
    [cache] = [volume for volume in world.of("a").volumes if volume.name == "cache"]
    assert cache.fs.used_bytes == MIB
    assert any("volume cache" in why for why in world.of("a").troubles)


def test_an_absurd_file_system_is_refused_and_named(world):
    world.begin(WARM_ROUNDS)
    world.disk = disk(available_bytes=101 * GIB)
    world.images = replace(world.images, available_bytes=-1)
    world.round()
    assert world.usage.node.fs.available_bytes == 50 * GIB
    assert world.usage.node.image_fs.available_bytes == 50 * GIB
    assert len(world.usage.troubles) >= 2


def test_time_that_stands_still_is_named(world):
    world.begin(WARM_ROUNDS)
    answer = world.answer
    frozen = answer(ReadNode())
    world.answer = lambda call: frozen if isinstance(call, ReadNode) else answer(call)
    world.round()
    world.round()
    assert any("machine: time stands still" in why for why in world.usage.troubles)


def test_a_part_that_fails_is_named_and_what_was_read_stands(world):
    world.begin(WARM_ROUNDS)
    world.failing = {ReadPods: TIMED_OUT, MeasureDisks: TIMED_OUT}
    world.round()
    assert f"pods: {TIMED_OUT.message}" in world.usage.troubles
    assert f"file systems: {TIMED_OUT.message}" in world.usage.troubles
    assert world.of("a").memory is not None
    assert world.usage.node.fs is not None


def test_pods_are_read_though_the_runtime_does_not_list_them(world):
    world.begin(WARM_ROUNDS)
    before = world.of("a").as_of
    world.hanging = {ListPods}
    world.round()
    world.now += 8.0
    world.hanging = set()
    world.expire()
    assert world.of("a").as_of == before
    assert world.state.pods["a"].as_of > before


def test_a_runtime_that_has_no_such_thing_is_not_asked_again(world):
    refused = Failure(kind=FailureKind.REJECTED, message="it counts nothing")
    world.failing = {ImageFsUsage: refused, ReadContainerStats: refused}
    world.begin(2)
    assert {part for part, one in world.state.problems.items() if one.unoffered} == {Part.IMAGES, Part.STATS}
    assert world.usage.troubles == ()
    assert world.usage.node.image_fs is None
    world.asked.clear()
    world.round()
    assert not {ImageFsUsage, ReadContainerStats} & set(kinds(world.asked))


def test_images_on_another_device_are_told(world):
    world.begin(2)
    assert world.usage.node.dedicated_image_fs is True


def test_folders_are_walked_less_often_the_longer_it_takes(world):
    answer = world.answer

    def slow(call):
        result = answer(call)
        if isinstance(call, MeasureFolders):
            rows = (replace(r, took_s=3.0 if r.uid == "a" else 0.001) for r in result.rows)
            result = FoldersMeasured(rows=tuple(rows))
        return result

    world.answer = slow
    world.begin(WARM_ROUNDS)
    walks = {"a": 0, "b": 0}
    world.asked.clear()
    for _ in range(12):
        world.round()
    for call in world.asked:
        if isinstance(call, MeasureFolders):
            for place in call.pods:
                walks[place.uid] += 1
    assert walks["a"] <= 2
    assert walks["b"] >= 4


def test_what_could_not_be_counted_in_time_keeps_its_last_value_and_is_said_to_be_at_least_that(world):
    world.used = {"a": 50 * MIB}
    world.begin(WARM_ROUNDS)
    world.used, world.parts = {"a": 0}, {"a"}
    for used, shown in ((0, 50 * MIB), (60 * MIB, 60 * MIB), (MIB, 60 * MIB)):
        world.used["a"] = used
        world.tell(ReadUsageNow(asked_by=WATCHER))
        world.settle()
        cache = next(volume for volume in world.of("a").volumes if volume.name == "cache")
        assert (cache.fs.used_bytes, cache.fs.at_least) == (shown, True)
        assert world.of("a").ephemeral.at_least
        assert world.of("a").ephemeral.used_bytes >= shown
    world.parts = set()
    world.tell(ReadUsageNow(asked_by=WATCHER))
    world.settle()
    cache = next(volume for volume in world.of("a").volumes if volume.name == "cache")
    assert (cache.fs.used_bytes, cache.fs.at_least, world.of("a").ephemeral.at_least) == (MIB, False, False)
    assert not world.of("b").ephemeral.at_least


def test_reading_now_reads_everything_at_once(world):
    world.begin(WARM_ROUNDS + 1)
    world.now += 0.5
    world.asked.clear()
    world.tell(ReadUsageNow(asked_by=WATCHER))
    world.settle()
    assert {ReadPods, MeasureFolders, ReadContainerStats, ReadNode} <= set(kinds(world.asked))
    assert world.state.rounds.published == world.state.rounds.number


def test_a_late_watcher_is_told_the_last_round_at_once_and_one_that_left_nothing(world):
    world.begin()
    world.tell(WatchUsage(asked_by=WATCHER))
    assert [to for to, _ in world.told] == [WATCHER]
    world.tell(WatchUsage(asked_by=WATCHER))
    assert world.state.watchers == (WATCHER,)
    world.told.clear()
    world.tell(UnwatchUsage(asked_by=WATCHER))
    world.round()
    assert world.told == []


def test_a_pod_that_is_gone_is_forgotten(world):
    world.begin()
    world.pods = [pod("b")]
    world.round()
    assert [row.uid for row in world.usage.pods] == ["b"]
    assert set(world.state.pods) == set(world.state.folders) == {"b"}


def test_pods_in_the_network_of_the_machine_have_none_of_their_own(world):
    world.pods = [pod("a", host_network=True)]
    world.begin()
    [call] = [call for call in world.asked if isinstance(call, ReadPods)]
    assert [place.network for place in call.pods] == [False]


# the cgroup of all pods


def groups_read(world):
    return [call.pods_group for call in world.asked if isinstance(call, ReadNode)]


@pytest.mark.parametrize(
    ("driver", "group"),
    [
        (CgroupDriver.CGROUPFS, "/a/b/kubepods"),
        (CgroupDriver.SYSTEMD, "/a.slice/a-b.slice/a-b-kubepods.slice"),
    ],
)
def test_all_pods_are_read_where_the_node_says_that_their_cgroups_are(driver, group):
    world = World()
    world.state = replace(world.state, pods_group="/a/b/kubepods")
    world.facts = NodeFacts(cgroup_root="/a/b", cgroup_driver=driver)
    world.begin(3)
    assert groups_read(world) == ["/a/b/kubepods", group, group]
    assert world.follows == 1
    other = "/c/kubepods" if driver is CgroupDriver.CGROUPFS else "/c.slice/c-kubepods.slice"
    world.tell(NodeChanged(facts=NodeFacts(cgroup_root="/c", cgroup_driver=driver)))
    world.round()
    assert groups_read(world)[-1] == other


def test_a_node_of_which_nothing_is_known_yet_holds_up_no_round_and_is_asked_about_again():
    world = World()
    world.facts = None
    world.begin()
    assert world.state.rounds.published == 1
    world.wait(SOON_S)
    assert world.follows == 2
    world.facts = NodeFacts()
    world.wait(SOON_S)
    assert world.state.described
    assert world.follows == 3
    world.wait(SOON_S)
    assert world.follows == 3
    world.tell(Restarted(path=paths.NODE, incarnation=1, cause="x"))
    assert world.follows == 4
