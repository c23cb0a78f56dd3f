"""A supervisor core in a house of its own: a ledger with one page, a node that says what it is, and a record of what was done."""

import itertools

from actors.supervisor.core import decide
from actors.supervisor.state import DesiredSources, SpawnPod, StopPod, SupervisorState
from actors.supervisor.verdict import SECTION
from api.errors import Failure, FailureKind
from api.ids import Uid
from api.lifecycle import Start, Tell
from api.messages.kernel import Alarm, ChildDied, Outcome
from api.messages.node import NodeChanged, WatchNode
from api.messages.pod import KillPod, UpdatePod
from api.messages.supervisor import (
    PodLife,
    PodMoved,
    PodsChanged,
    PodsSnapshot,
    RuntimeListed,
    RuntimePresence,
    SourcedPod,
)
from api.paths import pod_path
from api.ports.call import Done
from api.ports.ledger import Forget, Recall, Recalled, Remember
from api.ports.node import NodeFacts

NODE = NodeFacts(
    name="n1",
    allocatable_cpu_milli=4000,
    allocatable_memory_bytes=4 << 30,
    allocatable_ephemeral_bytes=10 << 30,
    max_pods=10,
    labels=(("kubernetes.io/os", "linux"),),
)


class House:
    """A supervisor core and what it did. Calls about admission are answered at once, unless `answers` is false."""

    def __init__(self, expected=("file",), *, node=NODE, page=None, answers=True, **settings):
        self.state = SupervisorState(sources=DesiredSources(expected=expected), **settings)
        self.now = 100.0
        self.ops = itertools.count(1)
        self.number = 0
        self.alive = set()
        self.wake_at = None
        self.node, self.page, self.answers = node, page, answers
        self.full = False
        self.pages = []
        self.open = []
        self.give(None)

    def give(self, message):
        decision = decide(self.state, message, self.now, lambda: next(self.ops))
        self.state, self.wake_at = decision.state, decision.wake_at
        done = []
        asked = []
        for action in decision.actions:
            if isinstance(action, SpawnPod):
                assert action.uid not in self.alive, "spawned twice"
                self.alive.add(action.uid)
            if isinstance(action, Tell) and isinstance(action.message, WatchNode):
                about = True
            else:
                about = isinstance(action, Start) and getattr(action.call, "section", "") == SECTION
            (asked if about else done).append(action)
        self.open += asked
        actions = tuple(done)
        if self.answers:
            for action in asked:
                actions += self.answer(action)
        self.last = actions
        return actions

    def answer(self, start):
        """Answer one question about admission and return what follows from it."""
        self.open.remove(start)
        if isinstance(start, Tell):
            return self.give(NodeChanged(facts=self.node))
        result, failure = Done(), None
        match start.call:
            case Recall():
                result = Recalled(data=self.page)
            case Forget():
                self.page = None
            case Remember(data=data):
                assert start.call.durable, "a verdict is on disk before it is told"
                if self.full:
                    result, failure = None, Failure(kind=FailureKind.EXHAUSTED, message="no space left")
                else:
                    self.page = data
                    self.pages.append(data)
        return self.give(
            Outcome(
                op=start.op,
                call=type(start.call).__name__,
                result=result,
                failure=failure,
                started_at=self.now,
                ended_at=self.now,
            )
        )

    def snapshot(self, *pods, source="file", seen=None):
        self.number += 1
        sourced = tuple(SourcedPod(source=source, pod=p) for p in pods)
        return self.give(
            PodsSnapshot(number=self.number, seen=(source,) if seen is None else seen, pods=sourced)
        )

    def change(self, op, *pods, source="file", skip=0):
        self.number += 1 + skip
        return self.give(PodsChanged(number=self.number, source=source, op=op, pods=pods))

    def listed(self, *present, as_of=None):
        at = self.now if as_of is None else as_of
        return self.give(RuntimeListed(pods=present, as_of=at))

    def moved(self, uid, life, **fields):
        return self.give(PodMoved(uid=Uid(uid), name="web", namespace="default", life=life, **fields))

    def died(self, uid, cause=""):
        self.alive.discard(uid)
        return self.give(ChildDied(path=pod_path(Uid(uid)), cause=cause))

    def gone(self, uid):
        self.moved(uid, PodLife.GONE)
        assert StopPod(uid=uid) in self.last
        self.now += 0.1
        return self.died(uid)

    def due_in(self, uid):
        """Return in how many seconds something is due about a pod; the core is awake by then."""
        look_at = self.state.entries[uid].look_at
        assert self.wake_at <= look_at
        return look_at - self.now

    def wait(self, seconds):
        self.now += seconds
        return self.give(Alarm(at=self.now))


def presence(uid, name="web", *, ours=True, alive=True, loose=False):
    return RuntimePresence(uid=Uid(uid), name=name, namespace="default", ours=ours, alive=alive, loose=loose)


def told(actions, kind):
    return [(a.to, a.message) for a in actions if isinstance(a, Tell) and isinstance(a.message, kind)]


def spawned(actions):
    return [a.uid for a in actions if isinstance(a, SpawnPod)]


def kills(actions):
    return [(m.uid, m.cause) for _, m in told(actions, KillPod)]


def refusals(actions):
    return {m.pod.metadata.uid: m.refusal and m.refusal.reason for _, m in told(actions, UpdatePod)}
