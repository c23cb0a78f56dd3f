"""The sandbox decision: does a pod need a new one (reference ``pod-lifecycle`` sections 6.1 and 6.2)."""

import msgspec

from actors.rules.container.instance import newest_of, ready_sandboxes
from actors.rules.container.progress import is_due
from api.kube.objects import pod as v1
from api.ports.runtime import RuntimePod, SandboxState


class SandboxVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a new sandbox is needed, which attempt it would be, and why; the current one otherwise."""

    needed: bool
    attempt: int = 0
    current_id: str = ""
    why: str = ""


def judge(observed: RuntimePod, *, host_network: bool) -> SandboxVerdict:
    """Judge the sandboxes of a pod, newest attempt first."""
    if not observed.sandboxes:
        return SandboxVerdict(needed=True, attempt=0, why="the pod has no sandbox")
    newest = observed.sandboxes[0]
    if len(ready_sandboxes(observed)) > 1:
        why = "more than one sandbox is ready"
    elif newest.state is not SandboxState.READY:
        why = "its sandbox is gone"
    elif newest.host_network != host_network:
        why = "its network mode changed"
    else:
        return SandboxVerdict(needed=False, attempt=newest.attempt, current_id=newest.id)
    return SandboxVerdict(needed=True, attempt=newest.attempt + 1, current_id=newest.id, why=why)


def worth_making(spec: v1.PodSpec, observed: RuntimePod, attempt: int) -> bool:
    """Return whether a new sandbox would have anything to run; if not, the pod is only torn down."""
    if spec.restart_policy == "Never" and attempt != 0 and observed.containers:
        return False
    return any(is_due(spec, one, newest_of(observed, one.name)) for one in spec.containers)
