"""What a seed of a cluster is: its faults, when the agent is killed between two messages, and what is checked at the end."""

from __future__ import annotations

from random import Random

from api import paths
from api.faults import (
    AnyFault,
    CrashActor,
    DelayOperation,
    DropMessage,
    DuplicateMessage,
    FailOperation,
    FaultPlan,
    HangOperation,
    JumpWallClock,
    KillProcess,
    When,
)
from tests.harness.world.fault import KINDS, draw_fault

CALLS: tuple[tuple[str, int], ...] = (
    # How many of them a seed is sure to make: what `after` is drawn from.
    ("GetObject", 6),
    ("CreateObject", 8),
    ("ReplaceObject", 40),
    ("PatchObject", 60),
    ("DeleteObject", 8),
)
ACTORS = (paths.NODESTATUS, paths.LEASE, paths.APISTATUS, paths.MIRRORS, paths.API, paths.CONFIG)
MESSAGES: tuple[tuple[str, str, int], ...] = (
    (paths.MIRRORS, "PodsChanged", 6),
    (paths.MIRRORS, "PodsSnapshot", 1),
    (paths.MIRRORS, "ApiPodsSeen", 20),
    (paths.MIRRORS, "ActivePods", 20),
    (paths.MIRRORS, "NodeObjectSeen", 4),
    (paths.APISTATUS, "ApiPodsSeen", 20),
    (paths.LEASE, "NodeObjectSeen", 4),
    (paths.NODESTATUS, "WatchNodeObject", 4),
    (paths.NODESTATUS, "NodeHealthSeen", 6),
    (paths.NODESTATUS, "PlegHealthSeen", 4),
    (paths.CONFIG, "PodsSeen", 20),
)
"""Levels, which are sent again or asked for again."""
KILLS = 3
STEPS = 14_000
"""About as many as a seed takes while there are faults."""


def draw_cluster_plan(seed: int) -> FaultPlan:
    """Draw the faults of a seed."""
    random = Random(f"{seed}/cluster faults")
    general = [one for one in (draw_fault(random) for _ in range(14)) if not isinstance(one, JumpWallClock)]
    return FaultPlan(faults=(*general, *(draw_cluster_fault(random) for _ in range(random.randint(10, 18)))))


def draw_cluster_fault(random: Random) -> AnyFault:
    """Draw one fault of what only a node of a cluster has."""
    call, often = random.choice(CALLS)
    when, after = random.choice(tuple(When)), random.randrange(often)
    path, message, told = random.choice(MESSAGES)
    roll = random.random()
    if roll < 0.22:
        kind, times = random.choice(KINDS), random.choice((1, 1, 2, 5))
        return FailOperation(port="kube", call=call, when=when, kind=kind, after=after, times=times)
    if roll < 0.32:
        return HangOperation(port="kube", call=call, when=when, after=after)
    if roll < 0.42:
        return DelayOperation(port="kube", call=call, delay_s=random.choice((0.5, 5.0, 20.0)), after=after)
    if roll < 0.52:
        return KillProcess(port="kube", call=call, when=when, after=after)
    if roll < 0.76:
        return CrashActor(
            path=random.choice(ACTORS), after=random.randrange(90), times=random.choice((1, 1, 2, 3))
        )
    if roll < 0.92:
        return DropMessage(
            path=path, message=message, after=random.randrange(told), times=random.choice((1, 1, 3))
        )
    return DuplicateMessage(path=path, message=message, after=random.randrange(told))


def draw_kill_steps(seed: int) -> frozenset[int]:
    """Draw after which steps of the world the agent is killed, whatever they are."""
    random = Random(f"{seed}/kills between messages")
    return frozenset(random.randrange(200, STEPS) for _ in range(KILLS))
