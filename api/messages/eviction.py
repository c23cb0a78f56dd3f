"""Messages to EvictionManager, which evicts pods under node pressure.

Sent by: PodSupervisor (`ActivePods`, `FinishedCleared`, and `PodKilled` of a pod without an actor), PodActors (`PodKilled`), UsageManager
(`UsageRead`), ImageGCManager (`ImagesCollected`), NodeStatusManager (`WatchPressure`). Delivery: `ActivePods` and `UsageRead` are
levels, asked for again when they stay away; `WatchPressure` is sent again when the manager has a new incarnation; for a lost `PodKilled`, `FinishedCleared` or `ImagesCollected` the manager waits only so long.
"""

import msgspec

from api.ids import Path, Uid
from api.kube.objects.pod import Pod
from api.messages import Message
from api.messages.usage import UsageRead


class ActivePod(msgspec.Struct, frozen=True, kw_only=True):
    """A pod that was admitted and may have running containers, or volumes."""

    uid: Uid
    pod: Pod
    """With the amounts that it was given."""
    ending: bool = False
    """It is being stopped, for any cause, or its remains are being removed."""


class ActivePods(Message, frozen=True, kw_only=True):
    """Every pod that may use something of the node: the whole truth, newest wins."""

    pods: tuple[ActivePod, ...] = ()
    leaving: tuple[Uid, ...] = ()
    """Pods that no source lists any more: they end, and are not fully removed yet."""
    whole: bool = True
    """False while a source has not spoken yet, or a pod of an earlier life of the agent has not said whether it ends."""

    def brief(self) -> str:
        """Return one line for traces."""
        ending = sum(one.ending for one in self.pods)
        so_far = "" if self.whole else " so far"
        return f"ActivePods {len(self.pods)} ending={ending} leaving={len(self.leaving)}{so_far}"

    def conflation_key(self) -> str | None:
        """Keep the newest."""
        return "active"


class FinishedCleared(Message, frozen=True, kw_only=True):
    """Nothing but their status is kept any more of pods that have ended."""

    run: str
    pods: int
    """Of how many something was removed."""

    def brief(self) -> str:
        """Return one line for traces."""
        return f"FinishedCleared {self.run} pods={self.pods}"


class ImagesCollected(Message, frozen=True, kw_only=True):
    """A collection of unused images that the receiver asked for is over."""

    run: str
    removed: int
    failure: str = ""

    def brief(self) -> str:
        """Return one line for traces."""
        return f"ImagesCollected {self.run} removed={self.removed} {self.failure}".rstrip()


class PodKilled(Message, frozen=True, kw_only=True):
    """A pod that the receiver asked to be killed has no running container any more."""

    uid: Uid

    def brief(self) -> str:
        """Return one line for traces."""
        return f"PodKilled {self.uid}"

    def conflation_key(self) -> str | None:
        """Once is enough."""
        return f"killed:{self.uid}"


class WatchPressure(Message, frozen=True, kw_only=True):
    """From now on send `asked_by` what the node is short of: at once, and whenever that changes."""

    asked_by: Path

    def brief(self) -> str:
        """Return one line for traces."""
        return f"WatchPressure {self.asked_by}"


EvictionMessage = ActivePods | FinishedCleared | ImagesCollected | UsageRead | PodKilled | WatchPressure
"""EvictionManager: evicts pods under node pressure."""
