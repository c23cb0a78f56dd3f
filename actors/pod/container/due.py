"""Which containers of a pod are to be started, in which order, and what their next instances are numbered.

`actors.pod.container.turn` says it of init and regular ones; here are those beside that order.
"""

from actors.pod.container import turn
from actors.pod.container.ephemeral import is_ephemeral, never_ran
from actors.pod.state import PodState
from actors.pod.status.compose import ended_for_good, status_named
from actors.rules.container.instance import newest_of
from actors.rules.container.role import in_order, is_init
from api.kube.objects.container import Container, EphemeralContainer
from api.kube.objects.pod import PodSpec
from api.ports.runtime import RuntimeContainer as Instance

AnyContainer = Container | EphemeralContainer


def in_turn(spec: PodSpec) -> tuple[AnyContainer, ...]:
    """Return a pod's containers in the order in which they are started: ephemeral ones wait for nothing."""
    return (*spec.ephemeral_containers, *in_order(spec)) if spec.ephemeral_containers else in_order(spec)


def is_due(state: PodState, container: AnyContainer) -> bool:
    """Tell whether a container is to be started, unless something holds it up."""
    pod = state.effective
    if pod is None:
        return False
    if isinstance(container, EphemeralContainer):
        return never_ran(state, container)
    spec = pod.spec
    if newest_of(state.observed, container.name) is None and not is_init(spec, container.name):
        # The runtime forgot it or never had it: what ended for good, as was published, does not run a second time.
        old = status_named(state.base, container.name)
        if old is not None and ended_for_good(spec, container, old):
            return False
    return turn.is_turn(state, container)


def attempt_of(state: PodState, name: str, newest: Instance | None) -> int:
    """Return the number of the next instance of a container: never one that ran before."""
    if state.desired is not None and is_ephemeral(state.desired.spec, name):
        return 0
    return turn.attempt_of(state, name, newest)
