"""Numbers that differ from node to node and from time to time, so that not all nodes do the same thing at once."""

from zlib import crc32


def share(*words: object) -> float:
    """Return a number from 0 to below 1, the same for the same words."""
    return crc32("/".join(map(str, words)).encode()) / (1 << 32)
