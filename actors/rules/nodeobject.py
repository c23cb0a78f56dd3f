"""What of the API server's Node decides which pods belong here."""

from api.kube.objects.node import Node
from api.ports.node import NodeTaint


def labels_of(node: Node) -> tuple[tuple[str, str], ...]:
    """Return the labels, ascending by key."""
    return tuple(sorted(node.metadata.labels.items()))


def taints_of(node: Node) -> tuple[NodeTaint, ...]:
    """Return the taints as they are listed."""
    return tuple(
        NodeTaint(key=one.key or "", value=one.value or "", effect=one.effect or "")
        for one in node.spec.taints
    )
