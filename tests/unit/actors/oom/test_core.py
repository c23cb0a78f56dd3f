"""OomWatcher call by call: events of the node, whose kill it was, and counters where the log cannot be read."""

import itertools

from actors.oom.core import GIVE_UP_S, KEPT_KILLS, LIST_AGAIN_S, SETTLED_S, SILENCE_S, decide
from actors.oom.report import kill_lines, notice, report
from actors.oom.state import OOMS, OomState
from actors.rules.nodeevent import node_event_rows
from api import paths
from api.errors import Failure, FailureKind
from api.lifecycle import Listen, Start, Tell
from api.messages.kernel import Alarm, Heard, Outcome, StreamEnded
from api.messages.usage import UnwatchUsage, UsageRead, WatchUsage
from api.ports.ooms import OomKill
from api.ports.runtime import ListPods, PodListing, RuntimeContainer, RuntimeContainerState, RuntimePod
from api.usage import ContainerUsage, NodeUsage, PodUsage, Usage

WALL = 1_700_000_000_000_000_000
ID = "0123456789abcdef0123456789abcdef"
GROUP = f"/kubepods/podu1/{ID}"
DENIED = Failure(
    kind=FailureKind.DENIED, message="could not open the kernel's log /dev/kmsg: Operation not permitted"
)


def pod(name="web", identity=ID, uid="u1", *, ours=True):
    container = RuntimeContainer(
        id=f"containerd://{identity}",
        sandbox_id="s",
        name="main",
        attempt=0,
        image="i",
        state=RuntimeContainerState.EXITED,
        created_at=WALL,
    )
    return RuntimePod(uid=uid, namespace="default", name=name, containers=(container,), ours=ours)


class Hand:
    """Drives the core; the clock is its own."""

    def __init__(self, **state):
        self.now, self.ops = 1000.0, itertools.count(1)
        self.state = OomState(node_name="n", **state)
        self.lines = []
        self.tell(None)

    def tell(self, message, after_s=0.0):
        self.now += after_s
        before = self.state
        decision = decide(before, message, self.now, WALL, lambda: next(self.ops))
        self.state, self.actions, self.wake_at = decision.state, decision.actions, decision.wake_at
        self.lines += [(line.text, dict(line.facts)) for line in report(before, self.state)]
        return self

    def kill(self, group=GROUP, limit="/kubepods/podu1", process="hog", pid=7):
        kill = OomKill(group=limit, victim_group=group, process=process, pid=pid)
        return self.tell(Heard(stream=OOMS, item=kill))

    def listed(self, *pods):
        [listing] = [one for one in (self.state.listing,) if one is not None]
        return self.outcome(listing, result=PodListing(pods=pods))

    def outcome(self, op, **how):
        return self.tell(Outcome(op=op, call="ListPods", started_at=self.now, ended_at=self.now, **how))

    def usage(self, *kills, after_s=10.0):
        rows = tuple(
            ContainerUsage(name="main", id=f"c{n}", oom_kills=count) for n, count in enumerate(kills)
        )
        pods = (PodUsage(uid="u1", namespace="default", name="web", containers=rows),)
        return self.tell(
            UsageRead(usage=Usage(at=WALL, as_of=1.0, round=1, node=NodeUsage(), pods=pods)), after_s
        )

    @property
    def counts(self):
        return {(row.namespace, row.pod, row.container): row.kills for row in self.state.oom_counts}


def test_it_begins_by_listening():
    hand = Hand()
    assert hand.actions == (Listen(stream=OOMS),)
    assert notice(hand.state) == ""


def test_a_kill_of_the_machines_own_is_an_event_of_the_node():
    hand = Hand().kill(group="/", limit="/", process="java", pid=77)
    [row] = node_event_rows(hand.state.node_events, hand.state.node_name)
    assert (row.pod, row.type, row.reason) == ("node/n", "Warning", "SystemOOM")
    assert row.message == "System OOM encountered, victim process: java, pid: 77"
    assert hand.actions == ()
    hand.kill(group="/", limit="/", process="", pid=0)
    assert (
        node_event_rows(hand.state.node_events, hand.state.node_name)[-1].message == "System OOM encountered"
    )
    assert [text for text, _ in hand.lines] == ["node event", "node event"]


def test_the_same_event_again_counts_and_is_told_when_it_has_doubled():
    hand = Hand()
    for _ in range(20):
        hand.kill(group="/", limit="/")
    assert [row.count for row in node_event_rows(hand.state.node_events, hand.state.node_name)] == [20]
    assert [facts["count"] for _, facts in hand.lines] == [1, 2, 4, 8, 16]


def test_a_kill_in_a_container_counts_for_it_and_is_no_event():
    hand = Hand().kill()
    [start] = hand.actions
    assert isinstance(start, Start)
    assert isinstance(start.call, ListPods)
    hand.listed(pod("other", "f" * 32, "u2"), pod())
    assert hand.counts == {("default", "web", "main"): 1}
    assert hand.state.open == ()
    assert node_event_rows(hand.state.node_events, hand.state.node_name) == ()
    assert hand.lines == [
        (
            "container OOM kill",
            {
                "container": "default/web/main",
                "kills": 1,
                "process": "hog",
                "pid": 7,
                "limit_of": "/kubepods/podu1",
            },
        )
    ]
    [line] = kill_lines(hand.state, WALL + 3_000_000_000)
    assert line == "default/web/main: hog (7), 3 s ago, limit of /kubepods/podu1"


def test_a_victim_in_a_container_when_the_machine_is_short_is_both():
    hand = Hand().kill(limit="/").listed(pod())
    assert len(node_event_rows(hand.state.node_events, hand.state.node_name)) == 1
    assert hand.counts == {("default", "web", "main"): 1}


def test_a_restarted_container_goes_on_being_counted():
    hand = Hand().kill().listed(pod())
    hand.tell(Alarm(at=0.0), LIST_AGAIN_S)
    hand.kill(group="/kubepods/podu1/" + "b" * 32).listed(pod(identity="b" * 32))
    assert hand.counts == {("default", "web", "main"): 2}


def test_a_storm_is_one_listing_at_a_time_and_one_a_second():
    hand = Hand()
    starts = 0
    for _ in range(KEPT_KILLS + 20):
        hand.kill()
        starts += len(hand.actions)
    assert starts == 1
    hand.listed(pod())
    assert hand.counts == {("default", "web", "main"): KEPT_KILLS}
    hand.kill()
    assert hand.actions == ()
    assert hand.wake_at == hand.now + LIST_AGAIN_S
    hand.tell(Alarm(at=0.0), LIST_AGAIN_S)
    assert len(hand.actions) == 1


def test_a_listing_that_fails_or_lags_is_asked_for_again_for_a_while():
    hand = Hand().kill()
    hand.outcome(hand.state.listing, failure=Failure(kind=FailureKind.UNAVAILABLE, message="away"))
    assert hand.state.open
    hand.tell(Alarm(at=0.0), LIST_AGAIN_S).listed()
    assert hand.state.open
    hand.tell(Alarm(at=0.0), GIVE_UP_S).listed()
    assert hand.state.open == ()
    assert hand.counts == {}
    [line] = kill_lines(hand.state, WALL)
    assert line.startswith(f"{GROUP}: hog (7)")


def test_kills_of_foreign_pods_are_shown_and_not_counted():
    hand = Hand().kill().listed(pod(ours=False))
    assert hand.counts == {}
    assert hand.state.kills[0].container == "default/web/main"
    assert Hand(take_over=True).kill().listed(pod(ours=False)).counts == {("default", "web", "main"): 1}


def test_a_log_that_may_not_be_read_is_told_once_and_counters_are_read_instead():
    hand = Hand().tell(StreamEnded(stream=OOMS, failure=DENIED))
    assert hand.actions == (Tell(to=paths.USAGE, message=WatchUsage(asked_by=paths.OOM)),)
    assert "Operation not permitted" in notice(hand.state)
    hand.usage(3, after_s=0.1)
    assert hand.counts == {}, "what was there before is no news"
    hand.usage(5, after_s=0.1)
    assert hand.counts == {("default", "web", "main"): 2}
    hand.usage(5, 1, after_s=0.1)
    assert hand.counts == {("default", "web", "main"): 3}, "a new container begins at none"
    hand.usage(0, 1, after_s=0.1)
    assert hand.counts == {("default", "web", "main"): 3}
    told = [facts["kills"] for text, facts in hand.lines if text == "container OOM kill"]
    assert told == [2], "three is not twice as many"
    assert [text for text, _ in hand.lines].count("kernel log not readable") == 1


def test_a_log_that_still_may_not_be_read_costs_no_count():
    hand = Hand().tell(StreamEnded(stream=OOMS, failure=DENIED)).usage(0, after_s=0.1)
    while not hand.state.subscription.is_open:
        hand.tell(Alarm(at=0.0), hand.wake_at - hand.now)
    hand.tell(StreamEnded(stream=OOMS, failure=DENIED))
    hand.usage(1, after_s=0.1)
    assert hand.counts == {("default", "web", "main"): 1}
    assert [text for text, _ in hand.lines].count("kernel log not readable") == 1


def test_a_log_that_is_heard_again_is_the_only_one_to_count():
    hand = Hand().tell(StreamEnded(stream=OOMS, failure=None)).usage(0, after_s=0.1)
    while not hand.state.subscription.is_open:
        hand.tell(Alarm(at=0.0), hand.wake_at - hand.now)
    hand.usage(4, after_s=0.1)
    assert hand.counts == {}
    hand.tell(Alarm(at=0.0), SETTLED_S)
    assert hand.actions == (Tell(to=paths.USAGE, message=UnwatchUsage(asked_by=paths.OOM)),)
    hand.usage(9, after_s=0.1)
    assert hand.counts == {}
    assert notice(hand.state) == ""


def test_usage_that_stays_away_is_asked_for_again():
    hand = Hand().tell(StreamEnded(stream=OOMS, failure=DENIED))
    began, asked = hand.now, []
    while len(asked) < 2:
        hand.tell(Alarm(at=0.0), hand.wake_at - hand.now)
        if any(isinstance(one, Tell) and isinstance(one.message, WatchUsage) for one in hand.actions):
            asked.append(hand.now - began)
        if hand.state.subscription.is_open:
            hand.tell(StreamEnded(stream=OOMS, failure=DENIED))
    assert asked == [SILENCE_S, 2 * SILENCE_S]
