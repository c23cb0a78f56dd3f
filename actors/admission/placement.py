"""Whether a pod may be placed on this node: its name, labels, taints, operating system.

The scheduler's rules, which a node applies again to its pods (reference ``pod-lifecycle`` section 12).
"""

from collections.abc import Callable, Mapping

from api.kube.objects.placement import NodeSelectorRequirement, NodeSelectorTerm, Toleration
from api.kube.objects.pod import Pod, PodSpec
from api.ports.node import NodeFacts, NodeTaint

OS = "linux"
OS_LABEL = "kubernetes.io/os"
NAME_FIELD = "metadata.name"


def wrong_os_label(pod: Pod) -> bool:
    """Return whether the pod carries a label that names another operating system."""
    return pod.metadata.labels.get(OS_LABEL, OS) != OS


def wrong_os(pod: Pod) -> bool:
    """Return whether the pod was written for another operating system."""
    return pod.spec.os is not None and pod.spec.os.name not in ("", OS)


def is_selected(spec: PodSpec, node: NodeFacts) -> bool:
    """Return whether the node's labels match selector and required affinity."""
    labels = dict(node.labels)
    if any(labels.get(key) != value for key, value in spec.node_selector.items()):
        return False
    affinity = spec.affinity.node_affinity if spec.affinity is not None else None
    required = affinity.required_during_scheduling_ignored_during_execution if affinity is not None else None
    return required is None or any(is_met(term, labels, node.name) for term in required.node_selector_terms)


def is_met(term: NodeSelectorTerm, labels: Mapping[str, str], name: str) -> bool:
    """Return whether every condition of a term holds; one without conditions selects nothing."""
    if not term.match_expressions and not term.match_fields:
        return False
    return all(is_satisfied(one, labels) for one in term.match_expressions) and all(
        is_satisfied(one, {NAME_FIELD: name}) for one in term.match_fields
    )


def is_satisfied(condition: NodeSelectorRequirement, labels: Mapping[str, str]) -> bool:
    """Return whether one condition holds for these labels or fields."""
    value = labels.get(condition.key)
    match condition.operator:
        case "In":
            return value is not None and value in condition.values
        case "NotIn":
            return value is None or value not in condition.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt":
            return compares(value, condition.values, lambda own, wanted: own > wanted)
        case "Lt":
            return compares(value, condition.values, lambda own, wanted: own < wanted)
        case _:
            return False


def compares(value: str | None, wanted: tuple[str, ...], rule: Callable[[int, int], bool]) -> bool:
    """Compare a label with the one number of a condition; anything but an integer never matches."""
    if value is None or len(wanted) != 1:
        return False
    try:
        return rule(int(value), int(wanted[0]))
    except ValueError:
        return False


def is_untolerated(spec: PodSpec, taints: tuple[NodeTaint, ...]) -> bool:
    """Return whether the pod does not tolerate a ``NoExecute`` taint."""
    return any(
        taint.effect == "NoExecute" and not any(tolerates(one, taint) for one in spec.tolerations)
        for taint in taints
    )


def tolerates(toleration: Toleration, taint: NodeTaint) -> bool:
    """Return whether a toleration matches a taint: an empty effect and an empty key match any."""
    if toleration.effect not in ("", taint.effect) or toleration.key not in ("", taint.key):
        return False
    match toleration.operator:
        case "Exists":
            return True
        case "" | "Equal":
            return toleration.value == taint.value
        case _:
            return False
