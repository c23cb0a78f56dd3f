"""The steps that start one container, and the waits of containers that are not started now."""

from actors.pod.cgroup.grouping import in_group
from actors.pod.container.due import AnyContainer
from actors.pod.container.ephemeral import target_id
from actors.pod.container.hook import with_pending
from actors.pod.container.situation import Situation
from actors.pod.container.wait import Wait
from actors.pod.container.want import image_report
from actors.pod.life.stage import (
    Stage,
    config_retry_at,
    counted_memo,
    host_call,
    node_files,
    remember,
    runtime_call,
    runtime_class_read,
    services_read,
    stop,
)
from actors.pod.life.volume import bind_parts, bound_parts, ready_paths
from actors.pod.spec.containerconfig import container_files, container_spec, sandbox_spec
from actors.pod.spec.identity import own_grace_s
from actors.pod.spec.problem import ConfigProblem
from actors.pod.spec.security import RunImage
from actors.pod.state import PortCall
from api.ids import Instant
from api.messages.images import ImageWant
from api.ports.node import NodeFiles
from api.ports.runtime import (
    CreateContainer,
    RemoveContainer,
    RuntimeContainerState,
    StartContainer,
)


def waiting_stage(waits: tuple[Wait, ...], stuck: list[Stage]) -> Stage:
    """Return the stage without calls for these waits: its reason, its end, and the waiting reasons to publish."""
    timed = [wait for wait in waits if wait.until is not None]
    first = min(timed, key=lambda wait: wait.until or 0.0) if timed else waits[0] if waits else None
    wakes = [at for at in (*(w.until for w in timed), *(s.wake_at for s in stuck)) if at is not None]
    return Stage(
        why=f"waiting: {first.why}" if first is not None else stuck[0].why,
        wake_at=min(wakes, default=None),
        since_s=first.since_s if first is not None else None,
        waiting=tuple(row for stage in stuck for row in stage.waiting),
    )


def bring_up(situation: Situation, container: AnyContainer) -> Stage:
    """Return the next step of starting one container with a ready image: count it, write its files, create it, start it.

    A stage without calls: its configuration is invalid, which must not delay the containers after it.
    """
    state, name = situation.state, container.name
    newest = situation.newest(name)
    if newest is not None and newest.state is RuntimeContainerState.UNKNOWN:
        call = stop(state, newest, own_grace_s(situation.pod))
        return Stage(calls=(call,), why=f"stopping container {name} before its restart: its state is unknown")
    want = situation.wants[name]
    if newest is not None and want is None:
        step = StartContainer(uid=state.uid, container_id=newest.id)
        return Stage(calls=(runtime_call(state, step, name),), why=f"starting container {name}")
    if newest is not None and newest.state is RuntimeContainerState.CREATED:
        drop = RemoveContainer(uid=state.uid, container_id=newest.id)
        return Stage(
            calls=(runtime_call(state, drop, name),), why=f"removing container {name}: it never started"
        )
    assert want is not None
    counted = counted_memo(state, container, newest, situation.wall, want.attempt)
    memo = with_pending(counted, container, want.attempt)
    if memo != state.remembered:
        return remember(state, memo, f"recording attempt {want.attempt} of container {name}")
    return make(situation, container, want)


def make(situation: Situation, container: AnyContainer, want: ImageWant) -> Stage:
    """Return the step that creates a container, or one that prepares its files and mounts first."""
    state, pod, now = situation.state, situation.pod, situation.now
    name, node, sandbox_id = container.name, state.facts, situation.sandbox.current_id
    shown = state.observed.sandboxes if state.observed is not None else ()
    ips = next((box.ips for box in shown if box.id == sandbox_id), ())
    looking = services_read(state, name, want.attempt) or runtime_class_read(state)
    if looking is not None:
        return looking
    if node.confined and state.setup.files is None:
        return Stage(calls=(node_files(state),), why="reading the node's resolv.conf and hosts file")
    if node.confined and state.container(name).prepared != want.attempt:
        files = container_files(pod, container, want.attempt, node, state.setup.files or NodeFiles(), ips)
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
        return Stage(calls=parts, why=f"preparing the subPath mounts of container {name}")
    report = image_report(state, want)
    assert report is not None
    image = RunImage(ref=report.ref, user=report.user, user_name=report.user_name)
    spec = container_spec(
        pod,
        container,
        want.attempt,
        node,
        image=image,
        lookups=state.setup.lookups,
        ips=ips,
        target_id=target_id(state, container),
        volumes=ready_paths(state),
        sub_paths=bound_parts(state, name, want.attempt),
    )
    if isinstance(spec, ConfigProblem):
        return refused(name, spec, now)
    attempt = next((box.attempt for box in shown if box.id == sandbox_id), 0)
    sandbox = sandbox_spec(pod, attempt, node, state.setup.files or NodeFiles(), lookups=state.setup.lookups)
    if isinstance(sandbox, ConfigProblem):
        return refused(name, sandbox, now)
    create = CreateContainer(
        uid=state.uid, sandbox_id=sandbox_id, sandbox=in_group(sandbox, state), spec=spec
    )
    return Stage(calls=(runtime_call(state, create, name),), why=f"creating container {name}")


def refused(name: str, problem: ConfigProblem, now: Instant) -> Stage:
    """Return the wait for a valid configuration of a container."""
    return Stage(
        why=f"waiting for a valid configuration of container {name}: {problem.message}",
        wake_at=config_retry_at(now),
        waiting=((name, problem.reason, problem.message),),
    )
