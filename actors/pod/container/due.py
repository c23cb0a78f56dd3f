"""Which containers of a pod must be started, in which order, and the number of their next instances.

The rules for init and regular containers are in `actors.rules.container.progress`; here the published
status of containers that the runtime forgot, and numbers that were used, come in.
"""

from collections.abc import Iterable

from actors.pod.container.ephemeral import is_ephemeral, never_ran
from actors.pod.state import PodState
from actors.pod.status.history import attempt_after, ended_for_good, status_named
from actors.rules.container.instance import newest_of
from actors.rules.container.progress import Progress
from actors.rules.container.role import in_order, is_init
from api.kube.objects.container import Container, EphemeralContainer
from api.kube.objects.pod import PodSpec
from api.ports.runtime import RuntimeContainer as Instance

AnyContainer = Container | EphemeralContainer


def start_order(spec: PodSpec) -> tuple[AnyContainer, ...]:
    """Return a pod's containers in start order: ephemeral ones, which wait for nothing, come first."""
    return (*spec.ephemeral_containers, *in_order(spec)) if spec.ephemeral_containers else in_order(spec)


def must_start(state: PodState, spec: PodSpec, container: AnyContainer, found: Progress) -> bool:
    """Return whether a container must be started, unless something delays it."""
    if isinstance(container, EphemeralContainer):
        return never_ran(state, container)
    unseen = newest_of(state.observed, container.name) is None
    if unseen and not state.memo.restarting and not is_init(spec, container.name):
        # The runtime does not show it: where the published status says that it ended for good it must not run again.
        old = status_named(state.base, container.name)
        if old is not None and ended_for_good(spec, container, old):
            return False
    return container.name in found.due


def next_attempt(state: PodState, name: str, newest: Instance | None) -> int:
    """Return the number of the next instance of a container: never one that was used before."""
    if state.desired is not None and is_ephemeral(state.desired.spec, name):
        return 0
    used = dict(state.memo.used).get(name, -1)
    return max(attempt_after(newest, status_named(state.base, name)), used + 1)


def used_after(used: tuple[tuple[str, int], ...], removed: list[Instance]) -> tuple[tuple[str, int], ...]:
    """Return the highest used number of each container, these instances included."""
    return highest_used(used, ((one.name, one.attempt) for one in removed))


def highest_used(
    used: tuple[tuple[str, int], ...], others: Iterable[tuple[str, int]]
) -> tuple[tuple[str, int], ...]:
    """Return the highest used number of each container."""
    highest = dict(used)
    for name, attempt in others:
        highest[name] = max(attempt, highest.get(name, -1))
    return tuple(sorted(highest.items()))
