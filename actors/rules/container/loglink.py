"""What the link to a container's log is called, as a kubelet calls it: log collectors of a node read these names."""

SUFFIX = ".log"
LIMIT_BYTES = 255
"""Longest file name."""


def link_name(pod: str, namespace: str, container: str, container_id: str) -> str:
    """Return ``<pod>_<namespace>_<container>-<id>.log``; the id's scheme is left out.

    Where that is too long for a file name the stem is cut, also in the middle of the id.
    """
    identity = container_id.rpartition("://")[2]
    stem = f"{pod}_{namespace}_{container}-{identity}".encode()[: LIMIT_BYTES - len(SUFFIX)]
    return stem.decode(errors="ignore") + SUFFIX
