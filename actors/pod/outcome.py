"""Absorb the outcomes of calls: the runtime's new view, back-off after failures, events, tries for `explain`."""

from typing import TypeVar

import msgspec
from msgspec.structs import replace

from actors.pod.cgroup.grouping import grouped, ungrouped
from actors.pod.cgroup.resize import after_failed_update, after_update
from actors.pod.container.due import highest_used, used_after
from actors.pod.container.hook import absorb_hook
from actors.pod.container.image import without_image
from actors.pod.life.event import with_event
from actors.pod.life.repeat import with_answer
from actors.pod.life.stage import sandbox_stops
from actors.pod.life.volume import (
    VOLUME_CALLS,
    VOLUME_RETRY,
    concealed,
    event_prefix,
    volume_answered,
    without_parts,
)
from actors.pod.spec.containerconfig import sandbox_warnings
from actors.pod.spec.ending import termination_message_call
from actors.pod.state import (
    MEMO_SECTION,
    PRUNING,
    RESIZING,
    RETRY,
    STATUS_SECTION,
    TRIED_LIMIT,
    CallBackoff,
    Finished,
    Flight,
    Gone,
    PodMemo,
    PodState,
    Recalling,
    Syncing,
    Terminating,
    Tried,
    change_calls,
    change_setup,
    change_view,
    with_call_backoff,
    with_container,
    with_instance,
    without_call_backoff,
)
from actors.pod.status.history import never_started
from actors.rules.container.instance import is_alive, newest_of, not_back
from actors.rules.container.knownend import with_known_ends
from actors.rules.retry import Retry, RetryPolicy
from api.decoding import ready
from api.errors import Failure, FailureKind
from api.ids import Instant, WallNs
from api.kube.objects.podstatus import PodStatus
from api.messages.kernel import Outcome
from api.ports.cgroups import EnsurePodCgroup, PodCgroupMade, PodCgroupRemoved, RemovePodCgroup
from api.ports.images import IMAGE_MISSING
from api.ports.kube import ReadRuntimeClass, ReadServices, RuntimeClassRead, ServicesRead
from api.ports.ledger import Forget, Recall, Recalled, Remember, not_ours
from api.ports.logs import LinkContainerLog, RemoveContainerLogs
from api.ports.node import NodeFiles
from api.ports.podfiles import (
    MakePodFolders,
    PrepareContainer,
    ReadEnding,
    ReadNodeFiles,
    RemovePodFolders,
    TerminationMessage,
)
from api.ports.runtime import (
    CreateContainer,
    InspectPod,
    RemoveContainer,
    RemoveSandbox,
    RunSandbox,
    RuntimeContainerState,
    RuntimePod,
    SandboxSpec,
    StartContainer,
    StopContainer,
    StopSandbox,
    UpdateContainer,
)
from api.ports.volumes import PrepareSubPath, PrepareVolume, RemoveVolumes

T = TypeVar("T", bound=msgspec.Struct)
LOST = {
    MEMO_SECTION: "the agent's record of the pod is lost: restart counts and back-off may start again",
    STATUS_SECTION: "the last status of the pod is lost: it is rebuilt from what the runtime shows",
}
"""What the loss of a record means to its pod, for each section."""

REWRITE_S = 10.0
"""Time between retries of a failed write to the ledger."""
REFUSED_RETRY = RetryPolicy(base_s=10.0, limit_s=300.0)
"""Of a call that the runtime refused: a change of what it refuses takes its time."""

UNCHANGING_CALLS = (
    InspectPod,
    Recall,
    Remember,
    ReadNodeFiles,
    ReadServices,
    ReadRuntimeClass,
    ReadEnding,
    LinkContainerLog,
)
"""Calls that change nothing of the pod: their success does not end a back-off after a failed change."""

STARTING = (
    MakePodFolders,
    EnsurePodCgroup,
    ReadNodeFiles,
    ReadServices,
    ReadRuntimeClass,
    PrepareContainer,
    PrepareVolume,
    PrepareSubPath,
    RunSandbox,
    CreateContainer,
    StartContainer,
)
"""Calls that only a pod that should run makes."""

ON_CONTAINER = (
    ReadServices,
    PrepareContainer,
    PrepareSubPath,
    CreateContainer,
    StartContainer,
    RemoveContainer,
)
"""Calls whose failure delays their container only."""

FAILED_STEP: dict[type[msgspec.Struct], tuple[str, str, str]] = {
    # Call -> waiting reason, event reason, event text before the error.
    RunSandbox: ("FailedCreatePodSandBox", "FailedCreatePodSandBox", "Failed to create pod sandbox: "),
    CreateContainer: ("CreateContainerError", "Failed", "Error: "),
    ReadServices: ("CreateContainerConfigError", "Failed", "Error: "),
    ReadRuntimeClass: (
        "FailedCreatePodSandBox",
        "FailedCreatePodSandBox",
        "Failed to create pod sandbox: failed to get RuntimeClass: ",
    ),
    StartContainer: ("RunContainerError", "Failed", "Error: "),
    StopContainer: ("KillContainerError", "FailedKillPod", "error killing pod: "),
    StopSandbox: ("KillPodSandboxError", "FailedKillPod", "error killing pod: "),
    UpdateContainer: ("", "ResizeError", "error resizing container in place: "),
    InspectPod: ("", "FailedSync", "error determining status: "),
    MakePodFolders: ("", "Failed", "error making pod data directories: "),
    EnsurePodCgroup: ("", "FailedCreatePodContainer", "unable to ensure pod container exists: "),
    PrepareContainer: ("CreateContainerConfigError", "Failed", "Error: "),
    PrepareSubPath: ("CreateContainerConfigError", "Failed", "Error: "),
    PrepareVolume: ("", "FailedMount", ""),
    RemoveVolumes: ("", "FailedUnMount", ""),
}


def absorb_outcome(state: PodState, outcome: Outcome, now: Instant, wall: WallNs) -> PodState:
    """Absorb the outcome of a call of the stage in flight, of a hook, or of an earlier incarnation."""
    after_hook = absorb_hook(state, outcome, now, wall)
    if after_hook is not None:
        return after_hook
    flight = next((f for f in state.calls.inflight if f.op == outcome.op), None)
    if flight is None:
        left = tuple(op for op in state.calls.inherited if op != outcome.op)
        settled_at = max(state.view.settled_at, outcome.ended_at)
        return change_view(change_calls(state, inherited=left), must_inspect=True, settled_at=settled_at)
    state = change_calls(state, inflight=tuple(f for f in state.calls.inflight if f.op != outcome.op))
    state = with_tried(state, flight, outcome, now)
    if not flight.cancelled:
        state = with_answer(state, flight.what.call, now)
    if outcome.failure is not None:
        return failed(state, flight, outcome.failure, now, wall)
    state = without_past_failures(state, flight)
    if isinstance(outcome.result, RuntimePod):
        return runtime_answered(state, flight, outcome, outcome.result, wall)
    if isinstance(flight.what.call, LinkContainerLog):
        return linked_log(state, flight.what.container)
    return host_answered(state, flight.what.call, outcome.result, now, wall)


def host_answered(  # noqa: C901  # one case per call
    state: PodState, call: msgspec.Struct, result: msgspec.Struct | None, now: Instant, wall: WallNs
) -> PodState:
    """Absorb what the host did or read."""
    match call:
        case Recall():
            return recalled_entry(state, call, result, wall)
        case Remember(data=data):
            return replace(
                state, remembered=msgspec.msgpack.decode(data, type=ready(PodMemo)), rewrite_at=None
            )
        case MakePodFolders():
            return change_setup(state, folders=True)
        case ReadNodeFiles() if isinstance(result, NodeFiles):
            return change_setup(state, files=result)
        case ReadServices() if isinstance(result, ServicesRead):
            return change_setup(state, services=result.services)
        case ReadRuntimeClass() if isinstance(result, RuntimeClassRead):
            return change_setup(state, handler=result.handler)
        case PrepareContainer(container=name, attempt=attempt):
            return with_container(state, name, replace(state.container(name), prepared=attempt))
        case ReadEnding() if isinstance(result, TerminationMessage):
            return with_message_read(state, call, result.message)
        case EnsurePodCgroup() if isinstance(result, PodCgroupMade):
            return grouped(state, call, result, now, wall)
        case RemovePodCgroup(cgroup_parent=parent) if isinstance(result, PodCgroupRemoved):
            for refused in result.refused:
                state = with_event(state, wall, "Warning", "FailedRemovePodCgroup", refused)
            return ungrouped(state, parent)
        case RemovePodFolders() if isinstance(state.life, Finished):
            return replace(state, life=replace(state.life, cleaned=True))
        case PrepareVolume() | PrepareSubPath() | RemoveVolumes():
            return volume_answered(state, call, result)
        case Forget() if isinstance(state.life, Finished):
            return replace(state, life=Gone(kill=state.life.kill))
        case _:
            return state


def without_past_failures(state: PodState, flight: Flight) -> PodState:
    """Return the state without a back-off after a whole stage succeeded that shows that the trouble is over.

    One call of a stage may succeed beside another that fails, and after each failure an inspection comes first:
    neither may reset the count of failures.
    """
    delayed = backoff_key_of(state, flight)
    key = delayed if delayed in (PRUNING, RESIZING) else ""
    backoff = state.call_backoff(key)
    if backoff is None or state.calls.inflight or backoff.retry.at > flight.since:
        return state
    looked = isinstance(flight.what.call, UNCHANGING_CALLS)
    if looked and backoff.call not in {kind.__name__ for kind in UNCHANGING_CALLS}:
        return state
    return without_call_backoff(state, key)


def backoff_key_of(state: PodState, flight: Flight) -> str:
    """Return the key of the back-off after a failure of this call: its container, one of `NON_BLOCKING`, or the pod."""
    call, name = flight.what.call, flight.what.container
    if isinstance(call, ON_CONTAINER) and name:
        return name
    if isinstance(call, UpdateContainer):
        return RESIZING
    if isinstance(call, RemoveContainer | RemoveSandbox | RemoveContainerLogs) and isinstance(
        state.life, Syncing
    ):
        return PRUNING
    return ""


def with_view(state: PodState, view: RuntimePod, as_of: Instant) -> PodState:
    """Absorb what the runtime shows.

    Without a spec, and before the recall, there is no status that keeps the numbers of removed instances: the memo does.
    """
    shown = {one.id for one in view.containers}
    before = state.observed.containers if state.observed is not None else ()
    gone = [one for one in before if one.id not in shown]
    unkept = isinstance(state.life, Recalling) or (state.desired is None and isinstance(state.life, Syncing))
    if gone and unkept:
        state = replace(state, memo=replace(state.memo, used=used_after(state.memo.used, gone)))
    if isinstance(state.life, Finished) and state.life.ungrouped and is_alive(view):
        # A container that started after the end has its cgroup again.
        state = replace(state, life=replace(state.life, ungrouped=False))
    view = with_known_ends(not_back(state.observed, view), state.observed, state.base)
    return change_view(state, observed=view, as_of=as_of)


def runtime_answered(  # noqa: C901  # one case per call
    state: PodState, flight: Flight, outcome: Outcome, view: RuntimePod, wall: WallNs
) -> PodState:
    """Absorb the runtime's view after a call, without waiting for the next relist."""
    before = state.observed
    inspected = isinstance(flight.what.call, InspectPod)
    as_of = outcome.started_at if inspected else outcome.ended_at
    if as_of >= state.view.as_of:
        state = with_view(state, view, as_of)
    if inspected:
        state = change_view(state, must_inspect=False)
        if isinstance(state.life, Terminating) and not is_alive(state.observed) and not sandbox_stops(state):
            state = replace(state, life=replace(state.life, proven_at=as_of))
    else:
        state = change_view(state, settled_at=max(state.view.settled_at, outcome.ended_at))
    name = flight.what.container
    newest = newest_of(before, name)
    match flight.what.call:
        case CreateContainer():
            # The next instance gets its own files, and the node's may have changed by then.
            record = replace(state.container(name), prepared=None, bound=())
            state = with_container(change_setup(state, files=None, services=None), name, record)
            return with_event(state, wall, "Normal", "Created", "Container created", name)
        case UpdateContainer() as update:
            return after_update(state, update)
        case StartContainer(container_id=started):
            return started_container(state, started, name, wall)
        case RunSandbox(spec=SandboxSpec(attempt=attempt)):
            return made_sandbox(state, wall, again=attempt > 0)
        case StopSandbox(sandbox_id=stopped):
            return stopped_sandbox(change_setup(state, handler=None), stopped)
        case RemoveContainer(container_id=removed):
            if newest is not None and newest.id == removed and newest.state is RuntimeContainerState.CREATED:
                state = replace(state, base=never_started(state.base, removed))
            backoff = state.call_backoff(name)
            return with_call_backoff(state, replace(backoff, instance="")) if backoff else state
        case _:
            return state


def stopped_sandbox(state: PodState, sandbox_id: str) -> PodState:
    """Return the state in which this sandbox is not stopped again unless it becomes ready."""
    shown = {one.id for one in state.observed.sandboxes} if state.observed is not None else set()
    return change_view(state, stopped=tuple(sorted({*state.view.stopped, sandbox_id} & shown)))


def linked_log(state: PodState, container_id: str) -> PodState:
    """Return the state in which this container's log is not linked again."""
    return with_instance(state, container_id, replace(state.instance(container_id), linked=True))


def made_sandbox(state: PodState, wall: WallNs, *, again: bool) -> PodState:
    """Absorb the creation of a sandbox, with an event for each warning of its configuration.

    Its first container uses the same node files; for the next one they are read again.
    """
    if again:
        text = "Pod sandbox changed, it will be killed and re-created."
        state = with_event(state, wall, "Normal", "SandboxChanged", text)
    if state.desired is not None and state.setup.files is not None:
        for warning in sandbox_warnings(state.desired, state.node, state.setup.files):
            state = with_event(state, wall, "Warning", warning.reason, warning.message)
    return state


def with_message_read(state: PodState, call: ReadEnding, message: str) -> PodState:
    """Return the state with the termination message of the instance that the call read it of."""
    for one in state.observed.containers if state.observed is not None else ():
        record = state.instance(one.id)
        if record.termination_message is None and termination_message_call(state.uid, one) == call:
            state = with_instance(state, one.id, replace(record, termination_message=message))
    return state


def started_container(state: PodState, container_id: str, name: str, wall: WallNs) -> PodState:
    """Absorb a returned start: the container runs, or its command could not be run."""
    newest = newest_of(state.observed, name)
    state = without_call_backoff(state, name)
    refused = (
        newest is not None and newest.state is RuntimeContainerState.EXITED and newest.reason == "StartError"
    )
    if newest is not None and newest.id == container_id and refused:
        return with_event(state, wall, "Warning", "Failed", f"Error: {newest.message}", name)
    return with_event(state, wall, "Normal", "Started", "Container started", name)


def recalled_entry(state: PodState, call: Recall, result: msgspec.Struct | None, wall: WallNs) -> PodState:
    """Absorb one record of the ledger; one that is damaged or does not decode counts as absent, with an event."""
    assert isinstance(result, Recalled)
    entry = decoded(result.data, PodStatus if call.section == STATUS_SECTION else PodMemo)
    damaged = result.damaged
    if result.data is not None and entry is None:
        damaged = not_ours(call.section, call.key)
    if damaged:
        text = f"{damaged}; {LOST[call.section]}"
        state = with_event(state, wall, "Warning", "LedgerDamaged", text)
    if call.section == STATUS_SECTION:
        # A status without a memo is of an earlier life of the same UID and must not count.
        if not isinstance(entry, PodStatus):
            return state
        view = with_known_ends(state.observed, None, entry) if state.observed is not None else None
        return replace(change_view(state, observed=view), base=entry)
    remembered = entry if isinstance(entry, PodMemo) else PodMemo()
    # What was shown and is gone while the ledger was slow to answer counts too.
    memo = replace(remembered, used=highest_used(remembered.used, state.memo.used))
    return replace(state, memo=memo, remembered=remembered)


def decoded(data: bytes | None, kind: type[T]) -> T | None:
    """Decode a record of the ledger, None when there is none or its shape is unknown."""
    if data is None:
        return None
    try:
        return msgspec.msgpack.decode(data, type=ready(kind))
    except msgspec.DecodeError:
        return None


# ---------------------------------------------------------------- failures


def failed(state: PodState, flight: Flight, failure: Failure, now: Instant, wall: WallNs) -> PodState:
    """Absorb a failure: what must be inspected, the back-off, the event."""
    call, name = flight.what.call, flight.what.container
    cancelled = failure.kind is FailureKind.CANCELLED and flight.cancelled
    if flight.what.port == "runtime":
        state = change_view(state, must_inspect=True)
    if cancelled:
        return state
    if isinstance(call, Remember):
        return after_failed_write(state, call, failure, now, wall)
    if isinstance(call, Recall) and isinstance(state.life, Recalling):
        state = replace(state, life=replace(state.life, failures=state.life.failures + 1))
    if isinstance(call, LinkContainerLog):
        return linked_log(with_event(state, wall, "Warning", "FailedLinkLog", failure.message), name)
    if isinstance(call, ReadEnding):
        # Nothing is retried for a termination message: the error takes its place.
        return with_message_read(state, call, f"Error on reading termination log: {failure.message}")
    state = without_uncertain(state, call, failure, name)
    failure = concealed(call, failure)
    reason, event, text = FAILED_STEP.get(type(call), ("", "FailedSync", f"{type(call).__name__} failed: "))
    reason = failure.reason or reason
    text = (event_prefix(call) or text) + unnumbered(failure.message, call, name)
    told = with_event(state, wall, "Warning", event, text, name)
    if isinstance(call, STARTING) and not isinstance(state.life, Syncing):
        # It was killed meanwhile: nothing is retried, and a sandbox that is no longer needed is no problem.
        return state if isinstance(call, RunSandbox) else told
    state = told
    key = backoff_key_of(state, flight)
    before = state.call_backoff(key)
    retry = before.retry if before else Retry()
    if isinstance(call, PrepareVolume) and retry.at > flight.since:
        # Volumes are prepared side by side: those that fail in one stage are one failure.
        retry = replace(retry, failures=retry.failures - 1)
    backoff = CallBackoff(
        container=key,
        call=type(call).__name__,
        since=before.since if before else now,
        retry=next_try(retry, call, failure, now),
        reason=reason or "ContainerCreating",
        message=failure.message,
        instance=call.container_id if isinstance(call, StartContainer) else before.instance if before else "",
    )
    return with_call_backoff(state, backoff)


def without_uncertain(state: PodState, call: msgspec.Struct, failure: Failure, name: str) -> PodState:
    """Return the state without what a failed call makes uncertain."""
    match call:
        case CreateContainer():
            state = without_parts(state, name)
            return without_image(state, name) if failure.reason == IMAGE_MISSING else state
        case RemovePodFolders():
            # A volume that is in the way may be one that the memo does not know.
            life = replace(state.life, unmounted=False) if isinstance(state.life, Finished) else state.life
            return replace(state, memo=replace(state.memo, volumes=True), life=life)
        case UpdateContainer():
            return after_failed_update(state, call)
        case _:
            return state


def unnumbered(text: str, call: msgspec.Struct, name: str) -> str:
    """Return an error with the container's name for its id, so that equal errors of two instances are counted as one."""
    identity = getattr(call, "container_id", "").rpartition("/")[2]
    return text.replace(identity, name) if identity and name else text


def next_try(before: Retry, call: msgspec.Struct, failure: Failure, now: Instant) -> Retry:
    """Return the next try of a failed call; `before` has the failures in a row before this one."""
    retry = before.after(now, retry_policy(call, failure))
    return replace(retry, at=now) if is_image_gone(failure) and retry.failures == 1 else retry


def retry_policy(call: msgspec.Struct, failure: Failure) -> RetryPolicy:
    """Return the back-off of a failed call: refused calls are retried slowly, the rest soon."""
    if isinstance(call, VOLUME_CALLS):
        return VOLUME_RETRY
    refused = failure.kind in (FailureKind.REJECTED, FailureKind.DENIED) and not is_image_gone(failure)
    return REFUSED_RETRY if refused else RETRY


def is_image_gone(failure: Failure) -> bool:
    """Return whether a container could not be created because its image was removed meanwhile: it is pulled again at once."""
    return failure.reason == IMAGE_MISSING


def after_failed_write(
    state: PodState, call: Remember, failure: Failure, now: Instant, wall: WallNs
) -> PodState:
    """Continue without the ledger, with an event, and retry the write later: a full disk must not delay a stop."""
    text = f"cannot write the ledger; a restart of the agent may forget this step: {failure.message}"
    state = with_event(state, wall, "Warning", "LedgerUnavailable", text)
    remembered = msgspec.msgpack.decode(call.data, type=ready(PodMemo))
    return replace(state, remembered=remembered, rewrite_at=now + REWRITE_S)


# ---------------------------------------------------------------- small changes of a state


def with_tried(state: PodState, flight: Flight, outcome: Outcome, now: Instant) -> PodState:
    """Return the state with this call in `tried`, for `explain`."""
    brief = getattr(flight.what.call, "brief", None)
    what = brief() if callable(brief) else type(flight.what.call).__name__
    result = outcome.failure.brief() if outcome.failure else f"ok in {max(0.0, now - flight.since):.3f} s"
    if flight.what.port == "ledger" and outcome.failure is None:
        return state
    ended = Tried(at=now, what=what, result=result)
    return change_calls(state, tried=(*state.calls.tried, ended)[-TRIED_LIMIT:])
