"""Resizes in the simulation: who asks for other amounts, what strikes them, and what must be true once all is quiet."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING

import msgspec

from actors.admission.state import AdmissionState
from actors.admission.verdict import KEY, SECTION, decoded
from actors.pod.spec.support import unsupported_paths
from actors.pod.state import PodState, Syncing
from actors.rules.container.instance import newest_of
from actors.rules.resources.allocation import Allocated, allocated_of
from actors.rules.resources.cgroupvalue import shares_of
from api import paths
from api.errors import FailureKind
from api.faults import AnyFault, FailOperation, FaultPlan, HangOperation, When
from api.ids import Uid
from api.kube.quantity import parse
from api.ports.confinement import Resources
from api.ports.runtime import RuntimeContainerState, RuntimePod
from tests.harness.world.workload import Wish

if TYPE_CHECKING:
    from tests.harness.world.world import World

CPUS = ("100m", "100m", "250m", "250m", "800m", "1500m", "5")
MEMORIES = ("64Mi", "64Mi", "256Mi", "1Gi", "32Gi")
KINDS = (FailureKind.UNAVAILABLE, FailureKind.TIMED_OUT, FailureKind.CONFLICT, FailureKind.REJECTED)


def resizable(seed: int, wish: Wish) -> Wish:
    """Return the pod, for some with a UID that stays when it is changed, and with a container that a change restarts."""
    random = Random(f"{seed}/resizes/{wish.name}")
    if wish.cpu and not wish.fixed_uid and random.random() < 0.25:
        wish = replace(wish, fixed_uid=f"fixed-{wish.name}")
    # Where nothing is ever restarted a change that takes a restart is never made.
    restarts = random.random() < 0.25 and wish.policy != "Never"
    return replace(wish, restarts_for_cpu=True) if restarts else wish


def resized(random: Random, wish: Wish) -> Wish:
    """Return a pod that asks for other amounts, and stays in the QoS class in which it is."""
    memories = MEMORIES if wish.memory and wish.policy == "Never" else ("", *MEMORIES)
    cpu, memory = random.choice((wish.cpu, *CPUS)), random.choice((wish.memory, *memories))
    return replace(wish.revised(), cpu=cpu, memory=memory)


def with_resize_faults(plan: FaultPlan, random: Random) -> FaultPlan:
    """Return the plan with some faults of resizes, from a random source of their own."""
    faults: list[AnyFault] = []
    for _ in range(random.randint(0, 2)):
        when, after = random.choice(tuple(When)), random.randrange(4)
        if random.random() < 0.7:
            kind = random.choice(KINDS).value
            faults.append(
                FailOperation(port="runtime", call="UpdateContainer", when=when, kind=kind, after=after)
            )
        else:
            faults.append(HangOperation(port="runtime", call="UpdateContainer", when=when, after=after))
    return msgspec.structs.replace(plan, faults=(*plan.faults, *faults))


def resize_complaints(
    world: World, wanted: frozenset[Uid], states: dict[Uid, PodState], truth: dict[Uid, RuntimePod]
) -> Iterator[str]:
    """Yield what is not confined by what is allocated to it, and what is not given without a reason."""
    assert world.system is not None
    verdicts = decoded(world.ledger.read(SECTION).get(Uid(KEY)))
    admission = world.system.committed(paths.ADMISSION)
    entries = admission.pods if isinstance(admission, AdmissionState) else {}
    for uid in sorted(wanted):
        state, verdict, entry = states.get(uid), verdicts.get(uid), entries.get(uid)
        if state is None or verdict is None or verdict.refusal is not None:
            continue
        pod = state.desired
        if pod is None or not isinstance(state.life, Syncing) or unsupported_paths(pod, confined=True):
            continue
        if entry is not None and entry.row.pod is not None and entry.resize is None:
            asked = allocated_of(entry.row.pod.spec)
            if asked != verdict.allocated:
                yield f"pod {uid} asks for {asked}, has {verdict.allocated}, and nobody says why"
        if state.hooks:
            # Nothing is changed beside a hook, which may hang for ever.
            continue
        rows = {row.container: row for row in verdict.allocated}
        for container in (*pod.spec.init_containers, *pod.spec.containers):
            newest = newest_of(truth.get(uid), container.name)
            if newest is None or newest.state is not RuntimeContainerState.RUNNING:
                continue
            given = confinement(rows.get(container.name))
            shown = newest.resources or Resources()
            found = (max(shown.cpu_shares, 2), shown.memory_limit_bytes)
            if found != given:
                yield f"pod {uid} container {container.name} has (shares, bytes) {found}, allocated is {given}"


def confinement(row: Allocated | None) -> tuple[int, int]:
    """Return the CPU shares and the limit of memory (bytes, 0 for none) that stand for what is allocated."""
    requests, limits = (dict(row.requests), dict(row.limits)) if row is not None else ({}, {})
    cpu = requests.get("cpu", limits.get("cpu", "0"))
    return shares_of(parse(cpu).milli_value()), parse(limits.get("memory", "0")).value()
