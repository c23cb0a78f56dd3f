"""Names of things and instants: the small scalar types that every message uses."""

from typing import NewType

Path = NewType("Path", str)
"""Where an actor lives in the tree, for example ``/node/pods/<uid>``."""

OpId = NewType("OpId", int)
"""Number of an operation, unique within one actor over all its incarnations."""

Uid = NewType("Uid", str)
"""UID of a pod. A UID never comes back for another pod."""

Instant = float
"""Monotonic seconds. Only differences mean anything; never written to disk."""

WallNs = int
"""Wall clock, nanoseconds since the epoch, UTC. For people, files and the runtime; never for waiting."""
