"""Decides what of the API server's pods this node must run, to whom it is sent, and what is remembered of it.

```text
kube.pods ──▶ ApiLevel ──┬──▶ PodsSeen     (pods to run) ──▶ the merge
                         ├──▶ ApiPodsSeen  (and mirrors) ──▶ the followers: ApiStatusWriter, MirrorManager
                         └──▶ checkpoint.py: the ledger, from where pods are restored before the API server answers
```

A list or watch that fails changes nothing: what was listed stands. A restored level goes to the merge only.
"""

from collections.abc import Callable, Mapping
from typing import assert_never

from msgspec.structs import replace

from actors.rules.mirror import is_mirror
from actors.sources.api.checkpoint import absorb_checkpoint, changed_level, of_api, plan_checkpoint, wakes
from actors.sources.api.state import API, ApiLevel, ApiSourceState, Checkpoint, CheckpointUnread
from api.ids import Instant, OpId, Path, Uid
from api.kube.objects.pod import Pod
from api.lifecycle import Action, Decision, Listen, Tell
from api.messages.apistatus import ApiPodsSeen
from api.messages.kernel import Alarm, ChildDied, Heard, KernelMessage, Outcome, Restarted, StreamEnded
from api.messages.podconfig import PodsSeen
from api.ports.kube import PODS, ApiPodsListed, WatchChecked
from api.ports.manifests import Problem
from api.ports.podfiles import FOLDER_UID
from api.shortening import shortened

REPEAT_S = 60.0
"""Each level is sent again after so long: that repairs a lost one."""


def begin(
    server: str,
    config: Path,
    followers: tuple[Path, ...],
    now: Instant,
    new_op: Callable[[], OpId],
    in_flight: tuple[OpId, ...] = (),
) -> Decision[ApiSourceState]:
    """Begin an incarnation: listen, and recall the checkpoint once the calls of the one before, `in_flight`, ended."""
    checkpoint = CheckpointUnread(inherited=in_flight)
    state = ApiSourceState(server=server, config=config, followers=followers, checkpoint=checkpoint)
    return plan(state, now, new_op)


def decide(
    state: ApiSourceState, message: KernelMessage, now: Instant, new_op: Callable[[], OpId]
) -> Decision[ApiSourceState]:
    """Take in one message and choose what is next."""
    return plan(absorb(state, message, now), now, new_op)


def absorb(state: ApiSourceState, message: KernelMessage, now: Instant) -> ApiSourceState:
    """Return what is known after a message."""
    match message:
        case Heard(item=ApiPodsListed(pods=pods)):
            level = level_of(pods, state.level.origins if state.level is not None else {})
            return replace(
                state,
                subscription=state.subscription.works(),
                level=level,
                unsent=(state.config, *state.followers),
                checkpoint=changed_level(state.checkpoint, level, now),
            )
        case Heard(item=WatchChecked(failure=failure)):
            return replace(state, failure=failure)
        case StreamEnded(failure=failure):
            return replace(state, subscription=state.subscription.ended(failure, now))
        case Outcome():
            return absorb_checkpoint(state, message, now)
        case Restarted(path=path) if path in (state.config, *state.followers):
            others = tuple(one for one in state.unsent if one != path)
            return replace(state, unsent=(*others, path))
        case Alarm() | Heard() | Restarted() | ChildDied():
            return state
        case _:
            assert_never(message)


def level_of(pods: tuple[Pod, ...], origins: Mapping[Uid, tuple[Pod, Pod]]) -> ApiLevel:
    """Sort what the API server listed into pods to run and mirrors; a pod without a usable UID is ignored."""
    to_run, mirrors, ignored = list[Pod](), list[Pod](), list[Problem]()
    made: dict[Uid, tuple[Pod, Pod]] = {}
    for pod in pods:
        meta = pod.metadata
        uid = Uid(meta.uid)
        if not FOLDER_UID.fullmatch(uid):
            where = f"{meta.namespace}/{meta.name}"
            ignored.append(
                Problem(
                    where=where, message=f"the UID {shortened(uid)!r} cannot name a pod's folder on this node"
                )
            )
            continue
        known = origins.get(uid)
        if known is None or known[0] is not pod:
            mine = replace(pod, metadata=replace(meta, managed_fields=())) if is_mirror(pod) else of_api(pod)
            known = (pod, mine)
        made[uid] = known
        (mirrors if is_mirror(pod) else to_run).append(known[1])
    return ApiLevel(pods=tuple(to_run), mirrors=tuple(mirrors), ignored=tuple(ignored), origins=made)


def plan(state: ApiSourceState, now: Instant, new_op: Callable[[], OpId]) -> Decision[ApiSourceState]:
    """Choose what is next."""
    actions: list[Action] = []
    if state.subscription.is_due(now):
        actions.append(Listen(stream=PODS))
        state = replace(state, subscription=state.subscription.opened(now))
    if state.level is not None and now >= state.repeat_at:
        state = replace(state, unsent=(state.config, *state.followers))
    actions += [Tell(to=path, message=message) for path, message in due_messages(state)]
    if state.level is not None and state.unsent:
        state = replace(state, repeat_at=now + REPEAT_S)
    state = replace(state, unsent=())
    checkpoint, calls = plan_checkpoint(state, now, new_op)
    state = replace(state, checkpoint=checkpoint)
    times = [*state.subscription.wakes(), *wakes(state)]
    times += [state.repeat_at] if state.level is not None else []
    return Decision(state=state, actions=(*actions, *calls), wake_at=min(times, default=None))


def due_messages(state: ApiSourceState) -> tuple[tuple[Path, PodsSeen | ApiPodsSeen], ...]:
    """Return what each of those who lack the level must get: the API server's, else what of it was restored."""
    level, checkpoint = state.level, state.checkpoint
    if level is not None:
        seen = ApiPodsSeen(pods=level.pods, mirrors=level.mirrors)
        to_config = PodsSeen(source=API, pods=level.pods)
        return tuple((path, to_config if path == state.config else seen) for path in state.unsent)
    restored = checkpoint.restored if isinstance(checkpoint, Checkpoint) else ()
    if not restored or state.config not in state.unsent:
        return ()
    return ((state.config, PodsSeen(source=API, pods=restored, restored=True)),)
