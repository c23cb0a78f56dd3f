"""One seed: a world, a plan of faults, a workload, kills of the agent; then healing, and the wait for everything to be right.

```text
0 s .. 600 s   faults, hands, kills                       rules hold after every step
heal           no fault any more, sources quiet           rules still hold
.. + 720 s     every wanted pod as its script says, all others gone, or the seed failed
a cluster's    then nothing is written for nothing, and a pod that is deleted ends within its grace
some seeds     then every manifest is removed             the world must become empty
```
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

import msgspec

from api.faults import DropMessage, FailOperation, FaultPlan
from api.ids import Path, Uid
from api.messages import Message
from api.paths import pod_path
from tests.harness.check.check import BrokenRuleError, Checker
from tests.harness.check.clusterbook import ClusterBook
from tests.harness.check.liveness import actors_of, unsettled
from tests.harness.check.pace import IdleSpells
from tests.harness.eviction.evictionbook import EvictionBook
from tests.harness.eviction.evictionreckon import is_critical
from tests.harness.eviction.evictionrule import draw_eviction_faults
from tests.harness.world.clusterend import check_calm
from tests.harness.world.clusterhand import ClusterHands
from tests.harness.world.clusterseed import draw_cluster_plan, draw_kill_steps
from tests.harness.world.coverage import Coverage
from tests.harness.world.fault import (
    Seam,
    draw_plan,
    draw_probe_faults,
    draw_volume_faults,
    expanded,
    with_admission_faults,
    with_group_faults,
)
from tests.harness.world.hand import Hands
from tests.harness.world.kernelrule import draw_kernel_faults
from tests.harness.world.kind import Kind
from tests.harness.world.noderule import draw_node_faults
from tests.harness.world.resize import with_resize_faults
from tests.harness.world.scarcity import Scarcity
from tests.harness.world.scarcityseed import draw_scarce_acts, draw_scarcity_faults, scarce_wish
from tests.harness.world.usagerule import draw_usage_faults
from tests.harness.world.workload import draw_wish, probed
from tests.harness.world.world import World

FAULTY_S = 600.0
SCARCE_PODS = (6, 11)
"""Fewer than elsewhere: what is short is so by a few pods."""
STATIC_PODS = (1, 4)
"""Of a node of a cluster, which has others beside them."""
PODS = {Kind.PLAIN: (9, 34), Kind.EVICTION: SCARCE_PODS, Kind.CLUSTER: STATIC_PODS}
BOUND_S = 720.0
LOOK_EVERY_S = 4.0
EMPTY_S = 400.0


@dataclass
class Result:
    """What came of a seed."""

    seed: int
    kind: Kind = Kind.PLAIN
    broken: str = ""
    """The rule that broke and how, empty when all held."""
    tail: tuple[str, ...] = ()
    """The last deliveries of the actors involved."""
    plan: tuple[str, ...] = ()
    story: tuple[str, ...] = ()
    """What the world's hands did."""
    counts: dict[tuple[str, str], int] = field(default_factory=dict)
    virtual_s: float = 0.0
    deliveries: int = 0
    faults_struck: int = 0
    lives: int = 0
    pods: int = 0
    took_s: float = 0.0
    digest: int = 0
    """Of every delivery: who, what, when."""


class SeedRun:
    """Runs one seed."""

    def __init__(
        self, seed: int, trace: Callable[[str], None] | None = None, kind: Kind = Kind.PLAIN
    ) -> None:
        self.seed, self.kind = seed, kind
        self.scarcity = Scarcity(seed) if kind is Kind.EVICTION else None
        self.random = Random(f"{seed}/workload")
        self.coverage = Coverage()
        self.checker = Checker(self.coverage)
        self.digest = 0
        random = self.random
        self.world = World(
            seed,
            with_url=random.random() < 0.5,
            complete_listings=random.random() < 0.7,
            call_deadline_s=random.choice((20.0, 30.0, 120.0)),
            scarcity=self.scarcity,
            in_cluster=kind is Kind.CLUSTER,
            see=self.see,
            on_step=self.on_step,
            forgotten=self.checker.forgotten,
        )
        self.world.trace = trace
        self.checker.world = self.world
        asks = Random(f"{seed}/first asks")
        many = PODS[kind]
        wishes = [draw_wish(random, f"p{index:02}", asks) for index in range(random.randint(*many))]
        if self.scarcity is not None:
            wishes = [scarce_wish(asks, wish) for wish in wishes]
        probing = Random(f"{seed}/probes")
        wishes = [probed(probing, wish) for wish in wishes]
        self.hands = Hands(self.world, self.checker, random)
        self._steps, self._kill_steps = 0, frozenset[int]()
        if self.world.api is not None:
            self.checker.cluster = ClusterBook(self.world.api, self.checker)
            self.world.api.trace = trace
            self.world.api.noted = lambda what: self.coverage.note("api", what)
            self.hands = ClusterHands(self.world.api, self.checker.cluster, self.hands)
            self._kill_steps = draw_kill_steps(seed)
        plan = draw_plan(random, pod_path(Uid(wishes[0].file_uid())))
        more = draw_volume_faults(Random(f"{seed}/volumes"))
        plan = FaultPlan(faults=(*plan.faults, *more, *draw_probe_faults(probing)))
        plan = FaultPlan(faults=(*plan.faults, *draw_usage_faults(seed), *draw_eviction_faults(seed)))
        if self.scarcity is not None:
            plan = FaultPlan(faults=(*plan.faults, *draw_scarcity_faults(seed)))
        plan = FaultPlan(faults=(*plan.faults, *draw_kernel_faults(seed), *draw_node_faults(seed)))
        plan = with_group_faults(plan, Random(f"{seed}/groups"))
        plan = with_admission_faults(plan, Random(f"{seed}/admission"))
        plan = with_resize_faults(plan, Random(f"{seed}/resize faults"))
        if kind is Kind.CLUSTER:
            plan = draw_cluster_plan(seed)
        self.wishes = wishes
        self.plan: FaultPlan = plan
        self.seam = Seam(plan, self.killed, self.see)
        self.seam.on_jump = self.checker.wall_jumped
        self.world.seam = self.seam
        lost = any(isinstance(one, DropMessage) and one.message == "NodePressure" for one in plan.faults)
        self.checker.evictions = EvictionBook(
            self.world, self.coverage, doomed=self.checker.evicted_before, pressure_may_be_lost=lost
        )
        self.trace = trace
        if self.scarcity is None:
            spells = IdleSpells(seed, FAULTY_S)
            self.world.runtime.ignores = lambda call: self.is_idle(spells, call)

    def is_idle(self, spells: IdleSpells, call: msgspec.Struct) -> bool:
        """Tell whether the runtime answers this call as done and does not carry it out."""
        idle = spells.ignores(call, self.world.time.now())
        if idle:
            self.coverage.note("without effect", type(call).__name__)
        return idle

    def see(self, path: Path, message: Message) -> None:
        """Add a delivery to the digest and show it to the checker."""
        text = f"{self.world.time.now():.6f}{path}{type(message).__name__}"
        self.digest = zlib.crc32(text.encode(), self.digest)
        self.checker.see(path, message)

    def on_step(self) -> None:
        """Check what a step did; after some, kill the agent."""
        self.checker.on_step()
        self._steps += 1
        if self._steps in self._kill_steps and not self.seam.healed and not self.world.stopping:
            self.coverage.note("kill", "between messages")
            self.world.kill()

    def killed(self) -> None:
        """Kill the agent in the middle of a call."""
        self.coverage.note("kill", "at a call")
        self.world.kill()

    def run(self) -> Result:
        """Run the seed to its end or to the first broken rule."""
        began = time.perf_counter()
        result = Result(seed=self.seed, kind=self.kind, pods=len(self.wishes))
        try:
            self.under_faults()
            self.healed()
        except BrokenRuleError as broken:
            result.broken = str(broken)
            result.tail = self.tail(broken.actors)
        except AssertionError as broken:
            # The kernel and the world assert what must hold too.
            result.broken = f"an assertion of the system: {broken}"
        result.took_s = time.perf_counter() - began
        for fault, struck in self.seam.struck:
            if struck:
                when = getattr(fault, "when", "")
                self.coverage.note("fault", f"{type(fault).__name__} {when}".strip())
                result.faults_struck += struck
                if isinstance(fault, FailOperation):
                    self.coverage.note("failed", f"{fault.port} {fault.call}")
                    self.coverage.note("failure", fault.kind)
        for port, call, when, times in self.seam.points:
            self.coverage.counts["point", f"{port} {call} {when}"] += times
        self.world.kill()
        result.plan = expanded(self.plan)
        result.story = tuple(self.hands.story)
        result.counts = dict(self.coverage.counts)
        result.virtual_s = self.world.time.now()
        result.deliveries = self.world.handled
        result.lives = self.world.lives
        result.digest = self.digest
        return result

    def under_faults(self) -> None:
        """Let faults, hands and kills loose."""
        hands = self.hands
        for wish in self.wishes:
            hands.add(wish)
        hands.draw_acts(FAULTY_S)
        if self.scarcity is not None:
            draw_scarce_acts(self.scarcity, hands, FAULTY_S)
        self.start()
        while self.world.time.now() < FAULTY_S:
            until = min(FAULTY_S, hands.next_at())
            self.go_on(until)
            hands.act_due()
        if not self.world.alive:
            self.start()

    def start(self) -> None:
        """Start the agent."""
        self.checker.agent_started()
        self.world.start()

    def go_on(self, until: float) -> None:
        """Let the world go on; an agent that dies is started again after a while, as its service manager would."""
        world = self.world
        while world.time.now() < until:
            world.run_until(until)
            system = world.system
            assert system is not None
            if world.alive and system.failed is not None:
                self.coverage.note("kill", "past an actor's budget")
                world.kill()
            if world.alive:
                continue
            wait_s = self.random.choice((0.0, 0.05, 1.0, 5.0, 40.0))
            world.idle_until(min(until, world.time.now() + wait_s))
            self.start()

    def healed(self) -> None:
        """Heal everything and wait until all is right."""
        hands = self.hands
        self.seam.heal()
        hands.heal()
        self.world.usage.heal()
        if self.scarcity is not None:
            self.scarcity.heal(self.may_go)
        self.world.kernel.heal()
        wanted = hands.wanted()
        self.wait_until_settled(wanted, BOUND_S, "liveness: everything wanted runs, everything else is gone")
        self.checker.check_whole()
        if isinstance(hands, ClusterHands):
            check_calm(hands, self.go_on)
        if self.random.random() < 0.3:
            self.coverage.note("end", "everything removed")
            hands.remove_all()
            self.wait_until_settled(
                frozenset(), EMPTY_S, "liveness: removing every manifest empties the node"
            )
            self.checker.check_whole()

    def may_go(self, uid: Uid) -> bool:
        """Tell whether a pod may be evicted: who may not does not go on taking too much after the healing."""
        known = self.checker.states.get(pod_path(uid))
        if known is None:
            # It is another agent's.
            return False
        return known[1].desired is None or not is_critical(known[1].desired)

    def wait_until_settled(self, wanted: frozenset[Uid], bound_s: float, rule: str) -> None:
        """Wait until nothing is wrong any more, for at most `bound_s`."""
        until = self.world.time.now() + bound_s
        said = "not looked yet"
        while said and self.world.time.now() < until:
            self.go_on(self.world.time.now() + LOOK_EVERY_S)
            said = unsettled(self.world, wanted)
        if said:
            raise BrokenRuleError(
                rule, self.world.time.now(), f"after {bound_s:g} s: {said}", actors_of(self.world, said)
            )

    def tail(self, actors: tuple[Path, ...]) -> tuple[str, ...]:
        """Return the last deliveries of the actors involved, and of the supervisor."""
        system = self.world.system
        if system is None:
            return ()
        lines = []
        for path in (*actors, Path("/node/pods")):
            if path not in system._cells and path not in system._graves:
                continue
            lines.append(f"{path}:")
            lines += [f"  {row.at:.3f} {row.message} | {row.outcome}" for row in system.trace(path, 12)]
        return tuple(lines)


def run_seed(seed: int, trace: Callable[[str], None] | None = None, kind: Kind = Kind.PLAIN) -> Result:
    """Run one seed."""
    return SeedRun(seed, trace, kind).run()
