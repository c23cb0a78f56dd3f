"""Bring one container up, step by step, and tell what those wait for that are not brought up now."""

import msgspec

from actors.pod.cgroup.grouping import in_group
from actors.pod.container.due import AnyContainer, attempt_of, in_turn, is_due
from actors.pod.container.ephemeral import target_id
from actors.pod.container.hook import with_pending
from actors.pod.container.image import report_on, want_of
from actors.pod.life.stage import (
    NS,
    Stage,
    counted_memo,
    crash_text,
    crash_wait_s,
    host_call,
    looked_at_anew,
    node_files,
    remember,
    runtime_call,
    stop,
    tries,
)
from actors.pod.spec.containerconfig import (
    ConfigProblem,
    RunImage,
    container_files,
    container_spec,
    own_grace_s,
    sandbox_spec,
)
from actors.pod.state import PodState, PortCall
from actors.pod.volume.volume import bind_parts, bound_parts, ready_paths
from actors.rules.container.instance import newest_of
from actors.rules.identity import kept_for_last
from api.ids import Instant, WallNs
from api.kube.objects import pod as v1
from api.messages.images import ImageWant
from api.messages.pod import ImageProgress
from api.ports.node import NodeFiles
from api.ports.runtime import (
    CreateContainer,
    RemoveContainer,
    RuntimeContainer,
    RuntimeContainerState,
    StartContainer,
)


class Wait(msgspec.Struct, frozen=True, kw_only=True):
    """A container that is to be started, but not now."""

    container: str
    until: Instant | None
    """None: until somebody tells that it is over."""
    since_s: float
    reason: str
    """Waiting reason to publish, empty to leave the published one."""
    message: str
    why: str


@kept_for_last
def waits_of(state: PodState, now: Instant, wall: WallNs) -> tuple[Wait, ...]:
    """Return the containers that are to be started but wait: after failed tries, in crash-loop back-off, for an image."""
    pod, observed = state.effective, state.observed
    waits: list[Wait] = []
    for container in in_turn(pod.spec) if pod is not None else ():
        newest = newest_of(observed, container.name)
        if pod is None or not is_due(state, container):
            continue
        wait = (
            hold_wait(state, container.name, now)
            or crash_wait(state, pod, container, newest, now, wall)
            or image_wait(state, container, now, wall)
        )
        if wait is not None:
            waits.append(wait)
    return tuple(waits)


def hold_wait(state: PodState, name: str, now: Instant) -> Wait | None:
    """Return the wait after failed tries."""
    hold = state.hold(name)
    if hold is None or now >= hold.until:
        return None
    return Wait(
        container=name,
        until=hold.until,
        since_s=max(0.0, now - hold.since),
        reason=hold.reason,
        message=hold.message,
        why=f"trying container {name} again after {tries(hold.failures)}: {hold.message}",
    )


def crash_wait(
    state: PodState,
    pod: v1.Pod,
    container: AnyContainer,
    newest: RuntimeContainer | None,
    now: Instant,
    wall: WallNs,
) -> Wait | None:
    """Return the wait of a container that ended too often."""
    name = container.name
    attempt = attempt_of(state, name, newest)
    left_s = crash_wait_s(state, container, newest, wall, attempt)
    if newest is None or newest.finished_at is None or left_s <= 0:
        return None
    return Wait(
        container=name,
        until=now + left_s,
        since_s=max(0, wall - newest.finished_at) / NS,
        reason="CrashLoopBackOff",
        message=crash_text(state, pod, container),
        why=f"back-off of container {name}, which ended with exit code {newest.exit_code}, before restart {attempt}",
    )


def image_wait(state: PodState, container: AnyContainer, now: Instant, wall: WallNs) -> Wait | None:
    """Return the wait for an image."""
    want = want_of(state, container, wall)
    if want is None:
        return None
    report = report_on(state, want)
    if report is not None and report.progress is ImageProgress.READY:
        return None
    name, image = container.name, container.image
    retry_at = report.retry_at if report is not None else None
    if report is None:
        asked_s = max(0.0, now - state.wants_told_at)
        why = f"image {image} of container {name}, which is being looked up"
        return Wait(container=name, until=None, since_s=asked_s, reason="", message="", why=why)
    if report.progress is ImageProgress.PULLING:
        turn = (
            "which is being fetched" if report.since is not None else "which waits for its turn to be fetched"
        )
        pulled_s = max(0.0, now - report.since) if report.since is not None else 0.0
        why = f"image {image} of container {name}, {turn}"
        return Wait(container=name, until=None, since_s=pulled_s, reason="", message="", why=why)
    return Wait(
        container=name,
        until=retry_at
        if retry_at is not None and retry_at > now
        else None,  # the ImagePuller tells how it went
        since_s=0.0,
        reason=report.reason,
        message=report.message,
        why=f"image {image} of container {name}: {report.message}",
    )


def waiting_stage(waits: tuple[Wait, ...], stuck: list[Stage]) -> Stage:
    """Return the stage in which nothing is done: what is waited for, until when, and what to publish of it."""
    timed = [wait for wait in waits if wait.until is not None]
    first = min(timed, key=lambda wait: wait.until or 0.0) if timed else waits[0] if waits else None
    wakes = [at for at in (*(w.until for w in timed), *(s.wake_at for s in stuck)) if at is not None]
    return Stage(
        why=f"waiting: {first.why}" if first is not None else stuck[0].why,
        wake_at=min(wakes, default=None),
        since_s=first.since_s if first is not None else None,
        waiting=tuple(row for stage in stuck for row in stage.waiting),
    )


def bring_up(
    state: PodState,
    pod: v1.Pod,
    container: AnyContainer,
    newest: RuntimeContainer | None,
    sandbox_id: str,
    now: Instant,
    wall: WallNs,
) -> Stage:
    """Return the next step of starting one container whose image is there: count it, write its files, make it, start it.

    A stage without calls: its definition cannot be carried out, which must not hold up the containers after it.
    """
    name = container.name
    if newest is not None and newest.state is RuntimeContainerState.UNKNOWN:
        call = stop(state, newest, own_grace_s(pod))
        return Stage(
            calls=(call,), why=f"stopping container {name}, whose state is unknown, before its restart"
        )
    want = want_of(state, container, wall)
    if newest is not None and want is None:
        step = StartContainer(uid=state.uid, container_id=newest.id)
        return Stage(calls=(runtime_call(state, step, name),), why=f"starting container {name}")
    if newest is not None and newest.state is RuntimeContainerState.CREATED:
        drop = RemoveContainer(uid=state.uid, container_id=newest.id)
        return Stage(
            calls=(runtime_call(state, drop, name),), why=f"removing container {name}, which never started"
        )
    assert want is not None
    counted = counted_memo(state, container, newest, wall, want.attempt)
    memo = with_pending(counted, container, want.attempt)
    if memo != state.remembered:
        return remember(state, memo, f"remembering restart {want.attempt} of container {name}")
    return make(state, pod, container, want, sandbox_id, now)


def make(
    state: PodState, pod: v1.Pod, container: AnyContainer, want: ImageWant, sandbox_id: str, now: Instant
) -> Stage:
    """Return the step that makes a container, or the one that writes the files that it is made with."""
    name, node = container.name, state.facts
    shown = state.observed.sandboxes if state.observed is not None else ()
    ips = next((box.ips for box in shown if box.id == sandbox_id), ())
    if node.confined and state.files is None:
        return Stage(calls=(node_files(state),), why="reading the node's resolver and hosts file")
    if node.confined and (name, want.attempt) not in state.prepared:
        files = container_files(pod, container, want.attempt, node, state.files or NodeFiles(), ips)
        if isinstance(files, ConfigProblem):
            return refused(name, files, now)
        if files is not None:
            call = host_call("podfiles", files)
            prepare = PortCall(port=call.port, call=files, deadline_s=call.deadline_s, container=name)
            return Stage(calls=(prepare,), why=f"writing the files of container {name}")
    parts = bind_parts(state, pod, container, want.attempt, ips)
    if isinstance(parts, ConfigProblem):
        return refused(name, parts, now)
    if parts:
        return Stage(calls=parts, why=f"binding parts of volumes for container {name}")
    report = report_on(state, want)
    assert report is not None
    image = RunImage(ref=report.ref, user=report.user, user_name=report.user_name)
    spec = container_spec(
        pod,
        container,
        want.attempt,
        node,
        image=image,
        ips=ips,
        target_id=target_id(state, container),
        volumes=ready_paths(state),
        sub_paths=bound_parts(state, name, want.attempt),
    )
    if isinstance(spec, ConfigProblem):
        return refused(name, spec, now)
    attempt = next((box.attempt for box in shown if box.id == sandbox_id), 0)
    sandbox = sandbox_spec(pod, attempt, node, state.files or NodeFiles())
    if isinstance(sandbox, ConfigProblem):
        return refused(name, sandbox, now)
    create = CreateContainer(
        uid=state.uid, sandbox_id=sandbox_id, sandbox=in_group(sandbox, state), spec=spec
    )
    return Stage(calls=(runtime_call(state, create, name),), why=f"making container {name}")


def refused(name: str, problem: ConfigProblem, now: Instant) -> Stage:
    """Return the wait for a definition that can be carried out."""
    return Stage(
        why=f"waiting for a definition of container {name} that can be configured: {problem.message}",
        wake_at=looked_at_anew(now),
        waiting=((name, problem.reason, problem.message),),
    )
