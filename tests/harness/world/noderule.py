"""A simulated machine whose facts change, a runtime that says other things of itself, and what must be known of that at rest."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from random import Random
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from actors.admission.state import AdmissionState
from actors.cgroups.state import CgroupsState
from actors.node.state import NodeState, facts_of
from actors.pod.state import PodState
from actors.supervisor.state import SupervisorState
from api import paths
from api.errors import FailureKind
from api.faults import AnyFault, CrashActor, DelayOperation, DropMessage, FailOperation, HangOperation, When
from api.ports.node import NodeFacts, NodeTaint
from api.ports.runtime import RuntimeHandler

if TYPE_CHECKING:
    from tests.harness.world.apiserver import ApiServer
    from tests.harness.world.world import World

CALLS = (("node", "DescribeNode"), ("runtime", "RuntimeStatus"))
MESSAGES = (
    (paths.NODE, "WatchNode"),
    (paths.PODS, "NodeChanged"),
    (paths.CGROUPS, "NodeChanged"),
    (paths.USAGE, "NodeChanged"),
)
KINDS = (FailureKind.UNAVAILABLE, FailureKind.TIMED_OUT, FailureKind.REJECTED)
LAST_CHANGE_S = 600.0


def draw_node_faults(seed: int) -> tuple[AnyFault, ...]:
    """Draw what goes wrong with what the node says of itself, apart from all other faults."""
    random = Random(f"{seed}/node faults")
    faults: list[AnyFault] = []
    for port, call in CALLS:
        when, after = random.choice(tuple(When)), random.choice((0, random.randrange(40)))
        roll = random.random()
        if roll < 0.4:
            kind, times = random.choice(KINDS), random.choice((1, 3, 8))
            faults.append(FailOperation(port=port, call=call, when=when, kind=kind, after=after, times=times))
        elif roll < 0.6:
            faults.append(HangOperation(port=port, call=call, when=when, after=after))
        elif roll < 0.8:
            delay_s = random.choice((0.5, 4.0, 20.0))
            faults.append(DelayOperation(port=port, call=call, delay_s=delay_s, after=after))
    for path, message in MESSAGES:
        if random.random() < 0.4:
            times = random.choice((1, 1, 3))
            faults.append(DropMessage(path=path, message=message, after=random.randrange(6), times=times))
    if random.random() < 0.6:
        faults.append(CrashActor(path=paths.NODE, after=random.randrange(80), times=random.choice((1, 2, 4))))
    return tuple(faults)


class Machine:
    """Changes what the node is now and then, and what its runtime says of itself."""

    def __init__(self, world: World) -> None:
        self._world = world
        random = Random(f"{world.seed}/machine")
        for number in range(random.randint(1, 5)):
            act = random.choice((self._change_machine, self._change_runtime, self._lose_network))
            world.time.call_at(random.uniform(5.0, LAST_CHANGE_S), lambda act=act, number=number: act(number))

    def _change_machine(self, number: int) -> None:
        node = self._world.node
        node.facts = replace(node.facts, swap_bytes=(number + 1) << 30)

    def _change_runtime(self, number: int) -> None:
        runtime = self._world.runtime
        handler = RuntimeHandler(name=f"other-{number}")
        runtime.info = replace(runtime.info, version=f"1.{number}", handlers=(handler,))

    def _lose_network(self, _number: int) -> None:
        runtime = self._world.runtime
        runtime.info = replace(runtime.info, network_ready=False, detail="NetworkReady: false")


def node_complaints(world: World, states: Iterable[PodState]) -> Iterator[str]:
    """Yield who does not know what the node is."""
    system = world.system
    assert system is not None
    expected = facts_of(world.node.facts, world.runtime.info)
    if world.api is not None:
        expected = with_shown_object(expected, world.api)
    node = system.committed(paths.NODE)
    if not isinstance(node, NodeState) or node.facts != expected or node.runtime != world.runtime.info:
        yield f"{paths.NODE} does not know what the node is"
    supervisor, groups = system.committed(paths.PODS), system.committed(paths.CGROUPS)
    if not isinstance(supervisor, SupervisorState) or supervisor.node.facts != expected:
        yield f"{paths.PODS} does not know what the node is"
    admission = system.committed(paths.ADMISSION)
    if not isinstance(admission, AdmissionState) or admission.node != expected:
        yield f"{paths.ADMISSION} does not know what the node is"
    if not isinstance(groups, CgroupsState) or groups.node != expected:
        yield f"{paths.CGROUPS} does not know what the node is"
    for state in states:
        if state.desired is not None and state.node != expected:
            yield f"pod {state.uid} does not know what the node is"


def with_shown_object(facts: NodeFacts, api: ApiServer) -> NodeFacts:
    """Return the facts with the labels and taints that the API server shows, where the Node is there."""
    node: Any = api.look("nodes", facts.name)
    if node is None:
        return facts
    taints = tuple(
        NodeTaint(key=one["key"], value=one.get("value", ""), effect=one["effect"])
        for one in node.get("spec", {}).get("taints", ())
    )
    return replace(facts, labels=tuple(node["metadata"].get("labels", {}).items()), taints=taints)
