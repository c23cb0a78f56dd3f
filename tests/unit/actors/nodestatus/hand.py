"""NodeStatusManager's core in the hand of a test, with an API server of one Node that answers as a real one merges."""

import itertools
import json

from msgspec.structs import replace

from actors.nodestatus.core import begin, decide
from actors.nodestatus.report import report
from actors.nodestatus.state import NodeStatusSettings, NodeStatusState
from api.errors import Failure, FailureKind
from api.lifecycle import Listen, Start, Tell, Watch
from api.messages.kernel import Alarm, Heard, Outcome
from api.messages.node import NodeHealthSeen
from api.messages.nodestatus import NodeObjectSeen, PlegHealthSeen, PressureSeen
from api.ports.images import ImageListing, ListImages
from api.ports.kube import ApiNodeListed, CreateObject, GetObject, KubeObject, PatchObject
from api.ports.node import MachineIdentity, NodeFacts, NodeTaint
from api.ports.runtime import RuntimeHandler, RuntimeInfo

WALL = 1_700_000_000 * 10**9
MACHINE = NodeFacts(
    name="n1",
    identity=MachineIdentity(
        machine_id="m",
        system_uuid="s",
        boot_id="b1",
        kernel_version="6.1.0",
        os_image="Debian",
        architecture="amd64",
    ),
    ips=("192.0.2.1",),
    cpu_milli=2000,
    memory_bytes=4 << 30,
    ephemeral_bytes=100_000_000_000,
    allocatable_cpu_milli=1900,
    allocatable_memory_bytes=(4 << 30) - (100 << 20),
    allocatable_ephemeral_bytes=89_999_999_999,
    labels=(
        ("kubernetes.io/arch", "amd64"),
        ("kubernetes.io/hostname", "n1"),
        ("kubernetes.io/os", "linux"),
        ("rack", "r1"),
    ),
    taints=(NodeTaint(key="own", effect="NoSchedule"),),
)
INFO = RuntimeInfo(
    name="containerd", version="2.1.0", handlers=(RuntimeHandler(name="runc"), RuntimeHandler(name=""))
)
HEALTHY = NodeHealthSeen(machine=MACHINE, runtime=INFO, is_answering=True)
LISTED = PlegHealthSeen(is_healthy=True, listed_at=1.0)


def failed(kind, message="no"):
    """Return a failure as the server answers it: with a reason, unless it did not answer."""
    silent = kind in (FailureKind.UNAVAILABLE, FailureKind.TIMED_OUT)
    return Failure(kind=kind, message=message, reason="" if silent else "Forbidden")


def merged(old, patch):
    """Return what a server makes of a strategic merge patch: conditions by type, lists replaced, null deletes."""
    if not isinstance(patch, dict):
        return patch
    new = dict(old or {})
    for key, value in patch.items():
        if value is None:
            new.pop(key, None)
        elif key in ("conditions", "addresses"):
            rows = [one for one in value if one != {"$patch": "replace"}]
            known = {} if len(rows) < len(value) else {one["type"]: one for one in new.get(key, [])}
            for one in rows:
                known[one["type"] if len(rows) == len(value) else len(known)] = merged(
                    known.get(one["type"]) if len(rows) == len(value) else None, one
                )
            new[key] = list(known.values())
        else:
            new[key] = merged(new.get(key), value) if isinstance(value, dict) else value
    return new


class Server:
    """One Node, or none."""

    def __init__(self, node=None):
        self.node, self.uids, self.version, self.writes = node, itertools.count(1), 0, []

    def answer(self, call):
        match call:
            case CreateObject():
                if self.node is not None:
                    return failed(FailureKind.ALREADY_EXISTS)
                self.node = json.loads(call.body)
                self.node["metadata"]["uid"] = f"uid-{next(self.uids)}"
                self.node.setdefault("spec", {}).setdefault("taints", []).append(
                    {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
                )
            case GetObject():
                if self.node is None:
                    return failed(FailureKind.NOT_FOUND)
                return KubeObject(body=json.dumps(self.node).encode())
            case PatchObject():
                if self.node is None:
                    return failed(FailureKind.NOT_FOUND)
                assert call.path.subresource == "status"
                self.node = merged(self.node, json.loads(call.body))
        self.version += 1
        self.node["metadata"]["resourceVersion"] = str(self.version)
        self.writes.append(call)
        return KubeObject(body=json.dumps(self.node).encode())

    def condition(self, kind):
        return next((one for one in self.node["status"]["conditions"] if one["type"] == kind), None)


class Hand:
    """Requests wait until the test has the server answer them."""

    def __init__(self, node=None, health=HEALTHY, pleg=LISTED, **settings):
        self.now, self.ops = 100.0, itertools.count(1)
        self.server, self.open, self.sent, self.lines, self.asked = Server(node), {}, [], [], []
        self.images = ImageListing()
        self.state = NodeStatusState(settings=NodeStatusSettings(node_name="n1", **settings))
        self.take(begin(self.state, self.now, self.wall(), lambda: next(self.ops)))
        for message in (health, pleg):
            if message is not None:
                self.give(message)

    def wall(self):
        return WALL + int(self.now * 10**9)

    def take(self, decision):
        self.lines += [line.text for line in report(self.state, decision.state)]
        self.state, self.wake_at = decision.state, decision.wake_at
        for action in decision.actions:
            match action:
                case Start(op=op, port="images", call=ListImages() as call):
                    self.open[op] = call
                case Start(op=op, port="kube", call=call):
                    assert call.heartbeat
                    assert not self.requests(), "two requests at once"
                    self.open[op] = call
                    self.asked.append(call)
                case Tell(to=to, message=message):
                    self.sent.append((to, message))
                case Watch() | Listen():
                    pass
                case _:
                    raise AssertionError(action)

    def give(self, message):
        self.take(decide(self.state, message, self.now, self.wall(), lambda: next(self.ops)))

    def requests(self):
        return {op: call for op, call in self.open.items() if not isinstance(call, ListImages)}

    def end(self, op, answer):
        call = self.open.pop(op)
        is_failure = isinstance(answer, Failure)
        self.give(
            Outcome(
                op=op,
                call=type(call).__name__,
                result=None if is_failure else answer,
                failure=answer if is_failure else None,
                started_at=self.now,
                ended_at=self.now,
            )
        )

    def answer(self, failure=None):
        """End the request in flight as the server does, or with a failure before it has reached the server."""
        ((op, call),) = self.requests().items()
        self.end(op, failure or self.server.answer(call))

    def list_images(self):
        for op in [op for op, call in self.open.items() if isinstance(call, ListImages)]:
            self.end(op, self.images)

    def settle(self):
        """Have everything answered that is asked."""
        while self.open:
            self.list_images()
            if self.requests():
                self.answer()

    def wake(self):
        self.now = max(self.now, self.wake_at)
        self.give(Alarm(at=self.now))

    def run(self, seconds):
        """Let time go by, everything answered at once; return how many writes there were."""
        before, until = len(self.server.writes), self.now + seconds
        self.settle()
        while self.wake_at is not None and self.wake_at <= until:
            self.wake()
            self.settle()
        self.now = until
        return len(self.server.writes) - before

    def to_request(self):
        """Let time go by until a request is in flight."""
        for _ in range(20):
            self.list_images()
            if self.requests():
                return next(iter(self.requests().values()))
            self.wake()
        raise AssertionError("nothing is asked")

    def stream(self, body):
        self.give(Heard(stream="kube.node", item=ApiNodeListed(body=body)))

    def show(self):
        """Have the stream bring what the server has."""
        self.stream(None if self.server.node is None else json.dumps(self.server.node).encode())

    def press(self, *conditions):
        self.give(PressureSeen(conditions=conditions))

    def health(self, **changes):
        self.give(replace(self.state.health, **changes))

    def events(self):
        return [one.reason for one in self.state.node_events]

    def published(self):
        return [message for to, message in self.sent if isinstance(message, NodeObjectSeen)]

    def questions(self):
        return [(to, type(message).__name__) for to, message in self.sent]


def registered(**more):
    """Return a hand whose node is registered and ready, and who has nothing to do for a while."""
    hand = Hand(**more)
    hand.run(1.0)
    assert hand.server.condition("Ready")["status"] == "True"
    return hand
