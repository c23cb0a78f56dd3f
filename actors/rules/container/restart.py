"""The restart decision: should a container that does not run be started (again).

The rule is the kubelet's (reference ``pod-lifecycle`` sections 6.4 and 6.5): a container's own policy and exit-code rules
come before the pod's policy; an init container that ended well is done, whatever the policy.
"""

from actors.rules.container.role import is_plain_init
from api.kube.objects import pod as v1
from api.ports.runtime import RuntimeContainer, RuntimeContainerState

RESTART_ALL = "RestartAllContainers"
"""Action of a rule that restarts every container of the pod."""

OUT_OF_MEMORY = "OOMKilled"
"""Reason of an end that is never a good one, whatever exit code comes with it."""


def should_start(spec: v1.PodSpec, container: v1.Container, newest: RuntimeContainer | None) -> bool:
    """Decide for the newest instance of `container`, None when there never was one."""
    if newest is None:
        return True
    match newest.state:
        case RuntimeContainerState.RUNNING:
            return False
        case RuntimeContainerState.CREATED | RuntimeContainerState.UNKNOWN:
            return True
        case RuntimeContainerState.EXITED:
            code = newest.exit_code if newest.exit_code is not None else 255
            if is_plain_init(spec, container):
                return not is_success(code, newest.reason) and restarts_after(
                    spec, container, code, failed=True
                )
            return restarts_after(spec, container, code)


def ended_well(instance: RuntimeContainer) -> bool:
    """Return whether an ended init container has done its work."""
    code = instance.exit_code if instance.exit_code is not None else 255
    return instance.state is RuntimeContainerState.EXITED and is_success(code, instance.reason)


def is_success(exit_code: int, reason: str) -> bool:
    """Return whether an end with this code and reason is that of an init container that has done its work."""
    return exit_code == 0 and reason != OUT_OF_MEMORY


def restarts_after(
    spec: v1.PodSpec, container: v1.Container, exit_code: int, *, failed: bool | None = None
) -> bool:
    """Decide after an exit with this code; `failed` says whether it failed, None: the code decides."""
    if rule_of(container, exit_code) is not None:
        return True
    match container.restart_policy or spec.restart_policy or "Always":
        case "Always":
            return True
        case "OnFailure":
            return exit_code != 0 if failed is None else failed
        case _:
            return False


def rule_of(container: v1.Container, exit_code: int) -> v1.ContainerRestartRule | None:
    """Return the first of the container's own rules that is for this exit code; each of them restarts."""
    for rule in container.restart_policy_rules or ():
        codes = rule.exit_codes
        if codes is not None and (exit_code in (codes.values or ())) == (codes.operator == "In"):
            return rule
    return None
