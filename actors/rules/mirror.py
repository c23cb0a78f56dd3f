"""Mirror pods: the pods on the API server by which static pods are seen there (reference ``pod-lifecycle`` section 3.6)."""

from api.kube.objects.pod import Pod

ANNOTATION_MIRROR = "kubernetes.io/config.mirror"
"""On a mirror pod: the `ANNOTATION_HASH` of its static pod."""
ANNOTATION_HASH = "kubernetes.io/config.hash"
"""On a static pod: its UID, which any change of its manifest changes."""


def is_mirror(pod: Pod) -> bool:
    """Return whether a pod of the API server only shows a static pod."""
    return ANNOTATION_MIRROR in pod.metadata.annotations


def mirrored_hash(pod: Pod) -> str:
    """Return which version of a static pod a mirror shows, empty for a pod that is no mirror."""
    return pod.metadata.annotations.get(ANNOTATION_MIRROR, "")


def static_hash(pod: Pod) -> str:
    """Return what the mirror of a static pod must name."""
    return pod.metadata.annotations.get(ANNOTATION_HASH, pod.metadata.uid)
