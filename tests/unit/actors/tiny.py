"""A runtime, a ledger and a disk in a few lines of data, and a hand that plays them to one pod core."""

import itertools

import msgspec

from actors.pod.core import decide, initial
from actors.pod.state import PodSettings, PodState
from api.errors import Failure, FailureKind
from api.ids import Path
from api.lifecycle import Cancel, Start, Tell
from api.messages.images import WantImages
from api.messages.kernel import Alarm, Outcome
from api.messages.pod import ImageProgress, ImageReport, KillCause, KillPod, PodObserved, UpdatePod
from api.ports.call import Done
from api.ports.cgroups import EnsurePodCgroup, PodCgroupMade, PodCgroupRemoved, RemovePodCgroup
from api.ports.kube import ReadRuntimeClass, ReadServices, RuntimeClassRead, ServicesRead
from api.ports.ledger import Forget, Recall, Recalled, Remember
from api.ports.logs import LinkContainerLog, LogLinked, RemoveContainerLogs
from api.ports.net import HttpAnswer, HttpGet
from api.ports.node import NodeFacts, NodeFiles
from api.ports.podfiles import (
    MakePodFolders,
    PrepareContainer,
    ReadEnding,
    ReadNodeFiles,
    RemovePodFolders,
    TerminationMessage,
)
from api.ports.runtime import (
    CreateContainer,
    ExecInContainer,
    ExecResult,
    InspectPod,
    RemoveContainer,
    RemoveSandbox,
    RunSandbox,
    RuntimeContainer,
    RuntimeContainerState,
    RuntimePod,
    Sandbox,
    SandboxState,
    StartContainer,
    StopContainer,
    StopSandbox,
    UpdateContainer,
)
from api.ports.volumes import (
    PrepareSubPath,
    PrepareVolume,
    RemoveVolumes,
    SubPathReady,
    VolumeReady,
    VolumesRemoved,
)
from tests.unit.actors.pods import NS, UID, WALL, shown

STARTING = (RunSandbox, CreateContainer, StartContainer)
ASKER = Path("/node/asker")
FACTS = NodeFacts(name="n1", ips=("10.0.0.7",), confined=True, cgroup_version=2, pod_cgroups=True)
"""Of a node whose runtime confines containers."""


class TinyWorld:
    """What outlives an actor: one pod in the runtime, its pages in the ledger, its folders."""

    def __init__(self, view=None):
        self.view = view or shown()
        self.pages = {}
        self.folders = False
        self.groups = set()
        self.made = PodCgroupMade()
        """What becomes of a pod's cgroup."""
        self.volumes = set()
        self.services, self.handlers = (), {}
        """Of the cluster, where the node is in one."""
        self.last_words = ""
        self.commands = {}
        """By command: what running it in a container comes to, where that is not success."""
        self.counter = itertools.count(100)

    def apply(self, call, wall):
        """Carry a call out and return its result."""
        view = self.view
        match call:
            case InspectPod():
                pass
            case RunSandbox(spec=spec):
                made = Sandbox(
                    id=f"box{spec.attempt}",
                    uid=spec.uid,
                    name=spec.name,
                    namespace=spec.namespace,
                    attempt=spec.attempt,
                    state=SandboxState.READY,
                    created_at=wall,
                    ips=("10.0.0.9",),
                )
                if made.id not in {s.id for s in view.sandboxes}:
                    self.view = msgspec.structs.replace(view, sandboxes=(made, *view.sandboxes))
            case StopSandbox(sandbox_id=box):
                for one in view.containers:
                    if one.sandbox_id == box:
                        self.exit(one.name, 137, wall)
                self.view = msgspec.structs.replace(
                    self.view,
                    sandboxes=tuple(
                        msgspec.structs.replace(s, state=SandboxState.NOT_READY) if s.id == box else s
                        for s in self.view.sandboxes
                    ),
                )
            case RemoveSandbox(sandbox_id=box):
                self.view = msgspec.structs.replace(
                    view,
                    sandboxes=tuple(s for s in view.sandboxes if s.id != box),
                    containers=tuple(c for c in view.containers if c.sandbox_id != box),
                )
            case CreateContainer(spec=spec, sandbox_id=box):
                made = RuntimeContainer(
                    id=f"tiny://{spec.name}-{next(self.counter)}",
                    sandbox_id=box,
                    name=spec.name,
                    attempt=spec.attempt,
                    image=spec.image,
                    state=RuntimeContainerState.CREATED,
                    created_at=wall,
                    annotations=spec.annotations,
                    resources=spec.resources.amounts() if spec.resources is not None else None,
                )
                self.view = msgspec.structs.replace(view, containers=(made, *view.containers))
            case StartContainer(container_id=one):
                self._change(one, state=RuntimeContainerState.RUNNING, started_at=wall)
            case UpdateContainer(container_id=one, resources=given):
                (now,) = (c.resources for c in self.view.containers if c.id == one)
                self._change(one, resources=now.updated(given))
            case StopContainer(container_id=one):
                self._end(one, 143, wall)
            case RemoveContainer(container_id=one):
                self.view = msgspec.structs.replace(
                    view, containers=tuple(c for c in view.containers if c.id != one)
                )
            case Remember(section=section, data=data):
                self.pages[section] = data
                return Done()
            case Forget(section=section):
                self.pages.pop(section, None)
                return Done()
            case Recall(section=section):
                return Recalled(data=self.pages.get(section))
            case MakePodFolders():
                self.folders = True
                return Done()
            case RemovePodFolders():
                self.folders = False
                return Done()
            case EnsurePodCgroup(cgroup_parent=path):
                self.groups.add(path)
                return self.made
            case RemovePodCgroup(cgroup_parent=path):
                self.groups.discard(path)
                return PodCgroupRemoved()
            case ReadNodeFiles():
                return NodeFiles()
            case ReadServices():
                return ServicesRead(services=self.services)
            case ReadRuntimeClass(name=name):
                return RuntimeClassRead(handler=self.handlers[name])
            case ReadEnding():
                return TerminationMessage(message=self.last_words)
            case LinkContainerLog():
                return LogLinked(made=True)
            case PrepareVolume(volume=name):
                self.volumes.add(name)
                return VolumeReady(host_path=f"/volumes/{name}")
            case PrepareSubPath(index=index):
                return SubPathReady(host_path=f"/bound/{index}")
            case RemoveVolumes():
                self.volumes.clear()
                return VolumesRemoved()
            case PrepareContainer() | RemoveContainerLogs():
                return Done()
            case ExecInContainer(command=command):
                return self.commands.get(command, ExecResult(exit_code=0))
            case HttpGet():
                return HttpAnswer(status=200)
            case _:
                raise AssertionError(call)
        return self.view

    def exit(self, name, code, wall):
        """End whatever runs of a container."""
        for one in self.view.containers:
            if one.name == name:
                self._end(one.id, code, wall)

    def lose(self, name):
        """Forget everything of a container, whatever it was doing, as `rm` by hand would."""
        left = tuple(c for c in self.view.containers if c.name != name)
        self.view = msgspec.structs.replace(self.view, containers=left)

    def _end(self, container_id, code, wall):
        for one in self.view.containers:
            if one.id == container_id and one.state in (
                RuntimeContainerState.RUNNING,
                RuntimeContainerState.UNKNOWN,
            ):
                self._change(
                    container_id, state=RuntimeContainerState.EXITED, exit_code=code, finished_at=wall
                )

    def _change(self, container_id, **changes):
        self.view = msgspec.structs.replace(
            self.view,
            containers=tuple(
                msgspec.structs.replace(c, **changes) if c.id == container_id else c
                for c in self.view.containers
            ),
        )


class Hand:
    """Plays the world to one pod core, message by message."""

    def __init__(self, world=None, inherited=(), now=10.0, *, answer_images=True, **settings):
        self.answer_images = answer_images
        """Whether each wanted image is there at once."""
        self.world = world or TinyWorld()
        self.now = now
        self.wall = WALL + int(now * NS)
        self.ops = itertools.count(1)
        self.open = {}
        self.told = []
        self.started = []
        self.cancelled = []
        self.wake_at = None
        own = {name: settings.pop(name) for name in PodSettings.__struct_fields__ if name in settings}
        state = PodState(uid=UID, settings=PodSettings(log_root="/logs", **own), **settings)
        self.state = initial(state, now, inherited)
        self.give(None)

    def give(self, message):
        """Let the core decide on one message; return what it started."""
        decision = decide(self.state, message, self.now, self.wall, lambda: next(self.ops))
        self.state = decision.state
        self.decided_at = self.now
        self.wake_at = decision.wake_at
        fresh, asked = [], ()
        for action in decision.actions:
            match action:
                case Start():
                    self.open[action.op] = (action, self.now)
                    fresh.append(action.call)
                case Cancel(op=op):
                    self.cancelled.append(op)
                case Tell(message=WantImages(wants=wants)):
                    self.told.append((action.to, action.message))
                    asked = wants if self.answer_images else ()
                case Tell():
                    self.told.append((action.to, action.message))
                case _:
                    raise AssertionError(action)
        self.started += fresh
        return fresh + [call for want in asked for call in self.answer(want)]

    def answer(self, want, progress=ImageProgress.READY, **more):
        """Tell the core how far an image is."""
        more.setdefault("ref", want.image if progress is ImageProgress.READY else "")
        return self.give(
            ImageReport(
                uid=UID,
                container=want.container,
                attempt=want.attempt,
                again=want.again,
                image=want.image,
                progress=progress,
                **more,
            )
        )

    def wants(self):
        """Return the images that were asked for last."""
        return self.messages(WantImages)[-1].wants

    def wait(self, seconds):
        """Let time go by."""
        self.now += seconds
        self.wall += int(seconds * NS)

    def update(self, pod, generation=1, node=None):
        """Tell the core what it should be, on the node that it knows unless another is given."""
        facts = node or self.state.node
        return self.give(UpdatePod(pod=pod, source="file", generation=generation, node=facts))

    def kill(self, grace=None, cause=KillCause.REMOVED, deleted=True, asked_by=ASKER, **more):
        """Tell the core to end."""
        return self.give(
            KillPod(uid=UID, cause=cause, grace_s=grace, deleted=deleted, asked_by=asked_by, **more)
        )

    def observe(self, view=None, as_of=None):
        """Tell the core what the runtime shows, as Pleg would."""
        at = self.now if as_of is None else as_of
        return self.give(PodObserved(uid=UID, pod=view or self.world.view, as_of=at))

    def op_of(self, kind):
        """Return the open operation of this kind of call."""
        return next(op for op, (start, _) in self.open.items() if isinstance(start.call, kind))

    def end(self, op, failure=None, took=0.01, happens=True, reason=""):
        """End an open operation, well or with this kind of failure; one that failed may have happened all the same."""
        self.wait(took)
        start, since = self.open.pop(op)
        result = self.world.apply(start.call, self.wall) if happens else None
        outcome = Outcome(
            op=op,
            call=type(start.call).__name__,
            result=None if failure else result,
            failure=Failure(kind=failure, message="it broke", reason=reason) if failure else None,
            started_at=since,
            ended_at=self.now,
        )
        return self.give(outcome)

    def fail(self, kind, failure=FailureKind.UNAVAILABLE, happens=False):
        """Let the open call of this kind fail."""
        return self.end(self.op_of(kind), failure, happens=happens)

    def settle(self, limit=60, but=()):
        """Let every open call end well until nothing is open, but for those of these kinds."""
        for _ in range(limit):
            left = [op for op, (start, _) in self.open.items() if not isinstance(start.call, but)]
            if not left:
                return self
            self.end(min(left))
        raise AssertionError(f"it never settles: {self.started[-6:]}")

    def settle_until(self, kind):
        """Let calls end well until one of this kind is open."""
        for _ in range(60):
            if any(isinstance(start.call, kind) for start, _ in self.open.values()):
                return self
            assert self.open, f"{kind.__name__} never comes: {self.started}"
            self.end(min(self.open))
        raise AssertionError(kind)

    def ring(self):
        """Let time go by until the alarm that the core asked for, and ring it."""
        assert self.wake_at is not None, "it asked for no alarm"
        self.wait(max(0.0, self.wake_at - self.now) + 0.001)
        return self.give(Alarm(at=self.now))

    def messages(self, kind):
        """Return the messages of a kind that were told, oldest first."""
        return [message for _, message in self.told if isinstance(message, kind)]

    @property
    def status(self):
        """Return the status as last composed."""
        return self.state.base


def running_pod(pod, **settings):
    """Return a hand on a pod that runs."""
    hand = Hand(**settings)
    hand.update(pod)
    return hand.settle()


__all__ = ["ASKER", "STARTING", "Hand", "RuntimePod", "TinyWorld", "running_pod"]


def crashed(hand, name="a", code=3):
    """Let a container end with this code, the runtime show it, and what follows happen."""
    hand.wait(1)
    hand.world.exit(name, code, hand.wall)
    hand.wait(0.01)
    hand.observe()
    return hand.settle()


def calls(hand, *kinds):
    """Return the calls of these kinds that were started, oldest first."""
    return [call for call in hand.started if isinstance(call, kinds)]


def made(hand):
    """Return name and number of each instance that was made."""
    return [f"{call.spec.name}{call.spec.attempt}" for call in calls(hand, CreateContainer)]


def stopped(hand):
    """Return container and grace of every stop so far."""
    return [(name_in(call.container_id), call.grace_s) for call in calls(hand, StopContainer)]


def name_in(identity):
    """Return the container's name in an id of the tiny world."""
    bare = identity.removeprefix("tiny://")
    return bare.partition("-")[0] if "-" in bare else bare[:-1]
