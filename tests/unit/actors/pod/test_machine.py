"""The pod core under any order of updates, kills, looks, alarms, deaths and outcomes, good and bad."""

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from msgspec.structs import replace

from actors.pod.core import decide
from actors.pod.state import LIFE_WORD, Finished, Gone, Recalling, Terminated
from api.errors import FailureKind
from api.ids import Path
from api.kube.objects.container import Container, EphemeralContainer
from api.lifecycle import Cancel, Start
from api.messages.eviction import PodKilled
from api.ports.ledger import Remember
from api.ports.runtime import CreateContainer, StopContainer
from tests.unit.actors.pods import IMAGE, wanted
from tests.unit.actors.tiny import STARTING, Hand

ORDER = list(LIFE_WORD)
POLICIES = ("Always", "OnFailure", "Never")
KINDS = (
    FailureKind.UNAVAILABLE,
    FailureKind.TIMED_OUT,
    FailureKind.NOT_FOUND,
    FailureKind.DENIED,
    FailureKind.REJECTED,
)

INIT = {
    "i": Container(name="i", image=IMAGE),
    "s": Container(name="s", image=IMAGE, restart_policy="Always"),
}


LOOKER = wanted(ephemeral_containers=(EphemeralContainer(name="e", image=IMAGE),)).spec.ephemeral_containers


class PodMachine(RuleBasedStateMachine):
    """One core, the tiny world, and what must hold whatever happens."""

    @initialize(
        policy=st.sampled_from(POLICIES),
        source=st.sampled_from(("file", "api")),
        many=st.booleans(),
        runs=st.booleans(),
        looked_into=st.booleans(),
        inits=st.sampled_from(("", "i", "s", "is", "si")),
    )
    def begin(self, policy, source, many, runs, looked_into, inits):
        before = tuple(INIT[name] for name in inits)
        self.pod = wanted(*("ab" if many else "a"), policy=policy, source=source, init_containers=before)
        if looked_into:
            self.pod = replace(self.pod, spec=replace(self.pod.spec, ephemeral_containers=LOOKER))
        self.hand = Hand()
        self.generation = 1
        if runs:
            self.hand.update(self.pod)
            self.hand.settle()
        self.life = 0
        self.killed_at = None
        self.over = None
        self.asked = []
        self.least_grace = {}
        self.looked_at = None

    def check_new(self):
        """Check what the core started since the last look."""
        hand = self.hand
        for call in hand.started[self.killed_at or 0 :] if self.killed_at is not None else ():
            assert not isinstance(call, STARTING), f"{call} after a kill"
        for op, (start, _) in hand.open.items():
            if isinstance(start.call, StopContainer) and self.killed_at is not None:
                one = start.call.container_id
                least = self.least_grace.get(one, (0, float("inf")))
                if op > least[0]:
                    assert start.call.grace_s <= least[1], "grace grew"
                    self.least_grace[one] = (op, start.call.grace_s)

    @rule(seconds=st.sampled_from((0.01, 1, 11, 45)))
    def time_goes_by(self, seconds):
        self.hand.wait(seconds)

    @rule(image=st.sampled_from((IMAGE, f"{IMAGE}2")))
    def update(self, image):
        # The set of a pod's containers never changes, their images may.
        self.generation += 1
        spec = self.pod.spec
        containers = tuple(replace(c, image=image) for c in spec.containers)
        inits = tuple(replace(c, image=image) for c in spec.init_containers)
        self.pod = replace(self.pod, spec=replace(spec, containers=containers, init_containers=inits))
        self.hand.update(self.pod, generation=self.generation)

    @rule()
    def somebody_looks_into_it(self):
        # What was added to look into a pod never leaves it.
        self.generation += 1
        self.pod = replace(self.pod, spec=replace(self.pod.spec, ephemeral_containers=LOOKER))
        self.hand.update(self.pod, generation=self.generation)

    @rule(steps=st.integers(1, 12))
    def all_goes_well(self, steps):
        for _ in range(steps):
            if self.hand.open:
                self.hand.end(min(self.hand.open))

    @rule(name=st.sampled_from("abeis"))
    def a_record_vanishes(self, name):
        self.hand.world.lose(name)

    @rule(
        grace=st.sampled_from((None, 0, 1, 5, 90)),
        deleted=st.booleans(),
        who=st.sampled_from(("x", "y", "z")),
    )
    def kill(self, grace, deleted, who):
        if self.killed_at is None:
            self.killed_at = len(self.hand.started)
        self.hand.kill(grace, deleted=deleted, asked_by=Path(f"/{who}"))
        if not isinstance(self.hand.state.life, Terminated | Finished | Gone):
            self.asked.append(f"/{who}")

    @rule(ago=st.sampled_from((0.0, 0.0, 0.5, 20)))
    def observe(self, ago):
        as_of = self.hand.now - ago
        # An older listing shows an older world: what it shows must not count after a later call.
        stale = as_of < self.hand.state.view.settled_at
        before = self.hand.state.observed
        self.hand.observe(as_of=as_of)
        if stale:
            assert self.hand.state.observed is before

    @rule(name=st.sampled_from("abeis"), code=st.sampled_from((0, 1, 137)))
    def a_container_dies(self, name, code):
        self.hand.world.exit(name, code, self.hand.wall)

    @precondition(lambda self: self.hand.open)
    @rule(which=st.integers(0, 9))
    def a_call_ends_well(self, which):
        ops = sorted(self.hand.open)
        self.hand.end(ops[which % len(ops)])

    @precondition(lambda self: self.hand.open)
    @rule(which=st.integers(0, 9), kind=st.sampled_from(KINDS), happens=st.booleans())
    def a_call_fails(self, which, kind, happens):
        ops = sorted(self.hand.open)
        self.hand.end(ops[which % len(ops)], kind, happens=happens)

    @precondition(lambda self: self.hand.cancelled and self.hand.cancelled[-1] in self.hand.open)
    @rule()
    def a_cancelled_call_ends(self):
        self.hand.end(self.hand.cancelled[-1], FailureKind.CANCELLED, happens=False)

    @precondition(lambda self: self.hand.wake_at is not None)
    @rule()
    def the_alarm_rings(self):
        self.hand.ring()

    @invariant()
    def what_is_started_is_allowed(self):
        if not hasattr(self, "hand"):
            return
        self.check_new()
        hand = self.hand
        assert sorted(f.op for f in hand.state.calls.inflight) == sorted(hand.open), (
            "two stages, or a lost call"
        )
        stages = {since for _, since in hand.open.values()}
        # Each container is stopped at its own pace; all else waits for the end of the stage before it.
        stopping = all(isinstance(start.call, StopContainer | Remember) for start, _ in hand.open.values())
        assert len(stages) <= 1 or stopping, "two stages at once"
        for op in hand.cancelled:
            if op in hand.open:
                assert isinstance(hand.open[op][0].call, StopContainer)

    @invariant()
    def life_goes_one_way(self):
        if not hasattr(self, "hand"):
            return
        at = ORDER.index(type(self.hand.state.life))
        assert at >= self.life
        self.life = at
        if at > ORDER.index(Recalling) + 1 and self.killed_at is None:
            self.killed_at = len(self.hand.started)
        phase = self.hand.status.phase
        if self.over is not None:
            assert phase == self.over, "a terminal phase changed"
        if phase in ("Succeeded", "Failed"):
            assert isinstance(self.hand.state.life, Terminated | Finished | Gone)
            self.over = phase

    @invariant()
    def restart_counts_never_fall(self):
        if not hasattr(self, "hand"):
            return
        status = self.hand.status
        counts = {
            c.name: c.restart_count for c in (*status.init_container_statuses, *status.container_statuses)
        }
        before = getattr(self, "counts", {})
        assert all(counts.get(name, count) >= count for name, count in before.items())
        # A container that left the pod and came back is another one.
        self.counts = counts

    @invariant()
    def what_was_added_to_look_runs_once_and_counts_for_nothing(self):
        if not hasattr(self, "hand"):
            return
        hand, status = self.hand, self.hand.status
        shown = next((one for one in status.ephemeral_container_statuses), None)
        if shown is not None and (shown.state.running or shown.state.terminated) and self.looked_at is None:
            self.looked_at = len(hand.started)
        if self.looked_at is not None:
            assert shown is not None
            assert shown.state.running or shown.state.terminated
            later = hand.started[self.looked_at :]
            assert not [c for c in later if isinstance(c, CreateContainer) and c.spec.name == "e"]
        ready = {c.type: c.status for c in status.conditions}.get("ContainersReady")
        if ready == "True":
            assert all(one.ready and one.state.running for one in status.container_statuses)

    @invariant()
    def transitions_go_forward(self):
        if not hasattr(self, "hand"):
            return
        now = {c.type: c.last_transition_time for c in self.hand.status.conditions}
        for kind, at in getattr(self, "conditions", {}).items():
            assert now[kind] >= at, f"{kind} went back in time"
        self.conditions = now

    @invariant()
    def looking_again_changes_nothing(self):
        if not hasattr(self, "hand"):
            return
        hand = self.hand
        if hand.now != hand.decided_at:
            return  # What is published may follow from the time alone, as the end of a wait does.
        again = decide(hand.state, None, hand.now, hand.wall, lambda: 10_000)
        if hand.open or (hand.wake_at is not None and hand.wake_at > hand.now):
            assert not [a for a in again.actions if isinstance(a, Start | Cancel)]
            assert not [a for a in again.actions if not isinstance(a, Start | Cancel)], again.actions
            assert again.state == hand.state

    @invariant()
    def the_end_is_real_and_whoever_asked_knows(self):
        if not hasattr(self, "hand"):
            return
        answered = [to for to, m in self.hand.told if isinstance(m, PodKilled)]
        if isinstance(self.hand.state.life, Terminated | Finished | Gone):
            assert set(self.asked) <= set(answered)
        else:
            assert answered == []

    def teardown(self):
        """End it: whatever happened, a killed pod ends, and leaves nothing."""
        if not hasattr(self, "hand"):
            return
        hand = self.hand
        hand.kill(deleted=True)
        for _ in range(200):
            if isinstance(hand.state.life, Gone):
                break
            if hand.open:
                hand.end(min(hand.open))
            else:
                hand.ring()
        assert isinstance(hand.state.life, Gone), (hand.state.life, hand.started[-5:])
        assert (hand.world.view.sandboxes, hand.world.view.containers, hand.world.pages) == ((), (), {})


TestPodMachine = PodMachine.TestCase
TestPodMachine.settings = settings(
    max_examples=60,
    stateful_step_count=40,
    # Shrinking forty steps takes minutes: take a failure's steps as they come, or add Phase.shrink by hand.
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
    suppress_health_check=list(HealthCheck),
)
