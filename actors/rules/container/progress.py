"""How far a pod is in its sandbox: which containers must be started now, which must wait for another one.

The rules are a kubelet's (reference ``pod-lifecycle`` sections 6.2 to 6.4). Of init containers only those of the active
sandbox count: what ended before a reboot has prepared nothing for the pod of today.

```text
no init container was made yet       the first one is due
the last one made is a plain one     made, not started: due | runs: wait | ended well: the next one | ended badly:
                                     due again, or the pod has failed
the last one made is a sidecar       does not run: due | runs, not started: wait | started: the next one
sidecars before the last one made    due when they do not run
after the last init container        initialised: the regular ones are due as their policies say
a regular one is made or runs        initialised, whatever has become of init containers
regular ones ended, none runs        what ran alone does not run again; a sidecar that is the last init container comes first
```
"""

import msgspec

from actors.rules.container.instance import instances_of, newest_of
from actors.rules.container.restart import ended_well, restarts_after, should_start
from actors.rules.container.role import is_sidecar
from api.kube.objects import pod as v1
from api.ports.runtime import RuntimeContainer, RuntimeContainerState, RuntimePod


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """Containers to start now, and how far the pod is."""

    due: tuple[str, ...] = ()
    """Containers to start now, unless something holds them up, in spec order."""
    initialised: bool = False
    """Every init container has done its part."""
    awaited: str = ""
    """The init container that runs and that all after it wait for."""
    failed: str = ""
    """The init container that failed for good: nothing of the pod may run."""
    over: bool = False
    """Every regular container ended for good: only sidecars may be left."""


class InitProgress(msgspec.Struct, frozen=True, kw_only=True):
    """What the walk over the init containers found."""

    due: tuple[str, ...] = ()
    initialised: bool = False
    awaited: str = ""
    failed: str = ""


def progress(spec: v1.PodSpec, observed: RuntimePod, sandbox_id: str, started: tuple[str, ...]) -> Progress:
    """Return how far a pod is in its active sandbox; `started` are the names of containers that count as started."""
    regular = tuple(
        one.name
        for one in spec.containers
        if is_due(spec, one, newest_of(observed, one.name), sandbox_id=sandbox_id)
    )
    if not spec.init_containers:
        return Progress(due=regular, initialised=True)
    walk = walk_init(spec, observed, sandbox_id, started)
    newest = (newest_of(observed, one.name) for one in spec.containers)
    over = not regular and all(
        one is not None and one.state is RuntimeContainerState.EXITED for one in newest
    )
    if over and (walk.initialised or began(spec, observed, sandbox_id)):
        return Progress(initialised=True, over=True)
    if not walk.initialised:
        return Progress(due=walk.due, awaited=walk.awaited, failed=walk.failed)
    return Progress(due=(*walk.due, *regular), initialised=True)


def walk_init(
    spec: v1.PodSpec, observed: RuntimePod, sandbox_id: str, started: tuple[str, ...]
) -> InitProgress:
    """Walk the init containers, of which there is at least one, up to the last one that was made in the sandbox."""
    here = {
        one.name: newest
        for one in spec.init_containers
        if (newest := newest_here(observed, one.name, sandbox_id)) is not None
    }
    if is_serving(spec, observed, sandbox_id):
        resting = (one.name for one in spec.init_containers if rests(spec, one, here.get(one.name)))
        return InitProgress(due=tuple(resting), initialised=True)
    past = began(spec, observed, sandbox_id)
    reached = [index for index, one in enumerate(spec.init_containers) if past or one.name in here]
    if not reached:
        return InitProgress(due=(spec.init_containers[0].name,))
    last = reached[-1]
    earlier = tuple(one.name for one in spec.init_containers[:last] if rests(spec, one, here.get(one.name)))
    current = spec.init_containers[last]
    step = step_of(spec, current, here.get(current.name), started, past=past)
    if step.initialised and last + 1 < len(spec.init_containers):
        step = InitProgress(due=(spec.init_containers[last + 1].name,))
    return msgspec.structs.replace(step, due=(*earlier, *step.due) if not step.failed else ())


def step_of(
    spec: v1.PodSpec,
    current: v1.Container,
    newest: RuntimeContainer | None,
    started: tuple[str, ...],
    *,
    past: bool,
) -> InitProgress:
    """Judge the last init container that was made: initialised means that whatever comes after it may start.

    `past`: something after it was made before, so that what runs alone had done its part and has no record any more maybe.
    """
    if past and not is_sidecar(spec, current):
        return InitProgress(initialised=True)
    if newest is None:
        return InitProgress(due=(current.name,))
    if newest.state is RuntimeContainerState.CREATED:
        return InitProgress(due=(current.name,))
    if is_sidecar(spec, current):
        if newest.state is not RuntimeContainerState.RUNNING:
            return InitProgress(due=(current.name,))
        return (
            InitProgress(initialised=True) if current.name in started else InitProgress(awaited=current.name)
        )
    match newest.state:
        case RuntimeContainerState.RUNNING:
            return InitProgress(awaited=current.name)
        case RuntimeContainerState.UNKNOWN:
            tries = (current.restart_policy or spec.restart_policy) != "Never"
            return InitProgress(due=(current.name,)) if tries else InitProgress(failed=current.name)
        case RuntimeContainerState.EXITED:
            if ended_well(newest):
                return InitProgress(initialised=True)
            again = should_start(spec, current, newest)
            return InitProgress(due=(current.name,)) if again else InitProgress(failed=current.name)


def rests(spec: v1.PodSpec, container: v1.Container, newest: RuntimeContainer | None) -> bool:
    """Return whether an init container before the current one is a sidecar that does not run though it should."""
    return is_sidecar(spec, container) and (
        newest is None or newest.state is not RuntimeContainerState.RUNNING
    )


def began(spec: v1.PodSpec, observed: RuntimePod, sandbox_id: str) -> bool:
    """Return whether a regular container was made in the sandbox, which proves that its init containers were done."""
    names = {one.name for one in spec.containers}
    return any(one.sandbox_id == sandbox_id and one.name in names for one in observed.containers)


def is_serving(spec: v1.PodSpec, observed: RuntimePod, sandbox_id: str) -> bool:
    """Return whether a regular container is made or runs in the sandbox: then no other one waits for an init container."""
    names = {one.name for one in spec.containers}
    live = (RuntimeContainerState.CREATED, RuntimeContainerState.RUNNING)
    return any(
        one.sandbox_id == sandbox_id and one.name in names and one.state in live
        for one in observed.containers
    )


def is_past(spec: v1.PodSpec, observed: RuntimePod, sandbox_id: str, name: str) -> bool:
    """Return whether an init container is done in the sandbox: a container after it was made."""
    order = [one.name for one in spec.init_containers]
    later = order[order.index(name) + 1 :]
    made = any(one.sandbox_id == sandbox_id and one.name in later for one in observed.containers)
    return made or began(spec, observed, sandbox_id)


def newest_here(observed: RuntimePod, name: str, sandbox_id: str) -> RuntimeContainer | None:
    """Return the newest instance of a container in one sandbox."""
    return next((one for one in instances_of(observed, name) if one.sandbox_id == sandbox_id), None)


def active_id(observed: RuntimePod | None) -> str:
    """Return the id of the pod's newest sandbox, empty when it has none."""
    return observed.sandboxes[0].id if observed is not None and observed.sandboxes else ""


def is_due(
    spec: v1.PodSpec, container: v1.Container, newest: RuntimeContainer | None, *, sandbox_id: str = ""
) -> bool:
    """Return whether a regular container must be started in a sandbox; an empty id means one that is made for it.

    A new sandbox starts everything again but what succeeded under OnFailure (reference section 6.2); it is made for no
    pod whose policy is Never.
    """
    if newest is None or newest.state is not RuntimeContainerState.EXITED or newest.sandbox_id == sandbox_id:
        return should_start(spec, container, newest)
    code = newest.exit_code if newest.exit_code is not None else 255
    again = container.restart_policy == "Never" and spec.restart_policy != "Never"
    return again or restarts_after(spec, container, code)
