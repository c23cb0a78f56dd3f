"""What must hold of every eviction, held against what really happened: readings, containers, volumes, images, newcomers.

`EvictionBook` reckons by itself, from the rounds of usage that were delivered, which thresholds are met since when, and
compares each victim with it and with the world. It asks the manager only what it did.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from actors.admission.state import AdmissionState
from actors.eviction.state import Clearing, EvictionState, Killing, Reclaiming, Victim
from actors.pod.state import PodState
from api import paths
from api.eviction import KINDS, Pressure, Signal, Threshold
from api.ids import Path, Uid
from api.messages import Message
from api.messages.admission import NodePressure
from api.messages.eviction import ActivePod, ActivePods
from api.messages.images import WantImages
from api.messages.pod import KillCause
from api.messages.usage import UsageRead
from api.ports.images import RemoveImage
from api.ports.runtime import RuntimeContainerState
from api.usage import Usage
from tests.harness.eviction.evictionreckon import ON_DISK, is_critical, keeps_out, levels, weight
from tests.harness.world.coverage import Coverage
from tests.harness.world.world import World

KILL_WAIT_S, CLEAR_WAIT_S, RECLAIM_WAIT_S, SLACK_S = 30.0, 30.0, 120.0, 1.0
INSTANT_S = 0.001
TOLD_S, TOLD_AGAIN_S = 10.0, 75.0
"""Within which pressure is known to whoever lets newcomers in; the longer when the telling may be lost."""
EvictionAction = Killing | Clearing | Reclaiming
Broken = tuple[str, str]
"""The sentence that does not hold, and how."""


@dataclass
class Reckoning:
    """What one incarnation of the manager may know, reckoned from what it was told."""

    began_at: float
    usage: Usage | None = None
    since: dict[Threshold, float] = field(default_factory=dict)
    ripe: set[Threshold] = field(default_factory=set)
    felt: dict[Pressure, float] = field(default_factory=dict)
    active: dict[Uid, ActivePod] = field(default_factory=dict)
    leaving: tuple[Uid, ...] = ()
    known: frozenset[tuple[Uid, float]] = frozenset()
    doing: EvictionAction | None = None
    doing_since: float = 0.0
    over_at: float = float("-inf")
    last_action: EvictionAction | None = None
    """The one before the present one."""
    dedicated: bool = False
    """When that was over, images were known to be on a disk of their own."""


class EvictionBook:
    """The rules of eviction, over one seed."""

    def __init__(
        self,
        world: World,
        coverage: Coverage,
        *,
        doomed: Callable[[], tuple[Uid, ...]],
        pressure_may_be_lost: bool,
    ) -> None:
        self._world, self._scarcity, self._coverage = world, world.scarcity, coverage
        self._doomed = doomed
        self._told_s = TOLD_AGAIN_S if pressure_may_be_lost else TOLD_S
        self._number: tuple[int, int] = (-1, -1)
        self._state: EvictionState | None = None
        self._own = Reckoning(began_at=0.0)
        self._last: tuple[Path, Message] | None = None
        self._supervisor: tuple[int, int] = (-1, -1)
        self._pressure: tuple[Pressure, ...] = ()
        self._judged: set[Uid] = set()
        self._differs_since: float | None = None
        self._epoch = 0
        self._puller: tuple[int, int] = (-1, -1)
        self._wanted: dict[Uid, frozenset[str]] = {}
        self._removal = ""
        world.images.on_removal = self.removing

    def see(self, path: Path, message: Message) -> None:
        """Note what is about to be handled."""
        self._last = (path, message)

    def step(self, path: Path, number: tuple[int, int], state: object) -> Broken | None:
        """Take in what an actor committed; return the rule that it breaks."""
        message = self._last[1] if self._last is not None and self._last[0] == path else None
        now = self._world.time.now()
        if self._removal:
            return "never an image of a live pod, or one that is fetched for it, is removed", self._removal
        if path == paths.EVICTION and isinstance(state, EvictionState) and state is not self._state:
            if number != self._number:
                # It began a moment before its first message: that is when it began to wait for others' victims.
                self._number, self._own = number, Reckoning(began_at=state.settling.until - KILL_WAIT_S)
            self._state = state
            if now < self._own.began_at + KILL_WAIT_S and self._earlier():
                self._own.over_at = now
            said = self._take(message, state, now)
            if said is not None:
                return said
        elif path == paths.ADMISSION and isinstance(state, AdmissionState):
            said = self._admitted(number, message, state)
            if said is not None:
                return said
        elif path == paths.IMAGES:
            self._want(number, message)
        elif isinstance(state, PodState):
            killed = state.killed is not None and state.killed.cause is KillCause.EVICTED
            if killed and state.desired is not None and is_critical(state.desired):
                return "critical pods are spared", f"{state.desired.metadata.name} is evicted"
        return self._told(now) if path in (paths.EVICTION, paths.ADMISSION) else None

    # ------------------------------------------------------------ the manager

    def _take(self, message: Message | None, state: EvictionState, now: float) -> Broken | None:
        own = self._own
        match message:
            # A crash on a message loses it: then the state holds another one.
            case UsageRead(usage=usage) if state.usage is usage:
                self._reckon(usage, now)
            case ActivePods(pods=pods, leaving=leaving) if state.active is pods:
                own.active, own.leaving = {one.uid: one for one in pods}, leaving
            case _:
                pass
        said = "; ".join(self._actions(state, now))
        if said:
            return (
                "one action at a time, on what was really read after the last one, of whom it must be",
                said,
            )
        if own.usage is None:
            return None
        transition_s = self._world.settings.eviction.transition_s
        due = {KINDS[one.signal].pressure for one in own.since}
        due |= {one for one, at in own.felt.items() if now - at < transition_s}
        if set(state.pressure.conditions) != due:
            return (
                "pressure is what readings show, and lasts its time",
                f"{state.pressure.conditions}, reckoned {due}",
            )
        for one in due:
            self._coverage.note("pressure", one)
        return None

    def _reckon(self, usage: Usage, now: float) -> None:
        """Reckon anew what is short, and since when."""
        own = self._own
        own.usage = usage
        shown = levels(usage)
        for one in self._world.settings.eviction.thresholds:
            level = shown.get(one.signal)
            if level is None:
                continue
            available, capacity, _ = level
            least = one.value.of(capacity) + (one.reclaim.of(capacity) if one in own.ripe else 0)
            if available < least:
                own.since.setdefault(one, now)
            else:
                own.since.pop(one, None)
        own.ripe = {one for one, since in own.since.items() if now - since >= one.grace_s}
        own.felt |= dict.fromkeys((KINDS[one.signal].pressure for one in own.since), now)

    def _actions(self, state: EvictionState, now: float) -> Iterator[str]:
        """Yield what is wrong with what the manager does."""
        own = self._own
        fresh = [one for one in state.evicted.victims if (one.uid, one.asked_at) not in own.known]
        own.known = frozenset((one.uid, one.asked_at) for one in state.evicted.victims)
        if len(fresh) > 1:
            yield f"two victims at once: {[one.name for one in fresh]}"
        before = own.doing
        if before is not None and action_key(before) != action_key(state.doing):
            own.over_at, own.last_action, own.doing = now, before, None
            own.dedicated = own.usage is not None and own.usage.node.dedicated_image_fs is True
            said = self._not_over(before, now)
            if said:
                yield said
        if fresh and not isinstance(state.doing, Killing):
            yield f"{fresh[0].name} is chosen and nobody waits for its end"
        for victim in fresh:
            self._coverage.note("evicted for", victim.signal)
            yield from self._victim(victim, state, now)
        if state.doing is not None and own.doing is None:
            own.doing_since = now
            if isinstance(state.doing, Clearing):
                self._coverage.note("ended pods for", state.doing.signal)
            if isinstance(state.doing, Reclaiming):
                self._coverage.note("images for", state.doing.signal)
                last = own.last_action
                if not isinstance(last, Clearing) or last.run != state.doing.run:
                    yield "images are collected before what is kept of pods that have ended was removed"
        own.doing = state.doing
        waited_s = now - own.doing_since
        if isinstance(state.doing, Killing) and waited_s > longest_s(state.doing) + SLACK_S:
            yield f"{state.doing.victim.name} has been waited for since {own.doing_since:.0f} s"
        if isinstance(state.doing, Clearing) and waited_s > CLEAR_WAIT_S + SLACK_S:
            yield f"pods that have ended have been waited for since {own.doing_since:.0f} s"
        if isinstance(state.doing, Reclaiming) and waited_s > RECLAIM_WAIT_S + SLACK_S:
            yield f"a collection of images has been waited for since {own.doing_since:.0f} s"

    def _not_over(self, before: EvictionAction, now: float) -> str:
        """Return why a action is not over though it is taken for that."""
        waited_s = now - self._own.doing_since
        if not isinstance(before, Killing):
            return ""
        if waited_s >= longest_s(before) - INSTANT_S:
            self._coverage.note("victim", "awaited in vain")
            return ""
        left = self._left(before.victim.uid)
        self._coverage.note("victim", "gone")
        return f"{before.victim.name} is taken for gone, and {left}" if left else ""

    def _earlier(self) -> str:
        """Return what is left of pods that an earlier life of the agent evicted."""
        return "; ".join(f"of {uid} {left}" for uid in self._doomed() if (left := self._left(uid)))

    def _left(self, uid: Uid) -> str:
        """Return what is left of a pod that takes something of the node."""
        pod = self._world.runtime._world.pod(uid)
        alive = [one.name for one in pod.containers if one.state is RuntimeContainerState.RUNNING]
        if alive:
            return f"its containers {alive} run"
        volumes = [path for path in self._world.volumes.paths_of(uid) if path in self._world.volumes.volumes]
        return f"its volumes {volumes} are there" if volumes else ""

    def _victim(self, victim: Victim, state: EvictionState, now: float) -> Iterator[str]:
        """Yield what is wrong with the choice of a victim."""
        own, name = self._own, victim.name
        mine = own.active.get(victim.uid)
        if mine is None or own.usage is None:
            yield f"{name} is chosen and nothing is known of it"
            return
        if own.doing is not None:
            yield f"{name} is chosen while another action is under way"
        if is_critical(mine.pod):
            yield f"{name} is critical"
        ending = bool(own.leaving) or any(one.ending for one in own.active.values())
        if now < own.began_at + KILL_WAIT_S and ending:
            yield f"{name} is chosen while a victim of an earlier incarnation may be ending"
        if now < own.began_at + KILL_WAIT_S and (earlier := self._earlier()):
            yield f"{name} is chosen while there are others whom an earlier life of the agent evicted: {earlier}"
        if victim.signal not in [signal.value for signal in Signal]:
            return
        signal = Signal(victim.signal)
        due = [one for one in own.since if one.signal is signal and now - own.since[one] >= one.grace_s]
        level = levels(own.usage).get(signal)
        if not due or level is None:
            yield f"{name} is chosen and {signal} is not short, or not for its grace: {level}"
            return
        available, _, as_of = level
        if as_of <= max(own.over_at, own.began_at):
            yield f"{name} is chosen by a reading of {as_of:.1f}, older than the last action at {own.over_at:.1f}"
        if self._scarcity is not None and not self._scarcity.was_read(signal, available, as_of):
            yield f"{name} is chosen since {available} of {signal} were read at {as_of:.1f}, which they were not"
        dedicated = own.dedicated or own.usage.node.dedicated_image_fs is True
        if signal in ON_DISK and not (dedicated and signal in ON_DISK[:2]):
            last = own.last_action
            if not isinstance(last, Reclaiming) or last.signal is not signal:
                yield f"{name} has to go for {signal} before unused images did"
        yield from self._better(victim, signal, state, now)

    def _better(self, victim: Victim, signal: Signal, state: EvictionState, now: float) -> Iterator[str]:
        """Yield who should have gone instead."""
        own = self._own
        assert own.usage is not None
        rows = {row.uid: row for row in own.usage.pods}
        dedicated = own.usage.node.dedicated_image_fs is True
        chosen = weight(own.active[victim.uid].pod, rows.get(victim.uid), signal, now, dedicated=dedicated)
        if chosen is None:
            yield f"{victim.name} is chosen and usage unknown"
            return
        for uid, one in own.active.items():
            asked = uid != victim.uid and uid in state.evicted.asked
            if one.ending or asked or is_critical(one.pod):
                continue
            other = weight(one.pod, rows.get(uid), signal, now, dedicated=dedicated)
            if other is not None and other > chosen:
                yield f"{victim.name} goes for {signal} with {chosen}, {one.pod.metadata.name} has {other}"
                return

    # ------------------------------------------------------------ newcomers

    def _admitted(
        self, number: tuple[int, int], message: Message | None, state: AdmissionState
    ) -> Broken | None:
        """Hold each new verdict against what the supervisor was told of pressure."""
        if number != self._supervisor:
            self._supervisor, self._pressure = number, ()
            # What an earlier incarnation decided is taken over, not decided.
            self._judged = {
                uid for uid, one in state.pods.items() if one.verdict is not None and not one.fresh
            }
        if isinstance(message, NodePressure) and state.pressure == message:
            self._pressure = message.conditions
        for uid, entry in state.pods.items():
            if entry.verdict is None:
                self._judged.discard(uid)
                continue
            if uid in self._judged:
                continue
            self._judged.add(uid)
            if not entry.fresh or entry.row.pod is None:
                continue
            refusal = entry.verdict.refusal
            refused = refusal is not None and refusal.reason == "Evicted"
            must = keeps_out(entry.row.pod, self._pressure)
            if refused:
                self._coverage.note("newcomer", f"refused under {' '.join(self._pressure)}")
            elif self._pressure:
                self._coverage.note("newcomer", f"let in under {' '.join(self._pressure)}")
            if refused and not must:
                return "a newcomer is refused under pressure only", f"{entry.row.name}: {self._pressure}"
            if must and refusal is None:
                return "a newcomer is refused under pressure", f"{entry.row.name}: {self._pressure}"
        return None

    def _told(self, now: float) -> Broken | None:
        """Compare what is known of pressure by who feels it and by who lets newcomers in."""
        system = self._world.system
        assert system is not None
        felt, supervisor = system.committed(paths.EVICTION), system.committed(paths.ADMISSION)
        if not isinstance(felt, EvictionState) or not isinstance(supervisor, AdmissionState):
            return None
        if felt.usage is None or felt.pressure.conditions == supervisor.pressure.conditions:
            self._differs_since = None
            return None
        if self._differs_since is None or supervisor.epoch != self._epoch:
            # One that crashes again and again has each time as long to be told as the first time.
            self._differs_since, self._epoch = now, supervisor.epoch
        if now - self._differs_since <= self._told_s:
            return None
        said = f"since {self._differs_since:.0f} s {felt.pressure.conditions} is felt and {supervisor.pressure.conditions} known"
        return "pressure is told, and told again to a supervisor that began anew", said

    def agent_started(self) -> None:
        """Begin anew with a life of the agent."""
        self._number = self._supervisor = self._puller = (-1, -1)
        self._state, self._last, self._differs_since = None, None, None
        self._wanted.clear()

    # ------------------------------------------------------------ images

    def _want(self, number: tuple[int, int], message: Message | None) -> None:
        if number != self._puller:
            self._puller = number
            self._wanted.clear()
        if isinstance(message, WantImages):
            self._wanted[message.uid] = frozenset(want.image for want in message.wants)

    def removing(self, call: RemoveImage) -> None:
        """Hold a removal against the truth at its instant."""
        world = self._world.runtime._world
        self._coverage.note("world", "image removed")
        image = world.image(call.image)
        names = {call.image, *(image.names if image is not None else ())}
        users = [c.name for c in world.containers.values() if c.image_id == call.image]
        wants = sorted(uid for uid, wanted in self._wanted.items() if wanted & names)
        if users:
            self._removal = f"{sorted(names)} while containers {users} are made of it"
        elif wants:
            self._removal = f"{sorted(names)} while pods {wants} want it"


def action_key(doing: EvictionAction | None) -> object:
    """Return what distinguishes an action from another."""
    match doing:
        case Killing(victim=victim):
            return (victim.uid, victim.asked_at)
        case Clearing(run=run) | Reclaiming(run=run):
            return type(doing), run
        case None:
            return None


def longest_s(doing: Killing) -> float:
    """Return how long a victim is waited for."""
    return max(KILL_WAIT_S, 1.5 * doing.victim.grace_s)
