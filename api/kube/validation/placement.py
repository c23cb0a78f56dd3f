"""Rules of placement: selectors, affinities, tolerations, topology spread."""

from api.kube.objects.meta import LabelSelector
from api.kube.objects.placement import (
    Affinity,
    NodeSelectorTerm,
    PodAffinity,
    PodAffinityTerm,
    PodAntiAffinity,
    Toleration,
    TopologySpreadConstraint,
)
from api.kube.objects.pod import PodSpec
from api.kube.validation import name as names
from api.kube.validation.check import Check

EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
UNSATISFIABLE = ("DoNotSchedule", "ScheduleAnyway")
NODE_POLICIES = ("Honor", "Ignore")
NODE_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")
LABEL_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist")


def check_placement(check: Check, spec: PodSpec) -> None:
    """Check every field that decides where the pod may run."""
    check.labels("spec.nodeSelector", spec.node_selector)
    for index, toleration in enumerate(spec.tolerations):
        check_toleration(check, toleration, f"spec.tolerations[{index}]")
    for index, constraint in enumerate(spec.topology_spread_constraints):
        check_spread(check, constraint, f"spec.topologySpreadConstraints[{index}]")
    pairs = (f"{one.topology_key} {one.when_unsatisfiable}" for one in spec.topology_spread_constraints)
    check.unique(
        "spec.topologySpreadConstraints", pairs, "topologyKey", "a topologyKey and whenUnsatisfiable"
    )
    if spec.affinity is not None:
        check_affinity(check, spec.affinity)


def check_toleration(check: Check, toleration: Toleration, path: str) -> None:
    """Check one toleration."""
    check.matches(f"{path}.key", toleration.key, names.QUALIFIED, optional=True)
    check.one_of(f"{path}.operator", toleration.operator, ("Exists", "Equal", "Lt", "Gt"))
    check.one_of(f"{path}.effect", toleration.effect, EFFECTS)
    if not toleration.key and toleration.operator != "Exists":
        check.wrong(f"{path}.operator", toleration.operator, "Exists where key is unset")
    if toleration.operator == "Exists" and toleration.value:
        check.wrong(f"{path}.value", toleration.value, "nothing where the operator is Exists")
    if toleration.operator != "Exists":
        check.matches(f"{path}.value", toleration.value, names.LABEL_VALUE, optional=True)
    if toleration.toleration_seconds is not None and toleration.effect != "NoExecute":
        check.wrong(f"{path}.effect", toleration.effect, "NoExecute where tolerationSeconds is set")


def check_spread(check: Check, constraint: TopologySpreadConstraint, path: str) -> None:
    """Check one spreading constraint."""
    check.within(f"{path}.maxSkew", constraint.max_skew, 1)
    check.matches(f"{path}.topologyKey", constraint.topology_key, names.QUALIFIED)
    check.one_of(f"{path}.whenUnsatisfiable", constraint.when_unsatisfiable, UNSATISFIABLE, optional=False)
    check.within(f"{path}.minDomains", constraint.min_domains, 1)
    if constraint.min_domains is not None and constraint.when_unsatisfiable != "DoNotSchedule":
        check.wrong(
            f"{path}.minDomains", constraint.min_domains, "nothing unless whenUnsatisfiable is DoNotSchedule"
        )
    check.one_of(f"{path}.nodeAffinityPolicy", constraint.node_affinity_policy, NODE_POLICIES)
    check.one_of(f"{path}.nodeTaintsPolicy", constraint.node_taints_policy, NODE_POLICIES)
    check_selector(check, constraint.label_selector, f"{path}.labelSelector")


def check_affinity(check: Check, affinity: Affinity) -> None:
    """Check affinities to nodes and to other pods."""
    node = affinity.node_affinity
    if node is not None:
        path = "spec.affinity.nodeAffinity"
        required = node.required_during_scheduling_ignored_during_execution
        if required is not None:
            place = f"{path}.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"
            check.required(place, required.node_selector_terms, "at least one term")
            for index, term in enumerate(required.node_selector_terms):
                check_term(check, term, f"{place}[{index}]")
        for index, wish in enumerate(node.preferred_during_scheduling_ignored_during_execution):
            place = f"{path}.preferredDuringSchedulingIgnoredDuringExecution[{index}]"
            check.within(f"{place}.weight", wish.weight, 1, 100)
            check_term(check, wish.preference, f"{place}.preference")
    check_neighbours(check, affinity.pod_affinity, "spec.affinity.podAffinity")
    check_neighbours(check, affinity.pod_anti_affinity, "spec.affinity.podAntiAffinity")


def check_term(check: Check, term: NodeSelectorTerm, path: str) -> None:
    """Check the conditions on one node."""
    for index, condition in enumerate(term.match_expressions):
        place = f"{path}.matchExpressions[{index}]"
        check.matches(f"{place}.key", condition.key, names.QUALIFIED)
        check.one_of(f"{place}.operator", condition.operator, NODE_OPERATORS, optional=False)
        check_values(check, condition.operator, condition.values, f"{place}.values")
    for index, condition in enumerate(term.match_fields):
        place = f"{path}.matchFields[{index}]"
        check.one_of(f"{place}.key", condition.key, ("metadata.name",), optional=False)
        check.one_of(f"{place}.operator", condition.operator, ("In", "NotIn"), optional=False)
        if len(condition.values) != 1:
            check.note(f"{place}.values", f"{len(condition.values)} values", "exactly one value")


def check_values(check: Check, operator: str, values: tuple[str, ...], path: str) -> None:
    """Check that the number of values fits the operator."""
    if operator in ("In", "NotIn"):
        check.required(path, values, f"at least one value for {operator}")
    elif operator in ("Exists", "DoesNotExist") and values:
        check.note(path, f"{len(values)} values", f"empty for {operator}")
    elif operator in ("Gt", "Lt") and (len(values) != 1 or not values[0].lstrip("-").isdigit()):
        check.note(path, f"{len(values)} values", f"exactly one integer for {operator}")


def check_neighbours(check: Check, wanted: PodAffinity | PodAntiAffinity | None, path: str) -> None:
    """Check affinity or anti-affinity to other pods."""
    if wanted is None:
        return
    for index, term in enumerate(wanted.required_during_scheduling_ignored_during_execution):
        check_neighbour(check, term, f"{path}.requiredDuringSchedulingIgnoredDuringExecution[{index}]")
    for index, wish in enumerate(wanted.preferred_during_scheduling_ignored_during_execution):
        place = f"{path}.preferredDuringSchedulingIgnoredDuringExecution[{index}]"
        check.within(f"{place}.weight", wish.weight, 1, 100)
        check_neighbour(check, wish.pod_affinity_term, f"{place}.podAffinityTerm")


def check_neighbour(check: Check, term: PodAffinityTerm, path: str) -> None:
    """Check which pods a term selects, and its topology."""
    check.matches(f"{path}.topologyKey", term.topology_key, names.QUALIFIED)
    check_selector(check, term.label_selector, f"{path}.labelSelector")
    check_selector(check, term.namespace_selector, f"{path}.namespaceSelector")
    for index, namespace in enumerate(term.namespaces):
        check.matches(f"{path}.namespaces[{index}]", namespace, names.LABEL)


def check_selector(check: Check, selector: LabelSelector | None, path: str) -> None:
    """Check a label selector."""
    if selector is None:
        return
    check.labels(f"{path}.matchLabels", selector.match_labels)
    for index, condition in enumerate(selector.match_expressions):
        place = f"{path}.matchExpressions[{index}]"
        check.matches(f"{place}.key", condition.key, names.QUALIFIED)
        check.one_of(f"{place}.operator", condition.operator, LABEL_OPERATORS, optional=False)
        check_values(check, condition.operator, condition.values, f"{place}.values")
