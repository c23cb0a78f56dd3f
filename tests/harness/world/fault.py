"""Draws a plan of faults from a seed, and the seam that carries it out while it sees everything else too."""

from collections.abc import Callable
from random import Random

import msgspec

from api.errors import FailureKind
from api.faults import (
    AnyFault,
    CrashActor,
    CutStream,
    DelayMessage,
    DelayOperation,
    DropItem,
    DropMessage,
    DuplicateMessage,
    FailOperation,
    FaultPlan,
    HangOperation,
    JumpWallClock,
    KillProcess,
    When,
)
from api.ids import Path
from api.messages import Message
from runtime.kernel.intercept import ONCE, UNTOUCHED, FaultInterceptor, Sending, Struck

OPERATIONS: tuple[tuple[str, str, int], ...] = (
    # Port, call, how many of them a seed is sure to make: what `after` is drawn from.
    ("runtime", "RunSandbox", 12),
    ("runtime", "StopSandbox", 6),
    ("runtime", "RemoveSandbox", 6),
    ("runtime", "CreateContainer", 25),
    ("runtime", "StartContainer", 25),
    ("runtime", "StopContainer", 8),
    ("runtime", "RemoveContainer", 6),
    ("runtime", "ListPods", 60),
    ("runtime", "InspectPod", 80),
    ("images", "ImageStatus", 40),
    ("images", "PullImage", 8),
    ("ledger", "Remember", 100),
    ("ledger", "Forget", 8),
    ("ledger", "Recall", 30),
    ("ledger", "RecallAll", 3),
    ("podfiles", "MakePodFolders", 12),
    ("podfiles", "RemovePodFolders", 4),
    ("podfiles", "ListPodFolders", 1),
    ("manifests", "ReadManifests", 30),
    ("urls", "FetchManifests", 20),
)

GROUP_OPERATIONS: tuple[tuple[str, str, int], ...] = (
    ("cgroups", "EnsurePodCgroup", 12),
    ("cgroups", "RemovePodCgroup", 4),
    ("cgroups", "EnsureNodeCgroups", 8),
    ("node", "DescribeNode", 1),
)

VOLUME_OPERATIONS: tuple[tuple[str, str, int], ...] = (
    ("volumes", "PrepareVolume", 8),
    ("volumes", "PrepareSubPath", 6),
    ("volumes", "RemoveVolumes", 4),
)
"""Drawn from with chance of their own, so that what seeds did before they came stays as it was."""

MESSAGES: tuple[tuple[str, str, int], ...] = (
    ("/node/pods/*", "UpdatePod", 20),
    ("/node/pods/*", "KillPod", 6),
    ("/node/pods/*", "PodObserved", 80),
    ("/node/pods/*", "ImageReport", 30),
    ("/node/images", "WantImages", 40),
    ("/node/pods", "PodsChanged", 4),
    ("/node/pods", "PodsSnapshot", 1),
    ("/node/pods", "RuntimeListed", 60),
    ("/node/pods", "PodMoved", 30),
    ("/node/pods", "PodsDecided", 4),
    ("/node/config", "PodsSeen", 20),
    ("/node/status", "PodStatusComposed", 60),
    ("/node/status", "ForgetPodStatus", 4),
)

ADMISSION_MESSAGES: tuple[tuple[str, str, int], ...] = (
    ("/node/admission", "PodsToAdmit", 30),
    ("/node/pods", "PodsJudged", 6),
    ("/node/pods", "PodsDecided", 12),
    ("/node/pods", "VerdictsRecalled", 3),
    ("/node/pods", "PreemptPods", 1),
)
"""Said between supervisor and admission."""

PROBE_OPERATIONS: tuple[tuple[str, str], ...] = (
    ("runtime", "ExecInContainer"),
    ("net", "HttpGet"),
    ("net", "GrpcHealth"),
)
PROBE_MESSAGES: tuple[tuple[str, str], ...] = (
    ("/node/probes", "ProbePod"),
    ("/node/pods/*", "ProbeChanged"),
)

REORDERED = (
    "PodObserved",
    "RuntimeListed",
    "PodsChanged",
    "PodsSnapshot",
    "UpdatePod",
    "KillPod",
    "PodsDecided",
)
"""Messages that carry a number or an instant, or that only add: a late one must change nothing.

The others are levels of one sender, whose order the kernel keeps; a late one would be a broken promise of the kernel.
"""

ACTORS = (
    "/node/pods/*",
    "/node/pods",
    "/node/pleg",
    "/node/images",
    "/node/status",
    "/node/config",
    "/node/file",
    "/node/http",
)
STREAMS = ("runtime.events", "manifests.changes")
KINDS = (*(kind.value for kind in FailureKind), "Unavailable", "Unavailable", "TimedOut", "TimedOut")


def draw_plan(random: Random, victim: Path) -> FaultPlan:
    """Draw at least 30 faults; `victim` is the actor that some seeds kill past its restart budget."""
    faults: list[AnyFault] = [draw_fault(random) for _ in range(random.randint(30, 44))]
    if random.random() < 0.25:
        faults.append(CrashActor(path=victim, times=random.randint(6, 14), after=random.randint(0, 12)))
    if random.random() < 0.6:
        port, call, often = random.choice(OPERATIONS[:-2])
        when = random.choice(tuple(When))
        faults.append(KillProcess(port=port, call=call, when=when, after=random.randrange(often)))
    return FaultPlan(faults=(*faults, *draw_event_faults(Random(f"{victim}/events"))))


def draw_event_faults(random: Random) -> tuple[AnyFault, ...]:
    """Draw what befalls the keeper of events, from a source of its own: the other faults of a seed stay what they were."""
    if random.random() < 0.5:
        return ()
    message = random.choice(("KeepEvents", "ReleaseEvents", "EventSeen"))
    return (
        CrashActor(path="/node/events", times=random.randint(1, 3), after=random.randint(0, 60)),
        DropMessage(
            path="/node/events", message=message, times=random.randint(1, 4), after=random.randint(0, 12)
        ),
    )


def with_group_faults(plan: FaultPlan, random: Random) -> FaultPlan:
    """Return the plan with some faults of cgroups, from a random source of their own."""
    faults: list[AnyFault] = []
    for _ in range(random.randint(1, 5)):
        port, call, often = random.choice(GROUP_OPERATIONS)
        when, after = random.choice(tuple(When)), random.randrange(often)
        times = random.choice((1, 1, 3))
        kind = random.choice(KINDS)
        if random.random() < 0.7:
            faults.append(FailOperation(port=port, call=call, when=when, kind=kind, after=after, times=times))
        else:
            faults.append(HangOperation(port=port, call=call, when=when, after=after))
    if random.random() < 0.5:
        faults.append(CrashActor(path="/node/cgroups", after=random.randrange(40), times=2))
    if random.random() < 0.5:
        faults.append(DropMessage(path="/node/cgroups", message="PodCpuAsked", after=random.randrange(9)))
    return msgspec.structs.replace(plan, faults=(*plan.faults, *faults))


def with_admission_faults(plan: FaultPlan, random: Random) -> FaultPlan:
    """Return the plan with some faults of admission, from a random source of their own."""
    faults: list[AnyFault] = []
    for _ in range(random.randint(1, 4)):
        path, message, often = random.choice(ADMISSION_MESSAGES)
        after, times = random.randrange(often), random.choice((1, 1, 3))
        if random.random() < 0.7:
            faults.append(DropMessage(path=path, message=message, after=after, times=times))
        else:
            faults.append(DuplicateMessage(path=path, message=message, after=after))
    if random.random() < 0.6:
        faults.append(
            CrashActor(path="/node/admission", after=random.randrange(60), times=random.randint(1, 3))
        )
    return msgspec.structs.replace(plan, faults=(*plan.faults, *faults))


def draw_fault(random: Random) -> AnyFault:
    """Draw one fault that strikes with some likelihood."""
    port, call, often = random.choice(OPERATIONS)
    path, message, told = random.choice(MESSAGES)
    when = random.choice(tuple(When))
    roll = random.random()
    if roll < 0.30:
        return FailOperation(
            port=port,
            call=call,
            when=when,
            kind=random.choice(KINDS),
            after=random.randrange(often),
            times=random.choice((1, 1, 2, 5)),
        )
    if roll < 0.40:
        return HangOperation(port=port, call=call, when=when, after=random.randrange(often))
    if roll < 0.50:
        delay_s = random.choice((0.5, 3.0, 20.0))
        return DelayOperation(port=port, call=call, delay_s=delay_s, after=random.randrange(often))
    if roll < 0.62:
        # The supervisor handles a message a second: its crashes are spread over the whole run.
        after = random.randrange(200 if path.endswith("*") else 60)
        return CrashActor(path=random.choice(ACTORS), after=after, times=random.choice((1, 1, 1, 2, 3)))
    if roll < 0.72:
        times = random.choice((1, 1, 3))
        return DropMessage(path=path, message=message, after=random.randrange(told), times=times)
    if roll < 0.80:
        late = [(p, m, n) for p, m, n in MESSAGES if m in REORDERED]
        path, message, told = random.choice(late)
        delay_s = random.choice((0.2, 2.0, 15.0))
        return DelayMessage(path=path, message=message, delay_s=delay_s, after=random.randrange(told))
    if roll < 0.87:
        return DuplicateMessage(path=path, message=message, after=random.randrange(told))
    if roll < 0.91:
        return CutStream(stream=random.choice(STREAMS), after=random.randrange(40))
    if roll < 0.97:
        return DropItem(
            stream=random.choice(STREAMS), after=random.randrange(40), times=random.choice((1, 5))
        )
    by_s = random.choice((-3600.0, -30.0, -2.0, 5.0, 60.0, 4000.0))
    return JumpWallClock(by_s=by_s, after=random.randrange(800))


def draw_volume_faults(random: Random) -> tuple[AnyFault, ...]:
    """Draw some faults of calls on volumes."""
    faults: list[AnyFault] = []
    for _ in range(random.randint(2, 5)):
        port, call, often = random.choice(VOLUME_OPERATIONS)
        when, after = random.choice(tuple(When)), random.randrange(often)
        roll = random.random()
        if roll < 0.6:
            kind, times = random.choice(KINDS), random.choice((1, 1, 2, 5))
            faults.append(FailOperation(port=port, call=call, when=when, kind=kind, after=after, times=times))
        elif roll < 0.8:
            faults.append(HangOperation(port=port, call=call, when=when, after=after))
        elif roll < 0.92:
            faults.append(
                DelayOperation(port=port, call=call, delay_s=random.choice((0.5, 20.0)), after=after)
            )
        else:
            faults.append(KillProcess(port=port, call=call, when=when, after=after))
    return tuple(faults)


def draw_probe_faults(random: Random) -> tuple[AnyFault, ...]:
    """Draw what goes wrong with probes: calls, messages, the Prober itself."""
    faults: list[AnyFault] = []
    for port, call in PROBE_OPERATIONS:
        if random.random() < 0.5:
            kind, after, times = random.choice(KINDS), random.randrange(60), random.choice((1, 2, 5))
            when = random.choice(tuple(When))
            faults.append(FailOperation(port=port, call=call, when=when, kind=kind, after=after, times=times))
        if random.random() < 0.3:
            faults.append(
                HangOperation(
                    port=port, call=call, when=random.choice(tuple(When)), after=random.randrange(60)
                )
            )
    for path, message in PROBE_MESSAGES:
        if random.random() < 0.4:
            times = random.choice((1, 1, 3))
            faults.append(DropMessage(path=path, message=message, after=random.randrange(40), times=times))
        if random.random() < 0.2:
            faults.append(DuplicateMessage(path=path, message=message, after=random.randrange(40)))
    if random.random() < 0.6:
        after, times = random.randrange(300), random.choice((1, 1, 2))
        faults.append(CrashActor(path=Path("/node/probes"), after=after, times=times))
    return tuple(faults)


class Seam(FaultInterceptor):
    """Carries out a plan until `heal`, notes who handled what last, and looks at a fault only where one may strike."""

    def __init__(
        self, plan: FaultPlan, on_kill: Callable[[], None], see: Callable[[Path, Message], None]
    ) -> None:
        super().__init__(plan, on_kill)
        self._see = see
        self.healed = False
        self.started: list[tuple[str, str, str, When, int]] = []
        """Every point of an operation in its order: path, port, call, side, how often that call had come before."""
        self.keeps_points = False
        self.on_jump: Callable[[], None] = lambda: None
        crashes = [f for f in plan.faults if isinstance(f, CrashActor)]
        self._any_crash = any(f.message == "*" for f in crashes)
        self._crash_names = {f.message for f in crashes}
        told = [f for f in plan.faults if isinstance(f, DropMessage | DelayMessage | DuplicateMessage)]
        self._told_names = {f.message for f in told}
        self._any_told = "*" in self._told_names
        self._broken_calls = {call for f in plan.faults if (call := getattr(f, "call", ""))}
        if "*" in self._broken_calls:
            self._broken_calls |= {
                call for _, call, _ in (*OPERATIONS, *GROUP_OPERATIONS, *VOLUME_OPERATIONS)
            }
        self._live = list(range(len(plan.faults)))
        self._jumps = any(isinstance(f, JumpWallClock) for f in plan.faults)

    def _strike(self, selects: Callable[[AnyFault], bool]) -> AnyFault | None:
        """Count as the base does, but look no more at a fault that has struck as often as it may."""
        first, spent = None, False
        faults = self.plan.faults
        for index in self._live:
            fault = faults[index]
            if not selects(fault):
                continue
            match = self._matches[index]
            self._matches[index] = match + 1
            spent = spent or match + 1 >= fault.after + fault.times
            if first is None and fault.after <= match < fault.after + fault.times:
                self._strikes[index] += 1
                first = fault
        if spent:
            self._live = [i for i in self._live if self._matches[i] < faults[i].after + faults[i].times]
        return first

    def heal(self) -> None:
        """Break nothing any more."""
        self.healed = True

    def sending(self, path: Path, message: Message) -> Sending:
        """Lose, delay or double a message, when the plan names its class."""
        if self.healed or not (self._any_told or type(message).__name__ in self._told_names):
            return ONCE
        return super().sending(path, message)

    def delivering(self, path: Path, message: Message) -> None:
        """Note the delivery, then crash its receiver when that is planned."""
        self._see(path, message)
        if self.healed or not (self._any_crash or type(message).__name__ in self._crash_names):
            return
        super().delivering(path, message)

    def operating(self, path: Path, port: str, call: str, when: When) -> Struck:
        """Break an operation, when that is planned; after the healing only count it."""
        if self.keeps_points:
            self.started.append((path, port, call, when, self._points.get((port, call, when), 0)))
        if self.healed or call not in self._broken_calls:
            point = (port, call, when)
            self._points[point] = self._points.get(point, 0) + 1
            return UNTOUCHED
        return super().operating(path, port, call, when)

    def hearing(self, path: Path, stream: str, item: Message) -> Struck:
        """Lose an item or end its stream."""
        return UNTOUCHED if self.healed else super().hearing(path, stream, item)

    def reading_wall(self, path: Path) -> float:
        """Jump the wall clock."""
        by_s = 0.0 if self.healed or not self._jumps else super().reading_wall(path)
        if by_s:
            self.on_jump()
        return by_s


def expanded(plan: FaultPlan) -> tuple[str, ...]:
    """Return a plan as lines of text, without what is as usual."""
    return tuple(
        f"{type(fault).__name__}({', '.join(f'{k}={v!r}' for k, v in sorted(shown(fault).items()))})"
        for fault in plan.faults
    )


def shown(fault: AnyFault) -> dict[str, object]:
    """Return the fields of a fault that differ from their defaults."""
    fields = msgspec.structs.fields(fault)
    return {
        field.name: str(value) if isinstance(value, When) else value
        for field in fields
        if (value := getattr(fault, field.name)) != field.default
    }
