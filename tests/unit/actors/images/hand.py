"""An ImagePuller core in the hand: tells it messages, answers its calls, keeps what it told."""

import itertools

from actors.images.core import decide
from actors.images.state import ImagesState, PullerPolicy
from api.errors import Failure, FailureKind
from api.ids import Path, Uid
from api.lifecycle import Cancel, Start, Tell
from api.messages.imagegc import ImageDropped
from api.messages.images import DropImage, ImageWant, PullPolicy, WantImages
from api.messages.kernel import Alarm, Outcome
from api.messages.pod import ImageReport
from api.ports.credentials import NodeCredentials, ReadNodeCredentials
from api.ports.images import (
    ImagePulled,
    ImageRemoved,
    ImageRow,
    ImageShown,
    ImageStatus,
    PullImage,
    RemoveImage,
)

ALWAYS, ABSENT, NEVER = PullPolicy.ALWAYS, PullPolicy.IF_NOT_PRESENT, PullPolicy.NEVER
APP = "registry.local/app:1"
ID = "sha256:" + "a" * 64
GC = Path("/node/imagegc")


def row(image_id=ID, names=(APP,), **more):
    return ImageRow(id=image_id, names=names, size_bytes=more.pop("size_bytes", 7), **more)


def want(image=APP, policy=ABSENT, container="main", attempt=0):
    return ImageWant(container=container, attempt=attempt, image=image, policy=policy)


def failure(message="no such host", kind=FailureKind.UNAVAILABLE, reason=""):
    return Failure(kind=kind, message=message, reason=reason)


class Puller:
    """A core, what it has under way, and what it told whom."""

    def __init__(self, policy=None, state=None):
        self.now = 100.0
        self.ops = itertools.count(1)
        self.open = {}
        self.deadlines = {}
        self.cancelled = []
        self.told = []
        self.wake_at = None
        self.state = state or ImagesState(policy=policy or PullerPolicy(per_second=0))

    def give(self, message):
        decision = decide(self.state, message, self.now, lambda: next(self.ops))
        self.state, self.wake_at = decision.state, decision.wake_at
        for action in decision.actions:
            match action:
                case Start(op=op, port=port, call=call, deadline_s=deadline_s):
                    assert port == ("credentials" if isinstance(call, ReadNodeCredentials) else "images")
                    self.open[op] = call
                    self.deadlines[op] = deadline_s
                case Cancel(op=op):
                    self.cancelled.append(op)
                case Tell(to=to, message=told):
                    self.told.append((to, told))
        return decision.actions

    def want(self, *wants, uid="u1", **more):
        self.give(WantImages(uid=Uid(uid), wants=wants, **more))

    def drop(self, image_id=ID, names=(APP,), asked_by=GC, as_of=None):
        as_of = self.now if as_of is None else as_of
        self.give(DropImage(id=image_id, names=names, as_of=as_of, asked_by=asked_by))

    def calls(self, kind):
        return [call for call in self.open.values() if isinstance(call, kind)]

    def op(self, kind):
        return next(op for op, call in self.open.items() if isinstance(call, kind))

    def answer(self, kind, result=None, failure=None, op=None):
        op = op if op is not None else self.op(kind)
        call = self.open.pop(op)
        self.now += 0.01
        self.give(
            Outcome(
                op=op,
                call=type(call).__name__,
                result=None if failure else result,
                failure=failure,
                started_at=self.now - 0.01,
                ended_at=self.now,
            )
        )
        return call

    def look(self, image=None, failure=None):
        return self.answer(ImageStatus, ImageShown(image=image), failure)

    def read(self, *credentials, problems=(), failure=None):
        return self.answer(
            ReadNodeCredentials, NodeCredentials(credentials=credentials, problems=problems), failure
        )

    def pull(self, ref=ID, failure=None):
        return self.answer(PullImage, ImagePulled(ref=ref), failure)

    def remove(self, failure=None):
        return self.answer(RemoveImage, ImageRemoved(), failure)

    def fail_pull(self, why=None):
        self.read()
        self.pull(failure=why or failure())

    def ring(self):
        self.now = max(self.now, self.wake_at)
        self.give(Alarm(at=self.now))

    def wait(self, seconds):
        until = self.now + seconds
        while self.wake_at is not None and self.wake_at <= until:
            self.ring()
        self.now = until

    def report(self, uid="u1", container="main"):
        """The last report that a container's pod was told."""
        for to, message in reversed(self.told):
            if (
                isinstance(message, ImageReport)
                and to == f"/node/pods/{uid}"
                and message.container == container
            ):
                return message
        return None

    def dropped(self):
        """The last answer to a removal."""
        return next(message for _, message in reversed(self.told) if isinstance(message, ImageDropped))
