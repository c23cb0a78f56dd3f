"""EvictionManager call by call: one victim a round, nothing on an old reading, images before pods, pressure that lasts."""

import pytest
from msgspec.structs import replace

from actors.eviction.core import CLEAR_WAIT_S, KILL_WAIT_S, RECLAIM_WAIT_S, begin, decide
from actors.eviction.explain import explain
from actors.eviction.report import report
from actors.eviction.state import Clearing, EvictionState, Killing, Reclaiming
from actors.rules.nodeevent import node_event_rows
from api import paths
from api.eviction import EvictionPolicy, Pressure, Quantity, Signal, Threshold
from api.kube.objects.container import Container, ResourceRequirements
from api.kube.objects.meta import ObjectMeta
from api.kube.objects.pod import Pod, PodSpec
from api.kube.objects.volume import EmptyDirVolumeSource, Volume
from api.lifecycle import Tell
from api.messages.admission import NodePressure
from api.messages.events import EventSeen
from api.messages.eviction import (
    ActivePod,
    ActivePods,
    FinishedCleared,
    ImagesCollected,
    PodKilled,
    WatchPressure,
)
from api.messages.imagegc import CollectImages
from api.messages.kernel import Alarm, Restarted
from api.messages.nodestatus import PressureSeen
from api.messages.pod import KillCause, KillPod
from api.messages.supervisor import ClearFinished, WatchPods
from api.messages.usage import ReadUsageNow, UsageRead, WatchUsage
from api.usage import (
    ContainerUsage,
    FsUsage,
    MemoryUsage,
    NodeUsage,
    PodUsage,
    Process,
    Usage,
    VolumeUsage,
)

MI, GI = 1 << 20, 1 << 30
WALL = 1_700_000_000_000_000_000
HARD = Threshold(signal=Signal.MEMORY, value=Quantity(amount=GI))
NODEFS = Threshold(signal=Signal.NODEFS, value=Quantity(percent=10.0))
NAMES = ("hog", "modest", "tiny")


def pod(name, requests="", grace=30, **spec):
    resources = ResourceRequirements(requests={"memory": requests} if requests else {})
    return ActivePod(
        uid=name,
        pod=Pod(
            metadata=ObjectMeta(name=name, namespace="default", uid=name),
            spec=PodSpec(
                containers=(Container(name="a", image="x", resources=resources),),
                termination_grace_period_seconds=grace,
                **spec,
            ),
        ),
    )


def row(name, used, at, volume=0):
    memory = MemoryUsage(at=1, usage_bytes=used, working_set_bytes=used)
    return PodUsage(
        uid=name,
        namespace="default",
        name=name,
        as_of=at,
        disk_as_of=at,
        memory=memory,
        pids=used // MI,
        containers=(ContainerUsage(name="a", id="a", memory=memory),),
        volumes=(
            VolumeUsage(name="v", kind="empty-dir", fs=FsUsage(at=1, used_bytes=volume, inodes_used=1)),
        ),
        ephemeral=FsUsage(at=1, used_bytes=volume, inodes_used=1),
    )


class Hand:
    """Drives the core; the clock is its own."""

    def __init__(self, *thresholds, pods=NAMES, **policy):
        self.now = 1000.0
        self.used = dict.fromkeys(pods, 100 * MI)
        self.volumes = {}
        self.free, self.disk_free = 8 * GI, 50
        self.dedicated = None
        state = EvictionState(
            policy=EvictionPolicy(thresholds=thresholds, **policy), node_name="n", epoch="0"
        )
        self.actions = []
        self.take(begin(state, self.now, WALL))
        self.first = self.actions
        self.tell(ActivePods(pods=tuple(pod(name) for name in pods)))

    def take(self, decision):
        self.before = getattr(self, "state", decision.state)
        self.state, self.wake_at = decision.state, decision.wake_at
        self.actions = [one for one in decision.actions if isinstance(one, Tell)]

    def tell(self, message, after_s=0.0):
        self.now += after_s
        self.take(decide(self.state, message, self.now, WALL))
        return self

    def usage(self, at=None, **node):
        at = self.now if at is None else at
        fields = {
            "as_of": at,
            "disk_as_of": at,
            "image_as_of": at,
            "capacity_bytes": 16 * GI,
            "memory": MemoryUsage(
                at=1, usage_bytes=1, working_set_bytes=16 * GI - self.free, available_bytes=self.free
            ),
            "fs": FsUsage(
                at=1, capacity_bytes=100, available_bytes=self.disk_free, inodes=100, inodes_free=90
            ),
            "image_fs": FsUsage(
                at=1, capacity_bytes=100, available_bytes=self.disk_free, inodes=100, inodes_free=90
            ),
            "pids": 100,
            "pid_limit": 1000,
            "dedicated_image_fs": self.dedicated,
            **node,
        }
        rows = tuple(row(name, used, at, self.volumes.get(name, 0)) for name, used in self.used.items())
        return Usage(at=WALL, as_of=at, round=1, node=NodeUsage(**fields), pods=rows)

    def read(self, after_s=10.0, age_s=0.0, **node):
        """Let a reading come, begun `age_s` before."""
        self.now += after_s
        return self.tell(UsageRead(usage=self.usage(self.now - age_s, **node)))

    def end(self, uid, after_s=0.0):
        """Let a pod stop, and all that it had be removed."""
        self.tell(PodKilled(uid=uid), after_s)
        left = tuple(one for one in self.state.active if one.uid != uid)
        return self.tell(ActivePods(pods=left))

    def cleared(self, after_s=0.0):
        """Let all pods that have ended let go of what is kept of them."""
        [asked] = self.sent(ClearFinished)
        return self.tell(FinishedCleared(run=asked.run, pods=0), after_s)

    def sent(self, kind):
        return [one.message for one in self.actions if isinstance(one.message, kind)]

    @property
    def kill(self):
        found = self.sent(KillPod)
        return found[0] if found else None

    @property
    def pressure(self):
        found = self.sent(NodePressure)
        return found[0].conditions if found else None


def test_it_begins_by_asking_for_pods_and_usage():
    hand = Hand(HARD)
    assert [(one.to, type(one.message)) for one in hand.first] == [
        (paths.USAGE, WatchUsage),
        (paths.PODS, WatchPods),
    ]


def test_no_threshold_and_no_limit_is_no_action():
    hand = Hand()
    hand.free, hand.disk_free = 0, 0
    assert hand.read().kill is None
    assert hand.state.pressure.conditions == ()


def test_a_hard_threshold_takes_the_largest_pod_at_once_with_the_numbers_in_its_message():
    hand = Hand(HARD)
    hand.used["modest"], hand.free = 2 * GI, 512 * MI
    hand.read()
    kill = hand.kill
    message = (
        "The node was low on resource: memory. Threshold quantity: 1Gi, available: 512Mi. "
        "Container a was using 2Gi, request is 0, has larger consumption of memory. "
    )
    assert kill == KillPod(
        uid="modest", cause=KillCause.EVICTED, grace_s=1, evict=True, reason="Evicted", message=message, asked_by=paths.EVICTION
    )  # fmt: skip
    [event] = hand.sent(EventSeen)
    assert (event.uid, event.kind, event.reason, event.message) == ("modest", "Warning", "Evicted", message)
    assert [one.to for one in hand.actions if isinstance(one.message, KillPod)] == [paths.PODS]
    assert [one.to for one in hand.actions if isinstance(one.message, EventSeen)] == [paths.EVENTS]
    assert hand.pressure == (Pressure.MEMORY,)
    [fact] = node_event_rows(hand.state.node_events, hand.state.node_name)
    assert (fact.reason, fact.message, fact.pod) == (
        "EvictionThresholdMet",
        "Attempting to reclaim memory",
        "node/n",
    )
    assert hand.state.evicted.counts == {"memory.available": 1}


def test_exactly_the_threshold_is_not_met():
    hand = Hand(HARD)
    hand.free = GI
    assert hand.read().kill is None


def test_one_victim_a_round_and_the_next_only_on_a_reading_begun_after_it_ended():
    hand = Hand(HARD)
    hand.used["hog"], hand.free = 4 * GI, 0
    assert hand.read().kill.uid == "hog"
    for _ in range(2):
        assert hand.read(5.0).kill is None, "it waits for the end of the first"
    hand.tell(PodKilled(uid="modest"), 1.0)
    assert isinstance(hand.state.doing, Killing), "the end of another says nothing"
    hand.tell(PodKilled(uid="hog"), 1.0)
    assert isinstance(hand.state.doing, Killing), "its volumes are there still"
    assert hand.read(5.0).kill is None
    hand.tell(ActivePods(pods=(pod("modest"), pod("tiny"))), 1.0)
    assert (hand.state.doing, hand.kill) == (None, None)
    assert [one.to for one in hand.actions if isinstance(one.message, ReadUsageNow)] == [paths.USAGE]
    assert hand.read(1.0, age_s=1.5).kill is None, "that reading was begun before"
    del hand.used["hog"]
    assert hand.read(1.0).kill.uid == "modest", "the first by name among equals"


def test_a_victim_whose_manifest_is_removed_is_waited_for_all_the_same():
    hand = Hand(HARD)
    hand.used["hog"], hand.free = 4 * GI, 0
    hand.read()
    rest = (pod("modest"), pod("tiny"))
    hand.tell(ActivePods(pods=rest, leaving=("hog",)), 1.0)
    assert isinstance(hand.state.doing, Killing)
    hand.tell(PodKilled(uid="hog"), 1.0)
    assert isinstance(hand.state.doing, Killing), "its volumes are there still"
    hand.tell(ActivePods(pods=rest), 1.0)
    assert hand.state.doing is None


def test_an_earlier_victim_whose_manifest_is_removed_is_waited_for():
    hand = Hand(HARD)
    hand.free = 0
    hand.tell(ActivePods(pods=(pod("tiny"),), leaving=("hog",)))
    assert hand.read(5.0).kill is None
    hand.tell(ActivePods(pods=(pod("tiny"),)), 1.0)
    assert hand.kill is None, "what was read before is not what is left now"
    assert [one.to for one in hand.actions if isinstance(one.message, ReadUsageNow)] == [paths.USAGE]
    assert hand.read(0.5, age_s=1.0).kill is None, "that reading was begun before"
    assert hand.read(1.0).kill.uid == "tiny"


def test_nobody_goes_before_all_pods_are_known_but_what_never_speaks_is_not_waited_for_long():
    hand = Hand(HARD)
    hand.free = 0
    pods = (pod("tiny"), pod("hog"))
    hand.tell(ActivePods(pods=pods, whole=False))
    assert hand.read(5.0).kill is None
    assert "until all pods are known" in explain(hand.state, hand.now).doing
    assert hand.wake_at <= hand.state.settling.until
    assert hand.read(15.0).kill is None
    assert hand.read(9.0).kill is None
    assert hand.read(2.0).kill.uid == "hog"


def test_after_a_supervisor_began_anew_all_pods_must_be_known_again():
    hand = Hand(HARD)
    hand.read(60.0)
    hand.tell(Restarted(path=paths.PODS, incarnation=1, cause="x"))
    hand.free = 0
    hand.tell(ActivePods(pods=(pod("tiny"),), whole=False))
    assert hand.read(5.0).kill is None
    hand.tell(ActivePods(pods=(pod("tiny"),)), 1.0)
    assert hand.read(1.0).kill.uid == "tiny"


def test_a_supervisor_that_begins_anew_during_an_action_wakes_nobody_without_end():
    hand = Hand(Threshold(signal=Signal.MEMORY, value=Quantity(amount=GI), grace_s=1.0), max_pod_grace_s=60)
    hand.tell(ActivePods(pods=(pod("hog", grace=60),)))
    hand.free = 0
    assert hand.read().read().kill.grace_s == 60
    hand.tell(Restarted(path=paths.PODS, incarnation=1, cause="x"))
    while isinstance(hand.state.doing, Killing):
        assert hand.wake_at > hand.now
        hand.tell(Alarm(at=hand.wake_at), hand.wake_at - hand.now)
    assert hand.now >= hand.state.settling.until


def test_the_same_reading_told_again_decides_nothing():
    hand = Hand(HARD, pods=())
    hand.free, hand.used = 0, {"late": MI}
    hand.read()
    assert "no pod may be evicted" in hand.state.note
    hand.tell(ActivePods(pods=(pod("late"),)))
    assert hand.kill is None
    again = hand.usage(hand.now)
    assert hand.tell(UsageRead(usage=again), 1.0).kill is None
    assert hand.tell(UsageRead(usage=hand.usage(hand.now)), 1.0).kill.uid == "late"


def test_a_kill_that_hangs_is_waited_for_only_so_long_and_others_are_looked_at_then():
    hand = Hand(HARD)
    hand.used["hog"], hand.free = 4 * GI, 0
    hand.read()
    assert hand.wake_at <= hand.now + KILL_WAIT_S
    hand.tell(Alarm(at=0.0), KILL_WAIT_S)
    assert hand.state.doing is None
    assert [one.reason for one in hand.sent(EventSeen)] == ["ExceededGracePeriod"]
    assert hand.sent(ReadUsageNow)
    assert hand.read(1.0).kill.uid == "modest"


def test_who_is_being_stopped_already_or_critical_is_never_chosen():
    hand = Hand(HARD)
    hand.used.update(hog=4 * GI, modest=3 * GI, tiny=2 * GI)
    hand.free = 0
    ending = replace(pod("hog"), ending=True)
    critical = pod("modest", priority=2_000_000_000)
    hand.tell(ActivePods(pods=(ending, critical, pod("tiny"))))
    assert hand.read(KILL_WAIT_S).kill.uid == "tiny"


def test_what_an_earlier_incarnation_asked_to_go_is_waited_for():
    hand = Hand(HARD)
    hand.free = 0
    hand.tell(ActivePods(pods=(replace(pod("hog"), ending=True), pod("tiny"))))
    assert hand.read(5.0).kill is None
    hand.tell(ActivePods(pods=(pod("tiny"),)), 1.0)
    assert hand.kill is None, "what was read before is not what is left now"
    assert [one.to for one in hand.actions if isinstance(one.message, ReadUsageNow)] == [paths.USAGE]
    assert hand.read(0.5, age_s=1.0).kill is None, "that reading was begun before"
    assert hand.read(1.0).kill.uid == "tiny"


def test_a_pod_of_which_nothing_is_known_is_kept():
    hand = Hand(HARD, pods=("tiny", "unread"))
    hand.free = 0
    hand.used = {"tiny": MI}
    assert hand.read().kill.uid == "tiny"
    hand.end("tiny").tell(ActivePods(pods=(pod("unread"),)))
    hand.used = {}
    assert hand.read().kill is None
    assert "no pod may be evicted" in hand.state.note
    assert "no pod can be evicted" in [line.text for line in report(hand.before, hand.state)]


def test_old_rows_of_pods_are_not_decided_on():
    hand = Hand(HARD, pods=("hog",))
    hand.free = 0
    usage = hand.usage()
    hand.now += 200.0
    fresh = replace(usage, node=replace(usage.node, as_of=hand.now))
    assert hand.tell(UsageRead(usage=fresh)).kill is None


def test_a_signal_that_cannot_be_read_neither_triggers_nor_clears():
    hand = Hand(HARD)
    hand.read(memory=None)
    assert (hand.state.pressure.met, hand.kill) == ((), None)
    hand.free = 0
    hand.tell(ActivePods())
    hand.read()
    assert hand.pressure == (Pressure.MEMORY,)
    hand.tell(ActivePods(pods=(pod("tiny"),)))
    for _ in range(60):
        hand.read(memory=None)
        assert hand.kill is None
    assert hand.state.pressure.conditions == (Pressure.MEMORY,)


def test_what_cannot_be_is_refused_and_said():
    hand = Hand(NODEFS)
    hand.disk_free = 101
    hand.read()
    assert hand.state.absurd[0] == "nodefs.available: 101 of 100 is impossible"
    assert "reading refused" in [line.text for line in report(hand.before, hand.state)]


def test_pressure_is_told_at_once_and_lasts_for_the_transition_period():
    hand = Hand(HARD, pods=(), transition_s=60.0)
    assert hand.read().pressure == ()
    hand.free = 0
    assert hand.read().pressure == (Pressure.MEMORY,)
    felt = hand.now
    hand.free = 8 * GI
    assert hand.read().pressure is None
    assert hand.wake_at <= felt + 60.0
    hand.tell(Alarm(at=0.0), felt + 59.0 - hand.now)
    assert hand.state.pressure.conditions == (Pressure.MEMORY,)
    hand.tell(Alarm(at=0.0), 1.5)
    assert hand.state.pressure.conditions == ()
    assert hand.pressure == ()


def test_who_asks_for_pressure_gets_it_at_once_and_when_it_changes():
    hand = Hand(HARD, pods=())
    assert hand.tell(WatchPressure(asked_by=paths.NODESTATUS)).sent(PressureSeen) == [], (
        "nothing was measured yet"
    )
    assert hand.read().sent(PressureSeen) == [PressureSeen()]
    hand.free = 0
    assert hand.read().sent(PressureSeen) == [PressureSeen(conditions=(Pressure.MEMORY,))]
    assert hand.read().sent(PressureSeen) == []
    assert hand.tell(WatchPressure(asked_by=paths.NODESTATUS)).sent(PressureSeen) == [
        PressureSeen(conditions=(Pressure.MEMORY,))
    ], "once, however often it asks"


def test_a_supervisor_that_began_anew_is_told_again():
    hand = Hand(HARD, pods=())
    hand.free = 0
    hand.read()
    hand.tell(Restarted(path=paths.PODS, incarnation=1, cause="x"))
    assert hand.pressure == (Pressure.MEMORY,)
    assert hand.sent(WatchPods)
    hand.tell(Restarted(path=paths.USAGE, incarnation=1, cause="x"))
    assert hand.sent(WatchUsage)


def test_a_soft_threshold_takes_nobody_before_its_grace_and_gives_them_time():
    soft = Threshold(signal=Signal.MEMORY, value=Quantity(amount=2 * GI), grace_s=60.0)
    hand = Hand(soft, max_pod_grace_s=20)
    hand.free = GI
    for _ in range(6):
        assert hand.read().kill is None
        assert hand.state.pressure.conditions == (Pressure.MEMORY,), "pressure is told whatever the grace"
    assert hand.read().kill.grace_s == 20
    hand = Hand(soft, max_pod_grace_s=20)
    hand.tell(ActivePods(pods=(pod("hog", grace=7),)))
    hand.free = GI
    for _ in range(7):
        hand.read()
    assert hand.kill.grace_s == 7


def test_a_soft_threshold_that_flaps_begins_to_count_anew():
    soft = Threshold(signal=Signal.MEMORY, value=Quantity(amount=2 * GI), grace_s=30.0)
    hand = Hand(soft)
    for _ in range(10):
        for free in (GI, GI, GI, 3 * GI):
            hand.free = free
            assert hand.read().kill is None


def test_a_ripe_threshold_is_over_only_with_its_minimum_reclaim():
    threshold = replace(HARD, reclaim=Quantity(amount=512 * MI))
    hand = Hand(threshold)
    hand.free = 1200 * MI
    assert hand.read().kill is None, "more than the threshold is free"
    hand.free = GI - 1
    assert hand.read().kill is not None
    hand.end(hand.kill.uid)
    hand.free = 1200 * MI
    assert hand.read().kill is not None, "not as much as is to be reclaimed"
    hand.end(hand.kill.uid)
    hand.free = 1536 * MI
    assert hand.read().kill is None
    assert hand.state.pressure.met == ()


def test_memory_goes_before_disk():
    hand = Hand(NODEFS, HARD)
    hand.free, hand.disk_free = 0, 0
    hand.read()
    assert hand.kill is not None
    assert "memory" in hand.kill.message
    assert hand.pressure == (Pressure.DISK, Pressure.MEMORY)


def test_pods_as_a_whole_can_be_short_of_memory():
    hand = Hand(Threshold(signal=Signal.PODS_MEMORY, value=Quantity(amount=100)))
    pods = MemoryUsage(at=1, usage_bytes=9, working_set_bytes=950, available_bytes=50)
    hand.read(system=(Process(name="pods", memory=pods),))
    assert "Threshold quantity: 100, available: 50. " in hand.kill.message


def test_processes_run_out_too():
    hand = Hand(Threshold(signal=Signal.PID, value=Quantity(amount=200)))
    hand.used["hog"] = GI
    assert hand.read(pids=850).kill.uid == "hog"
    assert "low on resource: pids. Threshold quantity: 200, available: 150. " in hand.kill.message


# disk


def test_what_ended_pods_keep_goes_before_images_and_images_before_any_pod():
    hand = Hand(NODEFS)
    hand.disk_free = 5
    [asked] = hand.read().sent(ClearFinished)
    assert (asked.asked_by, hand.sent(CollectImages), hand.kill) == (paths.EVICTION, [], None)
    assert [one.to for one in hand.actions if isinstance(one.message, ClearFinished)] == [paths.PODS]
    assert "ended pods" in explain(hand.state, hand.now).doing
    hand.tell(FinishedCleared(run="another", pods=1))
    assert isinstance(hand.state.doing, Clearing)
    assert [one.run for one in hand.tell(FinishedCleared(run=asked.run, pods=1)).sent(CollectImages)] == [
        asked.run
    ]
    assert [line.text for line in report(hand.before, hand.state)] == ["removing unused images"]
    assert hand.kill is None


@pytest.mark.parametrize("how", ["they hang", "nobody knows any more"])
def test_ended_pods_that_do_not_let_go_are_waited_for_only_so_long(how):
    hand = Hand(NODEFS)
    hand.disk_free = 5
    hand.read()
    if how == "they hang":
        assert hand.tell(Alarm(at=0.0), CLEAR_WAIT_S - 1).sent(CollectImages) == []
        hand.tell(Alarm(at=0.0), 1.0)
    else:
        hand.tell(Restarted(path=paths.PODS, incarnation=2, cause="boom"))
    assert hand.sent(CollectImages)


def test_memory_is_not_had_from_ended_pods():
    hand = Hand(HARD)
    hand.free = GI - 1
    assert hand.read().sent(ClearFinished) == []
    assert hand.kill is not None


def test_a_full_disk_has_unused_images_go_before_any_pod():
    hand = Hand(NODEFS)
    hand.volumes["hog"], hand.disk_free = 1000, 5
    hand.read().cleared()
    [asked] = hand.sent(CollectImages)
    assert (asked.asked_by, hand.kill) == (paths.EVICTION, None)
    assert [one.to for one in hand.actions if isinstance(one.message, CollectImages)] == [paths.IMAGEGC]
    assert hand.read().kill is None, "the collection is under way"
    hand.tell(ImagesCollected(run="another", removed=1))
    assert isinstance(hand.state.doing, Reclaiming)
    hand.tell(ImagesCollected(run=asked.run, removed=1), 1.0)
    assert hand.sent(ReadUsageNow)
    assert hand.read(1.0, age_s=2.0).kill is None, "that reading was begun before"
    assert hand.read(1.0).kill.uid == "hog"
    assert "Threshold quantity: 10, available: 5. " in hand.kill.message


def test_images_that_were_enough_save_every_pod():
    hand = Hand(NODEFS)
    hand.disk_free = 5
    [asked] = hand.read().cleared().sent(CollectImages)
    hand.tell(ImagesCollected(run=asked.run, removed=3))
    hand.disk_free = 30
    assert hand.read().kill is None
    assert hand.state.evicted.victims == ()


def test_a_collection_that_never_ends_is_waited_for_only_so_long():
    hand = Hand(NODEFS)
    hand.disk_free = 5
    hand.read().cleared()
    hand.tell(Alarm(at=0.0), RECLAIM_WAIT_S)
    assert hand.state.doing is None
    assert hand.read(1.0).kill is not None


def test_after_each_victim_images_are_collected_again():
    hand = Hand(NODEFS)
    hand.disk_free = 5
    [asked] = hand.read().cleared().sent(CollectImages)
    hand.tell(ImagesCollected(run=asked.run, removed=0))
    hand.end(hand.read().kill.uid)
    assert hand.read().cleared().sent(CollectImages)


def test_without_a_victim_images_are_not_collected_with_each_reading():
    hand = Hand(NODEFS, pods=())
    hand.disk_free = 5
    [asked] = hand.read().cleared().sent(CollectImages)
    hand.tell(ImagesCollected(run=asked.run, removed=0))
    counts = [len(hand.read().sent(ClearFinished)) for _ in range(7)]
    assert sum(counts) == 1


def test_images_on_a_disk_of_their_own_do_not_help_the_nodes():
    hand = Hand(NODEFS)
    hand.dedicated, hand.disk_free = True, 5
    hand.read().cleared()
    assert (hand.sent(CollectImages), hand.state.doing) == ([], None)
    assert hand.read().kill is not None
    hand = Hand(Threshold(signal=Signal.IMAGEFS, value=Quantity(percent=15.0)))
    hand.dedicated, hand.disk_free = True, 5
    assert hand.read().cleared().sent(CollectImages)


# limits of a pod's own


def limited(name):
    volume = Volume(name="v", empty_dir=EmptyDirVolumeSource(size_limit="1Ki"))
    return pod(name, volumes=(volume,))


def test_a_pod_over_a_limit_of_its_own_goes_by_its_own_fault_whatever_the_node_has():
    hand = Hand()
    hand.tell(ActivePods(pods=tuple(limited(name) for name in NAMES)))
    hand.volumes.update(hog=2000, tiny=1025)
    hand.read()
    assert (hand.kill.uid, hand.kill.own_fault, hand.kill.grace_s) == ("hog", True, 1)
    assert hand.kill.message == 'Usage of EmptyDir volume "v" exceeds the limit "1Ki". '
    assert hand.read().kill is None
    hand.end("hog")
    assert hand.read(1.0, age_s=2.0).kill is None
    hand.read(1.0)
    assert hand.kill.uid == "tiny"
    assert hand.state.evicted.counts == {"emptydirfs.limit": 2}
    assert hand.state.pressure.conditions == ()


def test_limits_of_local_storage_can_be_switched_off():
    hand = Hand(local_limits=False)
    hand.tell(ActivePods(pods=(limited("hog"),)))
    hand.volumes["hog"] = 5000
    assert hand.read().kill is None


@pytest.mark.parametrize("silence", [40.0, 200.0])
def test_usage_that_stays_away_is_asked_for_again(silence):
    hand = Hand(HARD)
    hand.read()
    hand.tell(Alarm(at=0.0), silence)
    assert hand.sent(WatchUsage)
