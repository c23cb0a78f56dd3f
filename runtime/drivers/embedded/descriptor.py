"""How many descriptors the connections to keepers may take: the rest of the agent needs some of them too."""

import errno
import os
import resource

OWN = 16
"""What an agent without pods has open."""
SPARE = 24
"""What connections leave for calls, files, probes and the admin socket."""


def pods_at_most(limit: int) -> int:
    """Return how many pods an agent that may open so many descriptors can be connected to."""
    return max(0, limit - OWN - SPARE)


def leave_spare(descriptor: int) -> None:
    """Refuse a new connection's descriptor when too few are left beyond it. Raises OSError, as the kernel does at its limit."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if descriptor < limit - 2 * SPARE:
        # The kernel gives the lowest free number, so there are plenty: no need to count.
        return
    if len(os.listdir("/proc/self/fd")) > limit - SPARE:  # noqa: PTH208 the listing itself is one of them
        raise OSError(
            errno.EMFILE, f"too few descriptors: the agent may open {limit}; raise its limit of open files"
        )
