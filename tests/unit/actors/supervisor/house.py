"""Supervisor and admission in a house of their own: a ledger with one entry, a node that says what it is, a record of what was done."""

import itertools

from actors.admission import core as admission
from actors.admission.explain import wait_for_admission
from actors.admission.state import AdmissionState
from actors.admission.verdict import SECTION, Record
from actors.rules.desiredsources import DesiredSources
from actors.supervisor.core import decide
from actors.supervisor.explain import wait_of
from actors.supervisor.state import SpawnPod, StopPod, SupervisorState
from api import paths
from api.errors import Failure, FailureKind
from api.ids import Uid
from api.lifecycle import Start, Tell
from api.messages.kernel import Alarm, ChildDied, Outcome, Restarted
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
    """Both cores, and what they did. Questions about admission are answered at once, unless `answers` is false.

    What one core says to the other is delivered at once, unless `lost` says that this message gets lost.
    """

    def __init__(self, expected=("file",), *, node=NODE, page=None, answers=True, **settings):
        self.state = SupervisorState(sources=DesiredSources(expected=expected), **settings)
        self.admission = AdmissionState()
        self.now = 100.0
        self.ops = itertools.count(1)
        self.number = 0
        self.alive = set()
        self.wakes = {}
        self.node, self.page, self.answers = node, page, answers
        self.full = False
        self.pages = []
        self.open = []
        self.said = []
        self.lost = lambda message: False
        begun = self.feed(None, admission)
        self.last = begun + self.give(None)

    @property
    def wake_at(self):
        """Return when one of the cores wants to be woken at the latest."""
        return min(at for at in self.wakes.values() if at is not None)

    def give(self, message):
        self.last = self.feed(message)
        return self.last

    def ask_admission(self, message):
        """Give admission a message, and return what follows."""
        self.last = self.feed(message, admission)
        return self.last

    def feed(self, message, core=None):
        """Give a core a message and deliver what it says to the other; return what was done besides."""
        if core is admission:
            decision = admission.decide(self.admission, message, self.now, lambda: next(self.ops))
            self.admission = decision.state
        else:
            decision = decide(self.state, message, self.now, lambda: next(self.ops))
            self.state = decision.state
        self.wakes[core] = decision.wake_at
        done, asked, said = [], [], []
        for action in decision.actions:
            if isinstance(action, SpawnPod):
                assert action.uid not in self.alive, "spawned twice"
                self.alive.add(action.uid)
            if (isinstance(action, Tell) and isinstance(action.message, WatchNode)) or (
                isinstance(action, Start) and getattr(action.call, "section", "") == SECTION
            ):
                asked.append(action)
            elif isinstance(action, Tell) and action.to in (paths.ADMISSION, paths.PODS):
                said.append(action)
            else:
                done.append(action)
        self.open += asked
        actions = tuple(done)
        for one in said:
            self.said.append(one.message)
            if not self.lost(one.message):
                actions += self.feed(one.message, admission if one.to == paths.ADMISSION else None)
        if self.answers:
            for action in asked:
                actions += self.answer(action)
        self.last = actions
        return actions

    def answer(self, start):
        """Answer one question about admission and return what follows from it."""
        self.open.remove(start)
        if isinstance(start, Tell):
            to_admission = start.message.asked_by == paths.ADMISSION
            return self.feed(NodeChanged(facts=self.node), admission if to_admission else None)
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
        outcome = Outcome(
            op=start.op,
            call=type(start.call).__name__,
            result=result,
            failure=failure,
            started_at=self.now,
            ended_at=self.now,
        )
        self.last = self.feed(outcome, admission)
        return self.last

    def renew_admission(self, *, in_flight=()):
        """Let admission begin again, as its kernel does: what it knew is lost, and the supervisor is told."""
        epoch = self.admission.epoch + 1
        self.admission = AdmissionState(
            epoch=epoch,
            next_generation=epoch * 1_000_000_000,
            record=Record(inherited=in_flight),
        )
        done = self.feed(None, admission)
        return done + self.give(Restarted(path=paths.ADMISSION, incarnation=epoch, cause="x"))

    def renew_supervisor(self):
        """Let the supervisor begin again: what it knew is lost."""
        state = self.state
        self.state = SupervisorState(
            epoch=state.epoch + 1,
            sources=DesiredSources(expected=state.sources.expected),
            take_over=state.take_over,
            resync_s=state.resync_s,
        )
        return self.give(None)

    def waits(self, uid):
        """Return what people are told that a pod without an actor waits for."""
        uid = Uid(uid)
        return wait_of(self.state, self.state.entries[uid], wait_for_admission(self.admission, uid))

    def resize(self, uid):
        """Return why a pod does not have the amounts that it asks for."""
        return self.admission.pods[uid].resize

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
        done = self.feed(Alarm(at=self.now), admission)
        self.last = done + self.feed(Alarm(at=self.now))
        return self.last


def presence(uid, name="web", *, ours=True, alive=True, loose=False, source=""):
    return RuntimePresence(
        uid=Uid(uid), name=name, namespace="default", ours=ours, alive=alive, loose=loose, source=source
    )


def told(actions, kind):
    return [(a.to, a.message) for a in actions if isinstance(a, Tell) and isinstance(a.message, kind)]


def spawned(actions):
    return [a.uid for a in actions if isinstance(a, SpawnPod)]


def kills(actions):
    return [(m.uid, m.cause) for _, m in told(actions, KillPod)]


def refusals(actions):
    return {m.pod.metadata.uid: m.refusal and m.refusal.reason for _, m in told(actions, UpdatePod)}
