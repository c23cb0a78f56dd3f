"""What is tried of a node of a cluster once all is quiet: that it writes nothing for nothing, and how a deleted pod ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from api.ids import Path, Uid
from api.messages.pod import KillCause
from runtime.drivers.memory.history import Happening
from tests.harness.world.clusterrule import node_object_complaints, remark_complaints
from tests.harness.world.workload import NODE

if TYPE_CHECKING:
    from tests.harness.world.clusterhand import ClusterHands

QUIET_S = 180.0
LEASE_A_MINUTE, NODE_A_MINUTE = 7, 1
A_MOVE = 4
"""For a container that starts or ends: as it does, what that makes of the pod, and a back-off."""
PULL_A_MINUTE = 3
"""For a pod whose image does not exist: the pull that failed, the wait for the next."""
SLACK_S = 25.0
"""Of a deletion beside its grace: until it is known, for hooks, volumes, and the writes after the end."""
LOOK_S, LEASE_LOOK_S = 1.0, 12.0


def check_calm(hands: ClusterHands, go_on: Callable[[float], None]) -> None:
    """Wait without touching anything, then delete a pod; fail for what is written for nothing, or ends late."""
    world, checker, book, api = hands.world, hands.checker, hands.book, hands.api
    said = next(remark_complaints(world, book.remarks), "")
    if said:
        checker.fail("what others wrote stays", said)
    node: Any = api.look("nodes", NODE)
    labels = node["metadata"].get("labels", {})
    if not book.node_said.items() <= labels.items():
        checker.fail(
            "what others wrote stays", f"the Node has labels {labels}, others gave it {book.node_said}"
        )
    said = next(lost_ends(hands), "")
    if said:
        checker.fail("no end is lost, whoever was away as it came", said)
    before, rows, began = book.writes, len(world.runtime._world.history), world.time.now()
    while world.time.now() < began + QUIET_S:
        go_on(world.time.now() + LEASE_LOOK_S)
        said = next(node_object_complaints(world, api), "")
        if said:
            checker.fail("the Node is ready and its lease renewed all the time", said)
    writes = book.writes - before
    moves = sum(
        row.what in (Happening.STARTED, Happening.EXITED) for row in world.runtime._world.history[rows:]
    )
    pulls = sum("nowhere.local" in str(pod["spec"]) for pod in api.pods().values())
    most = (LEASE_A_MINUTE + NODE_A_MINUTE + PULL_A_MINUTE * pulls) * QUIET_S / 60 + A_MOVE * moves
    if writes > most:
        checker.fail(
            "a node that is quiet writes little", f"{writes} writes in {QUIET_S:g} s, at most {most:g}"
        )
    for _ in range(2):
        delete_one(hands, go_on)


def lost_ends(hands: ClusterHands) -> Iterator[str]:
    """Yield each pod that is to run once, has, and is not shown so with the exit codes that its containers really had."""
    codes: dict[tuple[Uid, str], int] = {}
    for row in hands.world.runtime._world.history:
        if row.what is Happening.EXITED and row.exit_code is not None:
            codes[row.uid, row.name] = row.exit_code
    for uid, pod in hands.api.pods().items():
        wish = hands.pods.get(uid)
        known = hands.checker.states.get(Path(f"/node/pods/{uid}"))
        if wish is None or known is None or wish.policy != "Never" or wish.inits or wish.all_again:
            continue
        if known[1].killed is not None and known[1].killed.cause is not KillCause.COMPLETED:
            continue
        names = [f"c{index}" for index in range(len(wish.scripts))]
        if any((Uid(uid), name) not in codes for name in names):
            continue
        expected = {name: codes[Uid(uid), name] for name in names}
        status: Any = pod["status"]
        shown = {
            one["name"]: one.get("state", {}).get("terminated", {}).get("exitCode")
            for one in status.get("containerStatuses", ())
        }
        phase = "Failed" if any(expected.values()) else "Succeeded"
        hands.checker.coverage.note("end", f"{phase} and shown so")
        if (status.get("phase"), shown) != (phase, expected):
            yield f"pod {uid} is {phase} with {expected}, shown is {status.get('phase')} with {shown}"


def delete_one(hands: ClusterHands, go_on: Callable[[float], None]) -> None:
    """Delete a pod, if there is one that nothing holds; fail when it is there for longer than its grace and what follows."""
    world, checker, api = hands.world, hands.checker, hands.api
    found: list[Any] = [pod for pod in hands.living() if not pod["metadata"].get("finalizers")]
    if not found:
        return
    pod = hands.chance.choice(found)
    name, uid = pod["metadata"]["name"], Uid(pod["metadata"]["uid"])
    grace_s = hands.chance.choice((None, 2))
    given_s = grace_s if grace_s is not None else pod["spec"]["terminationGracePeriodSeconds"]
    hands.delete(name, uid, grace_s)
    until = world.time.now() + given_s + SLACK_S
    while world.time.now() < until and uid in api.pods():
        go_on(world.time.now() + LOOK_S)
    if uid in api.pods():
        checker.fail(
            "a deleted pod is gone within its grace", f"pod {uid} is there {given_s + SLACK_S:g} s later"
        )
    checker.coverage.note("end", "deleted in its grace")
