"""Planted mutants: each replaces one function of production code by a wrong one. The checks must catch every one."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from actors.pod import plan as pod_plan
from actors.pod.state import Syncing, Terminating
from api.containers import RemoveSandbox, StopContainer, StopSandbox
from api.lifecycle import Decision
from api.messages.pod import PodObserved
from api.messages.status import ForgetPodStatus
from api.messages.supervisor import PodOp, PodsChanged

Wrong = Callable[[Any], Any]
"""Makes the wrong version of the right one."""


@dataclass(frozen=True)
class Mutant:
    """One bug: which attribute (a dot goes into a class) of which module is wrong, and how."""

    name: str
    module: str
    attribute: str
    wrong: Wrong

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

    def plan(state, now, wall, new_op):
        if not state.inflight or not isinstance(state.life, Syncing):
            return right(state, now, wall, new_op)
        decision = right(replace(state, inflight=()), now, wall, new_op)
        both = replace(decision.state, inflight=(*state.inflight, *decision.state.inflight))
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
            ready = pod_plan.ready_sandboxes(state.observed)
            calls = tuple(pod_plan.runtime_call(state, call(uid=state.uid, sandbox_id=s.id)) for s in ready)
            return replace(stage, calls=calls or stage.calls)

        return terminate

    wrong.__doc__ = f"Containers are not stopped before {call.__name__}."
    return wrong


def take_stale_views(right):
    """An observation older than the last call is believed."""

    def absorb(state, message, now, wall):
        if isinstance(message, PodObserved):
            return replace(state, observed=message.pod, observed_as_of=message.as_of)
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
    return lambda newest, old: 0 if newest is None else right(newest, old)


def never_wait(right):
    """There is no back-off."""
    return lambda *_: 0.0


def ready_too_early(right):
    """Absence counts before all sources were seen."""
    return property(lambda self: self.number >= 0)


def open_gate(right):
    """Every static pod may start at once."""
    return lambda charge, charges: charge


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
    return lambda state, message, now: (
        state if isinstance(message, ForgetPodStatus) else right(state, message, now)
    )


def give_up_dead_actors(right):
    """A pod actor past its budget is never tried again."""

    def absorb_death(state, uid, cause, now):
        after = right(state, uid, cause, now)
        charge = after.charges.get(uid)
        if charge is None or not charge.died:
            return after
        return replace(after, charges={**after.charges, uid: replace(charge, retry_at=float("inf"))})

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

    def step_of_life(state, *rest):
        life = state.life
        if isinstance(life, Terminating) and not state.inflight and state.observed is not None:
            seen = replace(state.observed, sandboxes=(), containers=())
            life = replace(life, proven_at=rest[0])
            state = replace(state, life=life, look=False, observed=seen)
        return right(state, *rest)

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


MUTANTS: tuple[Mutant, ...] = (
    Mutant("lost-exit-code", "actors.pod.status", "terminated", lose_exit_code),
    Mutant("two-stages", "actors.pod.core", "plan", forget_flights),
    Mutant("skipped-grace", "actors.pod.plan", "grace_left_s", skip_grace),
    Mutant("skipped-term", "actors.pod.plan", "terminate", instead_of_stops(StopSandbox)),
    Mutant("early-removal", "actors.pod.plan", "terminate", instead_of_stops(RemoveSandbox)),
    Mutant("stale-view", "actors.pod.core", "absorb", take_stale_views),
    Mutant("undead", "actors.pod.core", "recalled", rise_again),
    Mutant("count-from-zero", "actors.pod.image", "next_attempt", count_from_zero),
    Mutant("no-back-off", "actors.pod.stage", "wait_s", never_wait),
    Mutant("hasty-clean-up", "actors.supervisor.state", "SupervisorState.all_ready", ready_too_early),
    Mutant("open-gate", "actors.supervisor.core", "holder_of", open_gate),
    Mutant("unwritten-kill", "actors.pod.plan", "terminate", kill_unremembered),
    Mutant("grabber", "actors.supervisor.core", "find_orphans", take_everything_over),
    Mutant("hoarder", "actors.supervisor.core", "absorb_change", ignore_removals),
    Mutant("archivist", "actors.status.core", "absorb", keep_statuses),
    Mutant("quitter", "actors.supervisor.core", "absorb_death", give_up_dead_actors),
    Mutant("optimist", "actors.pod.status", "container_status", always_ready),
    Mutant("waverer", "actors.pod.status", "guarded_phase", publish_any_phase),
    Mutant("embezzler", "runtime.kernel.mailbox", "Mailbox.count_lost", lose_messages),
    Mutant("each-for-himself", "actors.images.pull", "join", fetch_for_each),
    Mutant("clinger", "actors.images.core", "ended", keep_every_want),
    Mutant("truster", "actors.pod.outcome", "without_image", trust_the_first_answer),
    Mutant("heir", "actors.images.actor", "start", forget_the_last_incarnation),
    Mutant("believer", "actors.pod.core", "step_of_life", believe_the_stop),
)
