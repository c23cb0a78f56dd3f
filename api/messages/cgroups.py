"""Messages to CgroupManager, which keeps the cgroups above the pods.

Sent by: PodActors (`PodCpuAsked`), NodeManager (`NodeChanged`). Order: per sender. Delivery: a level, the newest of each pod wins; a PodActor repeats it
with each update of its pod, about once a minute, and to a new incarnation. What is not repeated for long counts no more.
"""

from api.ids import Uid
from api.messages import Message
from api.messages.node import NodeChanged


class PodCpuAsked(Message, frozen=True, kw_only=True):
    """How much CPU a Burstable pod requests while anything of it may run: its class as a whole gets the sum."""

    uid: Uid
    milli: int
    """Thousandths of a CPU; 0: nothing, it is over or of another class."""

    def brief(self) -> str:
        """Return one line for traces."""
        return f"PodCpuAsked {self.uid} {self.milli}m"

    def conflation_key(self) -> str | None:
        """Keep the newest of each pod."""
        return f"cpu:{self.uid}"


CgroupsMessage = PodCpuAsked | NodeChanged
