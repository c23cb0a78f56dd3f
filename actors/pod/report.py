"""Messages to other actors about what changed between two states of a pod: derived, so no path can forget one."""

from actors.pod.container.image import wants_message
from actors.pod.container.probe import probe_message
from actors.pod.life.event import namespace_and_name, new_events
from actors.pod.state import LIFE_WORD, Finished, Gone, PodState, Recalling, Terminated
from api import paths
from api.ids import Path
from api.lifecycle import Action, Tell
from api.messages.events import KeepEvents, ReleaseEvents
from api.messages.eviction import PodKilled
from api.messages.pleg import UnwatchPod, WatchPod
from api.messages.status import PodStatusComposed
from api.messages.supervisor import PodLife, PodMoved


def report(before: PodState, after: PodState, *, resend: Path | None = None) -> tuple[Action, ...]:
    """Return the messages to send; `resend` names an actor that lost its state and gets every level again."""
    facts: list[Action] = []
    if after.desired is not None and not isinstance(after.life, Recalling):
        over = isinstance(after.life, Finished | Gone)
        was_over = isinstance(before.life, Finished | Gone)
        if (
            before.base != after.base
            or isinstance(before.life, Recalling)
            or before.desired is None
            or over != was_over
            or resend == paths.STATUS
        ):
            facts.append(Tell(to=paths.STATUS, message=status_of(after, over=over)))
    # Admission waits for these: the next update repeats a lost one, as for images.
    if progress_of(before) != progress_of(after) or resend in (paths.PODS, paths.IMAGES):
        life, confined, kept, leaving, deleted = progress_of(after)
        moved = PodMoved(
            uid=after.uid,
            name=after.memo.name,
            namespace=after.memo.namespace,
            life=life,
            confined=confined,
            kept=kept,
            leaving=leaving,
            deleted=deleted,
        )
        facts.append(Tell(to=paths.PODS, message=moved))
    if (
        before.sent.wants != after.sent.wants
        or before.sent.wants_sent_at != after.sent.wants_sent_at
        or (resend == paths.IMAGES and after.sent.wants is not None)
    ):
        facts.append(Tell(to=paths.IMAGES, message=wants_message(after)))
    if before.sent.probed != after.sent.probed or (
        resend in (paths.PROBES, paths.IMAGES) and after.sent.probed is not None
    ):
        facts.append(Tell(to=paths.PROBES, message=probe_message(after.uid, after)))
    if resend == paths.PLEG:
        facts.append(Tell(to=paths.PLEG, message=WatchPod(uid=after.uid)))
    if isinstance(after.life, Gone) and not isinstance(before.life, Gone):
        facts.append(Tell(to=paths.PLEG, message=UnwatchPod(uid=after.uid)))
    # IMAGES stands for an update, which comes at least once a minute: a claim that got lost is made again with it.
    facts += event_messages(before, after, resend=resend in (paths.EVENTS, paths.IMAGES))
    if is_stopped(after):
        # The supervisor follows `PodMoved`.
        others = (path for path in after.askers if path != paths.PODS)
        facts += [Tell(to=path, message=PodKilled(uid=after.uid)) for path in others]
    return tuple(facts)


def progress_of(state: PodState) -> tuple[PodLife, int, bool, bool, bool]:
    """Return life, generation of the confining update, whether files are kept, whether records are being removed, deletion."""
    kept = leaving = False
    if isinstance(state.life, Finished):
        observed = state.observed
        recorded = observed is None or bool(observed.sandboxes or observed.containers)
        kept, leaving = not state.cleaned, recorded and state.life.kill.evict
    deleted = state.killed is not None and state.killed.deleted
    return LIFE_WORD[type(state.life)], state.sent.confined, kept, leaving, deleted


def event_messages(before: PodState, after: PodState, *, resend: bool) -> tuple[Action, ...]:
    """Return the messages to the EventRecorder: keep or release the pod, and new events."""
    facts: list[Action] = []
    begins = isinstance(before.life, Recalling) and not isinstance(after.life, Recalling)
    if begins or (resend and not isinstance(after.life, Gone)):
        namespace, name = namespace_and_name(after)
        facts.append(Tell(to=paths.EVENTS, message=KeepEvents(uid=after.uid, namespace=namespace, pod=name)))
    facts += [Tell(to=paths.EVENTS, message=event) for event in new_events(before, after)]
    if isinstance(after.life, Gone) and not isinstance(before.life, Gone):
        facts.append(Tell(to=paths.EVENTS, message=ReleaseEvents(uid=after.uid)))
    return tuple(facts)


def is_stopped(state: PodState) -> bool:
    """Return whether the pod is proven stopped: actors that wait for that get `PodKilled`."""
    return isinstance(state.life, Terminated | Finished | Gone)


def status_of(state: PodState, *, over: bool) -> PodStatusComposed:
    """Return the pod's status as a message."""
    assert state.desired is not None
    meta = state.desired.metadata
    return PodStatusComposed(
        uid=state.uid, namespace=meta.namespace, name=meta.name, status=state.base, finished=over
    )
