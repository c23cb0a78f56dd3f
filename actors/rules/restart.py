"""The restart decision: should a container that does not run be started (again).

The rule is the kubelet's (reference ``pod-lifecycle`` section 6.5): a container's own policy and exit-code rules come
before the pod's policy.
"""

from api.containers import Container, ContainerState
from api.objects import pod as v1


def should_start(spec: v1.PodSpec, container: v1.Container, newest: Container | None) -> bool:
    """Decide for the newest instance of `container`, None when there never was one."""
    if newest is None:
        return True
    match newest.state:
        case ContainerState.RUNNING:
            return False
        case ContainerState.CREATED | ContainerState.UNKNOWN:
            return True
        case ContainerState.EXITED:
            return restarts_after(spec, container, newest.exit_code if newest.exit_code is not None else 255)


def restarts_after(spec: v1.PodSpec, container: v1.Container, exit_code: int) -> bool:
    """Decide after an exit with this code."""
    for rule in container.restart_policy_rules or ():
        codes = rule.exit_codes
        if codes is not None and (exit_code in (codes.values or ())) == (codes.operator == "In"):
            return True
    match container.restart_policy or spec.restart_policy or "Always":
        case "Always":
            return True
        case "OnFailure":
            return exit_code != 0
        case _:
            return False
