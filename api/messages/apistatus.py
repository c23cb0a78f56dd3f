"""Messages to ApiStatusWriter, which writes the statuses of pods to the API server and ends what was deleted there.

Sent by: StatusManager (`PodStatusComposed`, `ForgetPodStatus`, as it got them, each new version once), ApiSource (`ApiPodsSeen`). Order:
per sender. Delivery: all are levels; both senders send theirs again when ApiStatusWriter has a new incarnation.
"""

from api.kube.objects.pod import Pod
from api.messages import Message
from api.messages.status import ForgetPodStatus, PodStatusComposed


class ApiPodsSeen(Message, frozen=True, kw_only=True):
    """What the API server has of this node: pods to run, and the mirrors of pods from elsewhere.

    Also sent to MirrorManager. Never sent before the first list.
    """

    pods: tuple[Pod, ...] = ()
    mirrors: tuple[Pod, ...] = ()

    def brief(self) -> str:
        """Return one line for traces."""
        return f"ApiPodsSeen pods={len(self.pods)} mirrors={len(self.mirrors)}"

    def conflation_key(self) -> str | None:
        """Keep the newest."""
        return "pods"


ApiStatusMessage = PodStatusComposed | ForgetPodStatus | ApiPodsSeen
