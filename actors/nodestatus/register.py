"""The Node as this agent first makes it, and what it corrects of one that is there already (specification 2.2, 2.4)."""

from msgspec.structs import replace

from actors.nodestatus.capacity import HUGE_PAGES, without_extended
from actors.nodestatus.compose import composed, with_labels
from actors.nodestatus.state import Composed, NodeStatusSettings, NodeStatusState
from api.ids import Instant, WallNs
from api.kube.objects.kubeletconfiguration import Taint
from api.kube.objects.meta import ObjectMeta
from api.kube.objects.node import Node, NodeSpec
from api.kube.objects.strmap import StrMap
from api.messages.node import NodeHealthSeen
from api.ports.node import NodeFacts

ATTACHED = "volumes.kubernetes.io/controller-managed-attach-detach"
UNINITIALIZED = Taint(key="node.cloudprovider.kubernetes.io/uninitialized", value="true", effect="NoSchedule")
CORRECTED = (
    "kubernetes.io/hostname",
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
    "node.kubernetes.io/instance-type",
    "beta.kubernetes.io/instance-type",
    "kubernetes.io/os",
    "kubernetes.io/arch",
    "node.kubernetes.io/windows-build",
    "beta.kubernetes.io/os",
    "beta.kubernetes.io/arch",
)
"""Labels that are corrected on a Node that is there already; all others are the operator's."""


def initial(state: NodeStatusState, health: NodeHealthSeen, now: Instant, wall: WallNs) -> Composed:
    """Return the Node as it is to be created."""
    settings, machine = state.settings, health.machine
    annotations = {ATTACHED: "true"} if settings.controller_attach else {}
    blank = Node(
        metadata=ObjectMeta(
            name=settings.node_name, labels=StrMap(machine.labels), annotations=StrMap(annotations)
        ),
        spec=NodeSpec(provider_id=settings.provider_id, taints=taints_of(settings, machine)),
    )
    return composed(state, health, blank, now, wall)


def taints_of(settings: NodeStatusSettings, machine: NodeFacts) -> tuple[Taint, ...]:
    """Return the taints of a new Node: the configured ones, and that of a cloud controller which is to initialize it."""
    own = tuple(Taint(key=one.key, value=one.value or None, effect=one.effect) for one in machine.taints)
    return (*own, UNINITIALIZED) if settings.external_cloud else own


def reconciled(existing: Node, new: Node) -> Node:
    """Return a Node that is there already with what must be as in the one that was to be created, and all else as it is."""
    node = with_annotation(existing, new)
    node = with_labels(node, corrected_labels(node, new))
    node = without_extended(node)
    status = node.status
    capacity = status.capacity or new.status.capacity
    allocatable = status.allocatable or new.status.allocatable
    return replace(
        node,
        status=replace(
            status,
            capacity=with_huge_pages(StrMap(capacity), StrMap(new.status.capacity)),
            allocatable=with_huge_pages(StrMap(allocatable), StrMap(new.status.allocatable)),
        ),
    )


def with_annotation(existing: Node, new: Node) -> Node:
    """Return the Node with the annotation of who attaches volumes, or without it."""
    metadata = existing.metadata
    kept = {key: text for key, text in metadata.annotations.items() if key != ATTACHED}
    wanted = new.metadata.annotations.get(ATTACHED)
    annotations = StrMap(kept if wanted is None else {**kept, ATTACHED: wanted})
    return replace(existing, metadata=replace(metadata, annotations=annotations))


def corrected_labels(existing: Node, new: Node) -> StrMap:
    """Return the labels of a Node with the well-known ones of the new one; one that is to be empty goes."""
    labels = dict(existing.metadata.labels)
    for key in CORRECTED:
        wanted = new.metadata.labels.get(key)
        if wanted is None or wanted == labels.get(key, ""):
            continue
        labels[key] = wanted
        if not wanted:
            del labels[key]
    return StrMap(labels)


def with_huge_pages(known: StrMap, new: StrMap) -> StrMap:
    """Return amounts with the huge pages of the new Node."""
    kept = {key: text for key, text in known.items() if not key.startswith(HUGE_PAGES)}
    return StrMap({**kept, **{key: text for key, text in new.items() if key.startswith(HUGE_PAGES)}})
