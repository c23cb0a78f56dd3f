"""The core of NodeManager in the hand of a test: what it asks, whom it tells, and what it says in the log."""

import itertools

from actors.node.core import decide
from actors.node.report import report
from actors.node.state import NodeState
from api import paths
from api.errors import Failure, FailureKind
from api.ids import Path
from api.lifecycle import Start, Tell, Watch
from api.messages.kernel import Alarm, Outcome
from api.messages.node import NodeChanged, NodeHealthSeen, WatchNode
from api.messages.nodestatus import WatchNodeObject
from api.ports.node import NodeDescribed, NodeFacts
from api.ports.runtime import RuntimeHandler, RuntimeInfo

MACHINE = NodeFacts(name="n1", cpu_milli=2000, memory_bytes=4 << 30)
INFO = RuntimeInfo(
    name="containerd",
    version="2.0",
    cgroup_driver="systemd",
    handlers=(RuntimeHandler(name="", user_namespaces=True),),
    supplemental_groups_policy=True,
    stop_signals=True,
)
DOWN = Failure(kind=FailureKind.UNAVAILABLE, message="connection refused")
PODS, USAGE = Path("/node/pods"), Path("/node/usage")


class Hand:
    """Nothing is answered by itself."""

    def __init__(self, machine=MACHINE, **more):
        self.now = 100.0
        self.ops = itertools.count(1)
        self.state = NodeState(machine=machine, **more)
        self.calls = {}
        self.open, self.told, self.lines, self.health, self.questions = {}, [], [], [], 0
        self.give(None)

    def give(self, message):
        before = self.state
        decision = decide(before, message, self.now, lambda: next(self.ops))
        self.state, self.wake_at = decision.state, decision.wake_at
        self.lines += [line.text for line in report(before, self.state)]
        for action in decision.actions:
            match action:
                case Start(op=op, call=call):
                    assert type(call).__name__ not in self.open, "asked twice at the same time"
                    self.open[type(call).__name__] = op
                    self.calls[type(call).__name__] = call
                case Tell(to=to, message=NodeChanged(facts=facts)):
                    self.told.append((to, facts))
                case Tell(message=NodeHealthSeen() as message):
                    self.health.append(message)
                case Tell(to=paths.NODESTATUS, message=WatchNodeObject(asked_by=paths.NODE)):
                    self.questions += 1
                case Watch(path=paths.NODESTATUS):
                    pass
                case _:
                    raise AssertionError(action)

    def end(self, call, result=None, failure=None):
        self.give(
            Outcome(
                op=self.open.pop(call),
                call=call,
                result=result,
                failure=failure,
                started_at=self.now,
                ended_at=self.now,
            )
        )

    def asked(self, call):
        """Return the open call of this kind."""
        assert call in self.open
        return self.calls[call]

    def machine(self, facts=MACHINE):
        self.end("DescribeNode", NodeDescribed(facts=facts))

    def runtime(self, info=INFO):
        self.end("RuntimeStatus", info)

    def watch(self, path=PODS):
        self.give(WatchNode(asked_by=path))

    def wake(self):
        """Let time go by until it wants to look again, and return how long that was."""
        took = self.wake_at - self.now
        self.now = self.wake_at
        self.give(Alarm(at=self.now))
        return took

    def news(self):
        """Return who was told since the last time, with what."""
        told, self.told = self.told, []
        return told


def following(**more):
    """Return a core that both have answered, with one subscriber that knows it."""
    hand = Hand(**more)
    hand.machine(), hand.runtime(), hand.watch()
    assert [to for to, _ in hand.news()] == [PODS]
    return hand
