"""What MirrorManager knows: static pods, their mirrors on the API server, the Node that owns them, and what still ends."""

from collections.abc import Mapping

import msgspec

from actors.rules.agenda import Agenda
from actors.rules.desiredsources import DesiredSources
from actors.rules.nodewatch import NEVER_ASKED
from actors.rules.retry import Retry
from api.errors import Failure
from api.ids import Instant, OpId, Uid
from api.kube.objects.pod import Pod
from api.messages.apistatus import ApiPodsSeen
from api.messages.eviction import ActivePods
from api.messages.nodestatus import NodeObjectSeen
from api.messages.supervisor import PodsChanged, PodsSnapshot, SourcedPod

MirrorMessage = PodsSnapshot | PodsChanged | ApiPodsSeen | NodeObjectSeen | ActivePods
"""What MirrorManager is sent: by PodConfig, ApiSource, NodeStatusManager and the supervisor; all but `PodsChanged` are levels."""


class MirrorCall(msgspec.Struct, frozen=True, kw_only=True):
    """A call in flight about the mirrors of one name."""

    op: OpId
    created: Pod | None = None
    """What is created; None for a deletion."""
    deleted: str = ""
    """The UID that is deleted."""


class MirrorEntry(msgspec.Struct, frozen=True, kw_only=True):
    """What was done about the mirrors of one name."""

    name: str
    """``namespace/name``: also the UID under which the agenda has it."""
    call: MirrorCall | None = None
    made: Pod | None = None
    """A mirror that was created and that no level has shown yet."""
    gone: str = ""
    """The UID of a mirror that was deleted; an older level may still show it."""
    gone_until: Instant = float("-inf")
    """From then on a level that shows it is believed: it was not deleted after all."""
    settle_at: Instant = float("-inf")
    """Until then a level without `made` is taken for an older one."""
    retry: Retry = Retry()
    failure: Failure | None = None
    """Of the last call, until one succeeds."""
    due_at: Instant | None = None
    """When to look again though nothing changes."""


class RunningPods(msgspec.Struct, frozen=True, kw_only=True):
    """Of which pods the node may still run something, as the supervisor said last."""

    uids: frozenset[Uid] = frozenset()
    whole: bool = False
    """False while a source has not spoken, or a pod of an earlier life of the agent has not said whether it ends."""


class MirrorsState(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that MirrorManager knows."""

    node_name: str
    sources: DesiredSources = DesiredSources()
    wanted: Mapping[Uid, SourcedPod] = {}
    """Static pods, as they came."""
    shown: Mapping[str, Pod] | None = None
    """Mirrors by name, as the API server listed them; None before the first list."""
    running: RunningPods | None = None
    """None before the supervisor has said it."""
    running_asked_at: Instant = NEVER_ASKED
    node: NodeObjectSeen | None = None
    node_asked_at: Instant = NEVER_ASKED
    entries: Mapping[str, MirrorEntry] = {}
    calls: Mapping[OpId, str] = {}
    """Which name each call in flight is about."""
    inherited: tuple[OpId, ...] = ()
    """Calls of an earlier incarnation: none is started before they ended."""
    waiting: Mapping[str, None] = {}
    """Names to look at."""
    agenda: Agenda = Agenda()
    forbidden: str = ""
    """Why the API server forbids mirrors; empty when it does not, as far as is known."""
