"""Planted mutants: each replaces one function of production code by a wrong one. The checks must catch every one."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from actors.pod import plan as pod_plan
from actors.pod.planned import Planned
from actors.pod.state import PortCall, Syncing, Terminating, change_calls, change_view
from actors.rules.container.instance import ready_sandboxes
from actors.rules.retry import Retry
from actors.status.core import in_place, with_entry
from actors.supervisor.state import Quarantined
from api.lifecycle import Decision
from api.messages.pod import PodObserved
from api.messages.status import ForgetPodStatus
from api.messages.supervisor import PodOp, PodsChanged
from api.ports.ledger import Remember
from api.ports.runtime import RemoveSandbox, StopContainer, StopSandbox
from api.ports.volumes import RemoveVolumes
from tests.harness.world.kind import Kind

Wrong = Callable[[Any], Any]
"""Makes the wrong version of the right one."""


@dataclass(frozen=True)
class Mutant:
    """One bug: which attribute (a dot goes into a class) of which module is wrong, and how."""

    name: str
    module: str
    attribute: str
    wrong: Wrong
    kind: Kind = Kind.PLAIN
    """Of the seeds that hunt it."""
    first: int | None = None
    """The seed that is tried before the others: it caught the mutant once, where they take long to."""

    @property
    def what(self) -> str:
        """Return the bug in a sentence."""
        return (self.wrong.__doc__ or "").rstrip(".")

    @contextmanager
    def planted(self) -> Iterator[None]:
        """Have the bug for a while."""
        holder: object = importlib.import_module(self.module)
        *classes, name = self.attribute.split(".")
        for step in classes:
            holder = getattr(holder, step)
        right = vars(holder)[name]
        setattr(holder, name, self.wrong(right))
        try:
            yield
        finally:
            setattr(holder, name, right)


def lose_exit_code(right):
    """Every end is a success."""
    return lambda instance: replace(right(instance), exit_code=0)


def forget_flights(right):
    """A pod's next stage is planned as if nothing were in flight."""

    def plan(state, planned, new_op):
        flights = state.calls.inflight
        if not flights or not isinstance(state.life, Syncing):
            return right(state, planned, new_op)
        decision = right(change_calls(state, inflight=()), planned, new_op)
        both = change_calls(decision.state, inflight=(*flights, *decision.state.calls.inflight))
        return Decision(state=both, actions=decision.actions, wake_at=decision.wake_at)

    return plan


def skip_grace(right):
    """The grace is always over."""
    return lambda *_: 0


def instead_of_stops(call):
    """Return a mutation that does something to the sandboxes when containers should be stopped."""

    def wrong(right):
        def terminate(state, *rest):
            stage = right(state, *rest)
            if not any(isinstance(what.call, StopContainer) for what in stage.calls):
                return stage
            ready = ready_sandboxes(state.observed)
            calls = tuple(pod_plan.runtime_call(state, call(uid=state.uid, sandbox_id=s.id)) for s in ready)
            return replace(stage, calls=calls or stage.calls)

        return terminate

    wrong.__doc__ = f"Containers are not stopped before {call.__name__}."
    return wrong


def take_stale_views(right):
    """An observation older than the last call is believed."""

    def absorb(state, message, now, wall):
        if isinstance(message, PodObserved):
            return change_view(state, observed=message.pod, as_of=message.as_of)
        return right(state, message, now, wall)

    return absorb


def rise_again(right):
    """A pod whose kill the ledger remembers goes on after a restart of the agent."""

    def recalled(state, asked):
        after = right(state, asked)
        return after if asked is not None else replace(after, life=Syncing())

    return recalled


def count_from_zero(right):
    """Restarts are numbered anew when the runtime forgot the container."""
    return lambda state, name, newest: 0 if newest is None else right(state, name, newest)


def never_wait(right):
    """There is no back-off."""
    return lambda *_: 0.0


def ready_too_early(right):
    """Absence counts before all sources were seen."""
    return property(lambda self: self.number >= 0)


def open_gate(right):
    """Every static pod may start at once."""
    return lambda entry, entries: entry


def kill_unremembered(right):
    """Containers are stopped before the kill is written down."""

    def terminate(state, kill, *rest):
        return right(replace(state, remembered=replace(state.memo, kill=kill)), kill, *rest)

    return terminate


def take_everything_over(right):
    """Every pod of the runtime is taken for ours."""
    return lambda state, *rest: right(replace(state, take_over=True), *rest)


def ignore_removals(right):
    """Removals are numbered, and nothing is done about them."""

    def absorb_change(state, message):
        if isinstance(message, PodsChanged) and message.op is PodOp.REMOVE:
            message = replace(message, pods=())
        return right(state, message)

    return absorb_change


def keep_statuses(right):
    """No status is ever forgotten."""
    return lambda sinks, state, message, now: (
        state if isinstance(message, ForgetPodStatus) else right(sinks, state, message, now)
    )


def never_write_again(right):
    """A status whose write failed counts as written."""
    return lambda sinks, state, outcome, now: right(sinks, state, replace(outcome, failure=None), now)


def drop_what_came_meanwhile(right):
    """What came while an older status was being written counts as written with it."""

    def written(sinks, state, outcome, now):
        after = right(sinks, state, outcome, now)
        uid, place = state.writes.get(outcome.op, ("", 0))
        entry = after.pods.get(uid)
        if entry is None or entry.newest.forgotten or outcome.failure is not None:
            return after
        one = entry.progress[place]
        return with_entry(after, in_place(entry, place, replace(one, stored=one.wanted)))

    return written


def trust_the_power(right):
    """A final status may be lost with the machine's power."""

    def call_of(version, progress):
        call = right(version, progress)
        return replace(call, durable=False) if isinstance(call, Remember) else call

    return call_of


def give_up_dead_actors(right):
    """A pod actor past its budget is never tried again."""

    def absorb_death(state, uid, cause, now):
        after = right(state, uid, cause, now)
        entry = after.entries.get(uid)
        if entry is None or not isinstance(entry.actor, Quarantined):
            return after
        for_good = replace(entry, actor=replace(entry.actor, retry=Retry(at=now + 1e6)))
        return replace(after, entries={**after.entries, uid: for_good})

    return absorb_death


def always_ready(right):
    """Every container is called ready."""
    return lambda *facts: replace(right(*facts), ready=True)


def publish_any_phase(right):
    """A terminal phase is published too early and may leave."""
    return lambda facts, phase, static: phase


def lose_messages(right):
    """A lost message is in no account."""
    return lambda self: setattr(self, "accepted", self.accepted + 1)


def believe_the_stop(right):
    """The end of a pod is not proven: that it was asked to stop is enough."""

    def step_of_life(planned):
        state, life = planned.state, planned.state.life
        if isinstance(life, Terminating) and not state.calls.inflight and state.observed is not None:
            seen = replace(state.observed, sandboxes=(), containers=())
            life = replace(life, proven_at=planned.now)
            state = replace(change_view(state, must_inspect=False, observed=seen), life=life)
            planned = Planned(state, planned.now, planned.wall)
        return right(planned)

    return step_of_life


def fetch_for_each(right):
    """Each container fetches its image for itself."""

    def join(state, place, now):
        after = right(replace(state, pulls={}), place, now)
        return replace(after, pulls={**state.pulls, **after.pulls})

    return join


def keep_every_want(right):
    """A want that was withdrawn goes on being held."""

    def ended(state, uid, wants, now):
        after = right(state, uid, wants, now)
        return replace(after, entries={**state.entries, **after.entries})

    return ended


def trust_the_first_answer(right):
    """An image that was gone when a container was to be made of it is not looked up anew."""
    return lambda state, container: state


def forget_the_last_incarnation(right):
    """A new image puller begins beside what the last one began."""
    return lambda state, now, *, restarted, leftover: right(state, now, restarted=restarted, leftover=())


def tell_the_time(right):
    """A condition changed just now, whatever its status was."""
    return lambda old, new, wall: right(None, new, wall)


def begin_anew(right):
    """A pod begins with each status that is composed of it."""

    def compose(facts, wall):
        return right(replace(facts, base=replace(facts.base, start_time=None)), wall)

    return compose


def lose_claims(right):
    """The keeper of events does not remember which pods are there."""
    return lambda *rest: replace(right(*rest), claimed=False)


def die_of_a_known_pod(right):
    """The keeper of events dies of a pod that it knows already; its restart hides it."""

    def claimed(state, uid, *rest):
        if uid in state.records:
            raise LookupError(f"{uid} is known already")
        return right(state, uid, *rest)

    return claimed


def forget_the_hook(right):
    """That the call of a preStop hook is over is not noted."""

    def over(state, mark, run, *rest):
        return state if run.op is not None else right(state, mark, run, *rest)

    return over


def stop_beside_the_hook(right):
    """A container is stopped without waiting for its preStop hook."""
    return lambda state, instance: None


def started_at_once(right):
    """A container counts as started before its postStart hook is done."""
    return lambda state, instance: None


def sidecars_at_once(right):
    """Sidecars are stopped together with the containers that they serve."""
    return lambda state, instance: ()


def no_deadline(right):
    """A pod may be active for as long as it likes."""
    return lambda state, wall: None


def count_who_stays(right):
    """A pod that is being stopped has no claim on the node any more."""

    def each_pod_on_node(work):
        return (pod for pod in right(work) if not pod.leaving)

    return each_pod_on_node


def forget_verdicts(right):
    """What an earlier life decided is decided anew."""
    return lambda data: {}


def tell_before_writing(right):
    """A verdict is sent while it is being written."""

    def write_verdicts(record, work, now, new_op):
        after = right(record, work, now, new_op)
        for entry in tuple(work.pods.values()):
            work.put(replace(entry, kept=True))
        return after

    return write_verdicts


def overhear_refusals(right):
    """A refused pod is run like any other."""
    return lambda state, message, now: right(state, replace(message, refusal=None), now)


def wait_for_no_init(right):
    """What comes after an init container starts while that still runs."""

    def step_of(*given, **more):
        step = right(*given, **more)
        return replace(step, initialised=True, awaited="") if step.awaited else step

    return step_of


def keep_sidecars(right):
    """A pod of which only sidecars are left goes on."""
    return lambda found: None if found.over else right(found)


def forget_the_volumes(right):
    """That a pod has volumes is not remembered when it ends."""
    return lambda memo, pod: memo


def tear_volumes(right):
    """Volumes are removed before the containers that use them are stopped."""

    def terminate(state, *rest):
        stage = right(state, *rest)
        if state.memo.volumes and any(isinstance(what.call, StopContainer) for what in stage.calls):
            call = PortCall(port="volumes", call=RemoveVolumes(uid=state.uid), deadline_s=30.0)
            return replace(stage, calls=(call,)) if not state.unmounted else stage
        return stage

    return terminate


def flatter(right):
    """Whatever runs is called ready, whatever its probes say."""
    return lambda state, container: right(state, replace(container, startup_probe=None, readiness_probe=None))


def spare_the_ill(right):
    """What fails its liveness probe is left running."""
    return lambda state: ()


def never_give_back(right):
    """A command that ended keeps its place among those that may run."""

    def take_outcome(draft, outcome, now):
        before = draft.execs
        right(draft, outcome, now)
        draft.execs = before

    return take_outcome


def believe_every_reading(right):
    """A reading of memory that cannot be is told all the same."""
    return lambda before, after, capacity: (after, "")


def wait_for_the_last_reading(right):
    """A round is told when all of its parts are in, however long one hangs, and none begins before."""

    def ask(state, message, now, new_op):
        if state.asked and now >= state.rounds.next_at:
            state = replace(state, rounds=replace(state.rounds, next_at=float("inf")))
        return right(state, message, now, new_op)

    return ask


def give_nothing_in_place(right):
    """What runs keeps the amounts that it was started with."""
    return lambda state: ()


def ask_at_every_hint(right):
    """Each hint of the kernel has usage read, however many there are."""

    def follow_hint(state, actions, now):
        if state.kernel is None:
            return right(state, actions, now)
        never_asked = replace(state.kernel, asked_at=float("-inf"))
        return right(replace(state, kernel=never_asked), actions, now)

    return follow_hint


def count_twice(right):
    """A kill counts for its container twice."""
    return lambda state, pod, container, kills: right(state, pod, container, 2 * kills)


def hear_no_more(right):
    """A stream that was cut is not listened to again."""
    return lambda *facts, **more: replace(right(*facts, **more), retry=Retry(failures=1, at=float("inf")))


def ask_again_at_once(_):
    """What had no effect is asked for again at once."""
    return lambda _times: 0.0


def hurry_orphans(right):
    """What no source describes gets next to no grace."""
    return lambda state: right(state) if state.desired is not None else 1


def tell_no_change(right):
    """What the node was found to be first stands: no change of it is told."""
    return lambda state: state if state.facts is not None else right(state)


def heed_no_change(right):
    """The supervisor takes in no change of the node, and tells its pods of none."""
    return lambda state, facts: state if state.book.described else right(state, facts)


MUTANTS: tuple[Mutant, ...] = (
    Mutant("lost-exit-code", "actors.pod.status.compose", "terminated", lose_exit_code),
    Mutant("two-stages", "actors.pod.core", "plan", forget_flights),
    Mutant("skipped-grace", "actors.pod.plan", "grace_left_s", skip_grace),
    Mutant("hurried-orphan", "actors.pod.core", "pod_grace_s", hurry_orphans, first=16),
    Mutant("skipped-term", "actors.pod.plan", "terminate", instead_of_stops(StopSandbox)),
    Mutant("early-removal", "actors.pod.plan", "terminate", instead_of_stops(RemoveSandbox)),
    Mutant("stale-view", "actors.pod.core", "absorb", take_stale_views),
    Mutant("undead", "actors.pod.core", "recalled", rise_again, first=16),
    Mutant("count-from-zero", "actors.pod.container.situation", "next_attempt", count_from_zero),
    Mutant("no-back-off", "actors.pod.life.stage", "wait_s", never_wait),
    Mutant(
        "hasty-clean-up", "actors.rules.desiredsources", "DesiredSources.all_ready", ready_too_early, first=16
    ),
    Mutant("open-gate", "actors.supervisor.gate", "holder_of", open_gate),
    Mutant("unwritten-kill", "actors.pod.plan", "terminate", kill_unremembered),
    Mutant("grabber", "actors.supervisor.core", "find_orphans", take_everything_over),
    Mutant("hoarder", "actors.supervisor.core", "absorb_change", ignore_removals),
    Mutant("archivist", "actors.status.core", "absorb", keep_statuses),
    Mutant("one-shot", "actors.status.core", "written", never_write_again),
    Mutant("latecomer", "actors.status.core", "written", drop_what_came_meanwhile),
    Mutant("carefree-writer", "actors.status.ledger", "call_of", trust_the_power),
    Mutant("quitter", "actors.supervisor.core", "absorb_death", give_up_dead_actors, first=57),
    Mutant("optimist", "actors.pod.status.compose", "container_status", always_ready),
    Mutant("waverer", "actors.pod.status.compose", "guarded_phase", publish_any_phase),
    Mutant("embezzler", "runtime.kernel.mailbox", "Mailbox.count_lost", lose_messages, first=4),
    Mutant("repeater", "actors.pod.container.hook", "pre_stop_over", forget_the_hook),
    Mutant("interrupter", "actors.pod.container.stop", "pre_stop_record", stop_beside_the_hook),
    Mutant("early-riser", "actors.pod.container.health", "post_start_of", started_at_once),
    Mutant("deserter", "actors.pod.container.stop", "stops_after", sidecars_at_once, first=41),
    Mutant("immortal", "actors.pod.life.deadline", "deadline_left_s", no_deadline, first=7),
    Mutant("each-for-himself", "actors.images.pull", "join", fetch_for_each),
    Mutant("clinger", "actors.images.core", "ended", keep_every_want),
    Mutant("truster", "actors.pod.outcome", "without_image", trust_the_first_answer, first=11),
    Mutant("heir", "actors.images.actor", "start", forget_the_last_incarnation, first=26),
    Mutant("busybody", "actors.pod.status.condition", "transition_time", tell_the_time),
    Mutant("newborn", "actors.pod.planned", "compose", begin_anew),
    Mutant("unclaimed", "actors.events.core", "claimed", lose_claims),
    Mutant("stumbler", "actors.events.core", "claimed", die_of_a_known_pod),
    Mutant("crowder", "actors.admission.admit", "each_pod_on_node", count_who_stays, first=17),
    Mutant("amnesiac", "actors.admission.record", "decoded", forget_verdicts),
    Mutant("blabber", "actors.admission.core", "write_verdicts", tell_before_writing, first=6),
    Mutant("deaf", "actors.pod.core", "absorb_update", overhear_refusals),
    Mutant("impatient", "actors.rules.container.progress", "step_of", wait_for_no_init),
    Mutant("caretaker", "actors.pod.plan", "ended_stage", keep_sidecars, first=12),
    Mutant("forgetful", "actors.pod.core", "with_volumes", forget_the_volumes),
    Mutant("tearer", "actors.pod.plan", "terminate", tear_volumes),
    Mutant("flatterer", "actors.pod.container.health", "is_ready", flatter),
    Mutant("softheart", "actors.pod.container.situation", "probe_failures", spare_the_ill, first=14),
    Mutant("miser", "actors.probes.core", "take_outcome", never_give_back, first=35),
    Mutant("gullible", "actors.usage.absorb", "check_memory", believe_every_reading),
    Mutant("patient", "actors.usage.core", "ask", wait_for_the_last_reading),
    Mutant("stiff", "actors.pod.container.situation", "resize_steps", give_nothing_in_place, first=5),
    Mutant("believer", "actors.pod.core", "step_of_life", believe_the_stop),
    Mutant("nervous", "actors.eviction.core", "follow_hint", ask_at_every_hint),
    Mutant("double-oom-count", "actors.oom.core", "counted", count_twice),
    Mutant("pesterer", "actors.pod.life.repeat", "wait_after", ask_again_at_once, first=3),
    Mutant("set-in-its-ways", "actors.node.core", "settled", tell_no_change),
    Mutant("unmoved", "actors.supervisor.core", "absorb_node", heed_no_change),
    Mutant("stubborn", "actors.rules.subscription", "Subscription.ended", hear_no_more, first=8),
)
