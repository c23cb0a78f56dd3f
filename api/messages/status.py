"""Messages to StatusManager, which versions, stores and sends what PodActors compose.

Sent by: PodActors (`PodStatusComposed`), the supervisor (`ForgetPodStatus`). Order: per sender. Delivery: a composed
status is a level, the newest of a pod wins. A loss is repaired by the PodActor's next one; PodActors send theirs again
on `Restarted`.
"""

from api.ids import Uid
from api.kube.objects.pod import PodStatus
from api.messages import Message


class PodStatusComposed(Message, frozen=True, kw_only=True):
    """The whole status of a pod as its one composer sees it."""

    uid: Uid
    namespace: str
    name: str
    status: PodStatus
    finished: bool = False
    """The pod's life is over; its phase is final."""

    def brief(self) -> str:
        """Return one line for traces."""
        return f"PodStatusComposed {self.namespace}/{self.name} phase={self.status.phase}"

    def conflation_key(self) -> str | None:
        """Keep the newest of each pod."""
        return f"status:{self.uid}"


class ForgetPodStatus(Message, frozen=True, kw_only=True):
    """Nothing of the pod is left and no source wants it: drop its status."""

    uid: Uid

    def brief(self) -> str:
        """Return one line for traces."""
        return f"ForgetPodStatus {self.uid}"

    def conflation_key(self) -> str | None:
        """Once is enough."""
        return f"forget:{self.uid}"


StatusMessage = PodStatusComposed | ForgetPodStatus
