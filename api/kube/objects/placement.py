"""Where a pod may run: affinities, tolerations and spreading. A node reads these to admit what it was given."""

import msgspec

from api.kube.objects.meta import LabelSelector
from api.kube.objects.wiretype import ApiObject


class NodeSelectorRequirement(ApiObject, frozen=True, kw_only=True):
    """One condition on a node's label or field: In, NotIn, Exists, DoesNotExist, Gt, Lt."""

    key: str = msgspec.field(default_factory=str)
    operator: str = msgspec.field(default_factory=str)
    values: tuple[str, ...] = ()


class NodeSelectorTerm(ApiObject, frozen=True, kw_only=True):
    """Conditions on one node; all must hold."""

    match_expressions: tuple[NodeSelectorRequirement, ...] = ()
    match_fields: tuple[NodeSelectorRequirement, ...] = ()


class PreferredSchedulingTerm(ApiObject, frozen=True, kw_only=True):
    """A wish for nodes, weighted 1 to 100."""

    preference: NodeSelectorTerm = msgspec.field(default_factory=NodeSelectorTerm)
    weight: int = msgspec.field(default_factory=int)


class NodeSelector(ApiObject, frozen=True, kw_only=True):
    """Terms of which one must hold."""

    node_selector_terms: tuple[NodeSelectorTerm, ...] = msgspec.field(default_factory=tuple)


class NodeAffinity(ApiObject, frozen=True, kw_only=True):
    """Which nodes a pod wants."""

    preferred_during_scheduling_ignored_during_execution: tuple[PreferredSchedulingTerm, ...] = ()
    required_during_scheduling_ignored_during_execution: NodeSelector | None = None


class PodAffinityTerm(ApiObject, frozen=True, kw_only=True):
    """Which pods, and what counts as near (`topology_key`)."""

    label_selector: LabelSelector | None = None
    match_label_keys: tuple[str, ...] = ()
    mismatch_label_keys: tuple[str, ...] = ()
    namespace_selector: LabelSelector | None = None
    namespaces: tuple[str, ...] = ()
    topology_key: str = msgspec.field(default_factory=str)


class WeightedPodAffinityTerm(ApiObject, frozen=True, kw_only=True):
    """A wish for neighbours, weighted 1 to 100."""

    pod_affinity_term: PodAffinityTerm = msgspec.field(default_factory=PodAffinityTerm)
    weight: int = msgspec.field(default_factory=int)


class PodAffinity(ApiObject, frozen=True, kw_only=True):
    """Which pods a pod wants to be near."""

    preferred_during_scheduling_ignored_during_execution: tuple[WeightedPodAffinityTerm, ...] = ()
    required_during_scheduling_ignored_during_execution: tuple[PodAffinityTerm, ...] = ()


class PodAntiAffinity(ApiObject, frozen=True, kw_only=True):
    """Which pods a pod wants to be far from."""

    preferred_during_scheduling_ignored_during_execution: tuple[WeightedPodAffinityTerm, ...] = ()
    required_during_scheduling_ignored_during_execution: tuple[PodAffinityTerm, ...] = ()


class Affinity(ApiObject, frozen=True, kw_only=True):
    """Which nodes and which neighbours a pod wants or shuns."""

    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAntiAffinity | None = None


class Toleration(ApiObject, frozen=True, kw_only=True):
    """A taint that the pod bears."""

    effect: str = ""
    key: str = ""
    operator: str = ""
    toleration_seconds: int | None = None
    value: str = ""


class TopologySpreadConstraint(ApiObject, frozen=True, kw_only=True):
    """How evenly matching pods are spread over topology domains."""

    label_selector: LabelSelector | None = None
    match_label_keys: tuple[str, ...] = ()
    max_skew: int = msgspec.field(default_factory=int)
    min_domains: int | None = None
    node_affinity_policy: str = ""
    node_taints_policy: str = ""
    topology_key: str = msgspec.field(default_factory=str)
    when_unsatisfiable: str = msgspec.field(default_factory=str)
