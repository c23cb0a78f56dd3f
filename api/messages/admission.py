"""Messages to AdmissionManager, which decides which pods may run on this node and what each gets of it.

Sent by: PodSupervisor (`PodsToAdmit`), EvictionManager (`NodePressure`), NodeManager (`NodeChanged`). Order: per sender.
Delivery: `PodsToAdmit` says what has changed of some pods, each row the whole truth about one, or with `whole` about all of
them: the supervisor sends everything once a minute, sooner while something is not answered, and to a new incarnation, so a
lost one is repaired by the next. Answers are in `api.messages.supervisor`: each carries a generation and is sent again when
a row shows that it was not received.
"""

import msgspec

from api.eviction import Pressure
from api.ids import Uid
from api.kube.objects.pod import Pod
from api.messages import Message
from api.messages.node import NodeChanged


class Allocated(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """CPU and memory that one container was given, as written."""

    container: str
    """Empty: the pod as a whole."""
    requests: tuple[tuple[str, str], ...] = ()
    limits: tuple[tuple[str, str], ...] = ()


class PodToAdmit(msgspec.Struct, frozen=True, kw_only=True):
    """What admission must know of one pod."""

    uid: Uid
    number: int
    """Which pod of this UID: another number is another pod, of which nothing was decided."""
    name: str
    """``namespace/name``."""
    order: int
    """When it came."""
    pod: Pod | None = None
    """What its source wants; None when no source wants it."""
    static: bool = False
    """It comes from a file or URL."""
    open: bool = False
    """It may be decided on now, and the answer is waited for."""
    settled: bool = False
    """It runs, has ended or must end: it is admitted whatever there is room for."""
    silent: bool = True
    """Its actor has not said yet whether it has ended."""
    ending: bool = False
    """It is being stopped, or no source wants it."""
    ended: bool = False
    """Nothing of it runs any more."""
    stoppable: bool = True
    """It has an actor that could stop it for others, or will have one."""
    preempted: bool = False
    """It is being stopped because admission asked for that."""
    confined: int = -1
    """Generation of the last answer whose amounts confine everything of it that runs."""
    received: int = -1
    """Generation of the last answer that was received."""


class PodsToAdmit(Message, frozen=True, kw_only=True):
    """The pods that have changed, or all pods there are."""

    epoch: int
    """Incarnation of the supervisor."""
    whole: bool = False
    """These are all: others have left."""
    pods: tuple[PodToAdmit, ...] = ()
    left: tuple[Uid, ...] = ()
    """Of these pods everything is removed."""

    def brief(self) -> str:
        """Return one line for traces."""
        what = "all" if self.whole else "changed"
        return f"PodsToAdmit epoch={self.epoch} {what}={len(self.pods)} left={len(self.left)}"


class NodePressure(Message, frozen=True, kw_only=True):
    """What the node is short of now: newcomers are admitted accordingly."""

    conditions: tuple[Pressure, ...] = ()
    spares_static: bool = False
    """Whether pods of files are admitted whatever is short."""

    def brief(self) -> str:
        """Return one line for traces."""
        return f"NodePressure {' '.join(self.conditions) or 'none'}"

    def conflation_key(self) -> str | None:
        """Keep the newest."""
        return "pressure"


AdmissionMessage = PodsToAdmit | NodePressure | NodeChanged
