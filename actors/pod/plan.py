"""Choose the next stage of a pod: the calls that may run side by side now, or the next wait and its end.

Pure and level-triggered: sees the state, no message. `explain` shows its output on the live state.

```text
Recalling     recall memo, recall status, inspect                       (side by side)
Syncing       the first of `SYNC_STEPS` that has something to do, or to wait for
Terminating   record the kill -> stop containers (side by side) -> read termination messages -> stop sandboxes -> inspect
Terminated    record the end -> remove its volumes
Finished      stop what started late; volumes; if deleted: sandboxes -> cgroup -> folders and logs -> ledger record
```
"""

from collections.abc import Callable
from typing import assert_never

import msgspec

from actors.pod.cgroup.grouping import (
    former_group,
    group_calls,
    groups_to_remove,
    in_group,
    is_grouped,
    retry_limits,
)
from actors.pod.cgroup.resize import ResizeStep, resize_stage
from actors.pod.container.dropped import remove_dropped
from actors.pod.container.hook import blocking_hook, hooks_text
from actors.pod.container.launch import bring_up, waiting_stage
from actors.pod.container.probe import unready_text
from actors.pod.container.renewal import restarts_to_record
from actors.pod.container.restartall import restart_all
from actors.pod.container.situation import Situation
from actors.pod.container.stop import container_stop, sidecar_names, stops, with_pre_stop_records
from actors.pod.container.turn import awaited_stage, ended_stage, purge_init_containers
from actors.pod.life.repeat import spaced
from actors.pod.life.stage import (
    HOST_DEADLINE_S,
    NS,
    Stage,
    config_retry_at,
    grace_left_s,
    host_call,
    inspection,
    inspection_stage,
    node_files,
    pod_backoff,
    prunable,
    refusal,
    remember,
    runtime_call,
    runtime_class_read,
    sandbox_stops,
    stop,
)
from actors.pod.life.volume import prepare_volumes, remove_volumes
from actors.pod.spec.containerconfig import sandbox_spec
from actors.pod.spec.ending import termination_message_call
from actors.pod.spec.identity import own_grace_s
from actors.pod.spec.problem import ConfigProblem
from actors.pod.state import (
    MEMO_SECTION,
    PRUNING,
    STATUS_SECTION,
    Finished,
    Gone,
    Kill,
    PodState,
    PortCall,
    Recalling,
    Syncing,
    Terminated,
    Terminating,
)
from actors.pod.status.initstatus import rows_being_created
from actors.rules.container.instance import is_alive, running
from actors.rules.container.loglink import link_name
from actors.rules.container.role import in_order, sidecars
from actors.rules.container.sandbox import worth_making
from api.ids import Instant, WallNs
from api.kube.objects import pod as v1
from api.kube.objects.container import EphemeralContainer
from api.ports.ledger import Forget, Recall
from api.ports.logs import LinkContainerLog
from api.ports.node import NodeFiles
from api.ports.podfiles import MakePodFolders, RemovePodFolders
from api.ports.runtime import (
    RemoveContainer,
    RemoveSandbox,
    RunSandbox,
    RuntimePod,
)


def next_stage(situation: Situation) -> Stage:
    """Choose the next stage as if no call were in flight."""
    state, now = situation.state, situation.now
    stage = spaced(state, stage_of_life(situation), now)
    again = rewriting(state)
    if stage.calls or again is None or state.rewrite_at is None:
        return stage
    if now < state.rewrite_at:
        wakes = [at for at in (stage.wake_at, state.rewrite_at) if at is not None]
        return msgspec.structs.replace(stage, wake_at=min(wakes))
    return msgspec.structs.replace(stage, calls=again.calls, memo=again.memo, why=again.why)


def rewriting(state: PodState) -> Stage | None:
    """Return the stage that retries a failed write to the ledger, None when none failed."""
    if state.rewrite_at is None or isinstance(state.life, Gone) or state.remembered is None:
        return None
    return remember(state, state.memo, "retrying a failed write to the ledger")


def stage_of_life(situation: Situation) -> Stage:
    """Choose the stage for the pod's life."""
    state, now, wall = situation.state, situation.now, situation.wall
    match state.life:
        case Recalling():
            return recall(state, now)
        case Syncing():
            return sync(situation)
        case Terminating(kill=kill):
            return terminate(state, kill, now, wall)
        case Terminated(kill=kill):
            backing_off = pod_backoff(state, now)
            memo = msgspec.structs.replace(state.memo, kill=kill, terminated=True)
            if backing_off is None and memo == state.remembered:
                return remove_volumes(state) or Stage(why="the end of the pod is recorded")
            return backing_off or remember(state, memo, "recording the end of the pod", durable=True)
        case Finished():
            return clean_up(state, state.life, now, wall)
        case Gone():
            return Stage(why="everything is removed")
        case _:
            assert_never(state.life)


def recall(state: PodState, now: Instant) -> Stage:
    """Read ledger and runtime."""
    backing_off = pod_backoff(state, now)
    if backing_off:
        return backing_off
    calls = (
        PortCall(port="ledger", call=Recall(section=MEMO_SECTION, key=state.uid), deadline_s=HOST_DEADLINE_S),
        PortCall(
            port="ledger", call=Recall(section=STATUS_SECTION, key=state.uid), deadline_s=HOST_DEADLINE_S
        ),
        inspection(state),
    )
    return Stage(calls=calls, why="reading ledger and runtime")


# ---------------------------------------------------------------- the steps of a sync


def sync(situation: Situation) -> Stage:
    """Move the runtime one stage towards the desired pod: the first step that has something to do, or to wait for."""
    for step in SYNC_STEPS:
        stage = step(situation)
        if stage is not None:
            return msgspec.structs.replace(stage, step=step.__name__)
    raise AssertionError("the last step always has a stage")


def wait_for_spec(situation: Situation) -> Stage | None:
    """Wait for the pod's spec."""
    return Stage(why="waiting for its spec") if situation.effective is None else None


def inspect(situation: Situation) -> Stage | None:
    """Inspect the runtime where its state is uncertain."""
    state = situation.state
    if state.observed is not None and not state.view.must_inspect:
        return None
    return inspection_stage(state, situation.now, "inspecting the runtime")


def refuse_unsupported(situation: Situation) -> Stage | None:
    """Wait for a supported spec."""
    return refusal(situation.state)


def back_off(situation: Situation) -> Stage | None:
    """Wait out the back-off of the pod as a whole."""
    return pod_backoff(situation.state, situation.now)


def read_termination_messages(situation: Situation) -> Stage | None:
    """Read the termination messages of ended containers."""
    return termination_message_reads(situation.state)


def leave_former_cgroup(situation: Situation) -> Stage | None:
    """Stop what runs in a former cgroup of the pod: it cannot be moved alive."""
    state, now, wall = situation.state, situation.now, situation.wall
    old = former_group(state)
    if not old:
        return None
    why = f"its cgroup changes from {old} to {state.memo.cgroup_parent}"
    # The memo must keep the former cgroup until nothing runs there.
    memo = msgspec.structs.replace(state.memo, cgroup_parent=old)
    there = msgspec.structs.replace(state, memo=memo)
    leave = tuple(container_stop(one, own_grace_s(situation.pod)) for one in running(situation.observed))
    stopping = stops(there, leave, now, wall, why=f"stopping its containers: {why}")
    if stopping is not None:
        return stopping
    boxes = sandbox_stops(state)
    return Stage(calls=boxes, why=f"stopping its sandbox: {why}") if boxes else None


def set_up(situation: Situation) -> Stage | None:
    """Create the pod's folders and cgroup, write its first memo."""
    state = situation.state
    if state.setup.folders and is_grouped(state, situation.resize_steps):
        return None
    return settle_in(state, situation.resize_steps)


def mount_volumes(situation: Situation) -> Stage | None:
    """Prepare the pod's volumes."""
    return prepare_volumes(situation.state, situation.pod)


def renew_sandbox(situation: Situation) -> Stage | None:
    """Stop the old sandbox, then create a new one if a container would run in it."""
    verdict = situation.sandbox
    if not verdict.needed:
        return None
    state, pod, observed, why = situation.state, situation.pod, situation.observed, verdict.why
    leftovers = tuple(container_stop(c, own_grace_s(pod)) for c in running(observed))
    stopping = stops(state, leftovers, situation.now, situation.wall, why=f"stopping its containers: {why}")
    if stopping is not None:
        return stopping
    old = sandbox_stops(state)
    if old:
        return Stage(calls=old, why=f"stopping its sandbox: {why}")
    if not worth_making(pod.spec, observed, verdict.attempt):
        return Stage(why="no container will run again", ended=True)
    outdated = purge_init_containers(situation, "")
    if outdated:
        return outdated
    if state.node.confined and state.setup.files is None:
        return Stage(calls=(node_files(state),), why="reading the node's resolv.conf")
    looking = runtime_class_read(state)
    if looking is not None:
        return looking
    files, lookups = state.setup.files or NodeFiles(), state.setup.lookups
    spec = sandbox_spec(pod, verdict.attempt, state.facts, files, lookups=lookups)
    if isinstance(spec, ConfigProblem):
        return Stage(
            why=f"waiting for a valid configuration of its sandbox: {spec.message}",
            wake_at=config_retry_at(situation.now),
            pod_reason=spec.reason,
            pod_message=spec.message,
        )
    call = runtime_call(state, RunSandbox(spec=in_group(spec, state)))
    return Stage(calls=(call,), why=f"creating its sandbox: {why}", waiting=rows_being_created(pod.spec))


def restart_all_containers(situation: Situation) -> Stage | None:
    """Restart every container in place, where the restart rule of an ended one asks for it."""
    return restart_all(situation)


def end_pod(situation: Situation) -> Stage | None:
    """End a pod of which only sidecars run, or whose init container failed for good."""
    return ended_stage(situation.progress)


def remove_old_init_containers(situation: Situation) -> Stage | None:
    """Remove the init containers of an earlier sandbox."""
    return purge_init_containers(situation, situation.sandbox.current_id)


def remove_dropped_containers(situation: Situation) -> Stage | None:
    """Remove ended containers that are no longer in the spec."""
    return remove_dropped(situation.state, situation.pod, situation.now)


def prune_instances(situation: Situation) -> Stage | None:
    """Remove dead instances, except the last two of each container."""
    state, now = situation.state, situation.now
    pruning = state.call_backoff(PRUNING)
    outdated = prunable(state, situation.pod, situation.observed, situation.sandbox.current_id)
    if not outdated or (pruning is not None and now < pruning.retry.at):
        return None
    stage = Stage(calls=outdated, why="removing old containers and sandboxes")
    return stage if spaced(state, stage, now).calls else None


def record_restarts(situation: Situation) -> Stage | None:
    """Record which containers are stopped to be restarted."""
    return restarts_to_record(situation) if situation.containers_to_stop else None


def stop_containers(situation: Situation) -> Stage | None:
    """Stop containers that must not run on: changed, failed a probe, dropped, or restarted for a resize."""
    stopping = outgoing_stops(situation)
    return stopping if stopping is not None and stopping.calls else None


def resize_in_place(situation: Situation) -> Stage | None:
    """Resize running containers and the pod's cgroup in place."""
    state, now, due = situation.state, situation.now, situation.resize_steps
    confining = resize_stage(state, due, now) or retry_limits(state, situation.pod, due, now)
    return confining if confining and spaced(state, confining, now).calls else None


def start_container(situation: Situation) -> Stage | None:
    """Start the next container, in spec order."""
    return start_next(situation)[0]


def tidy_up(situation: Situation) -> Stage | None:
    """Link container logs, record which hooks are done."""
    return link_logs_and_record_hooks(situation.state, situation.observed)


def await_start(situation: Situation) -> Stage | None:
    """Wait for what delays the containers to start."""
    _, stuck = start_next(situation)
    return waiting_stage(situation.waits, stuck) if situation.waits or stuck else None


def await_stops(situation: Situation) -> Stage | None:
    """Wait for the hooks of containers to stop."""
    return outgoing_stops(situation)


def rest(situation: Situation) -> Stage:
    """Wait for an init container or a probe, or for nothing."""
    awaited = awaited_stage(situation)
    beside = situation.progress.awaited in {one.name for one in sidecars(situation.pod.spec)}
    unready = unready_text(situation.state, situation.now)
    if unready is not None and (awaited is None or beside):
        return Stage(why=f"waiting: {unready[0]}", since_s=unready[1])
    runs = running(situation.observed)
    return awaited or Stage(why="all containers run" if runs else "nothing to do")


SYNC_STEPS: tuple[Callable[[Situation], Stage | None], ...] = (
    wait_for_spec,
    inspect,
    refuse_unsupported,
    back_off,
    read_termination_messages,
    leave_former_cgroup,
    set_up,
    mount_volumes,
    renew_sandbox,
    restart_all_containers,
    end_pod,
    remove_old_init_containers,
    remove_dropped_containers,
    prune_instances,
    record_restarts,
    stop_containers,
    resize_in_place,
    start_container,
    tidy_up,
    await_start,
    await_stops,
    rest,
)
"""The steps of a sync in this order: the first one that returns a stage is next."""


def start_next(situation: Situation) -> tuple[Stage | None, list[Stage]]:
    """Return the stage that starts a container, None without one, and the waits of containers that cannot be started."""
    state, now = situation.state, situation.now
    waiting = {wait.container for wait in situation.waits}
    reach, stuck = within_reach(state, situation.pod, now)
    for container in situation.containers_to_start:
        regular = not isinstance(container, EphemeralContainer)
        if container.name in waiting or (regular and container.name not in reach):
            continue
        stage = spaced(state, bring_up(situation, container), now)
        if stage.calls:
            rows = tuple(row for other in stuck for row in other.waiting)
            return msgspec.structs.replace(stage, waiting=(*rows, *stage.waiting)), stuck
        stuck.append(stage)
    return None, stuck


def settle_in(state: PodState, due: tuple[ResizeStep, ...]) -> Stage:
    """Return the stage that sets the pod up: once for each incarnation, before its first container.

    The folder comes before the cgroup: on a full disk it is all that names the pod to the next life of the agent. A former
    cgroup is removed no later than the memo that names the new one is written: afterwards nothing would name it.
    """
    calls: list[PortCall] = []
    why = "updating the limits of its cgroup" if state.setup.grouped else "creating its cgroup"
    if state.setup.folders or former_group(state):
        calls += group_calls(state, due)
    if not state.setup.folders:
        why = "creating its folders"
        calls.append(host_call("podfiles", MakePodFolders(uid=state.uid)))
    if state.node.confined and state.setup.files is None:
        calls.append(node_files(state))
    memo = msgspec.structs.replace(state.memo, kill=None)
    if memo == state.remembered:
        return Stage(calls=tuple(calls), why=why)
    write = remember(state, memo, why)
    return msgspec.structs.replace(write, calls=(*write.calls, *calls))


def termination_message_reads(state: PodState) -> Stage | None:
    """Return the stage that reads the termination messages of ended containers, None when all are known."""
    if not state.node.confined or state.observed is None:
        return None
    calls = tuple(
        PortCall(port="podfiles", call=call, deadline_s=HOST_DEADLINE_S, container=instance.name)
        for instance in state.observed.containers
        if state.instance(instance.id).termination_message is None
        and (call := termination_message_call(state.uid, instance)) is not None
    )
    return Stage(calls=calls, why="reading termination messages") if calls else None


def outgoing_stops(situation: Situation) -> Stage | None:
    """Return the stop of containers that must not run on, or the wait for their hooks; None without any.

    The order of stops is for the end of a pod: a container that is replaced meanwhile waits for no other.
    """
    leave = situation.containers_to_stop
    why = "stopping containers that must not run on"
    return stops(situation.state, leave, situation.now, situation.wall, why=why, sidecars_last=False)


def within_reach(state: PodState, pod: v1.Pod, now: Instant) -> tuple[frozenset[str], list[Stage]]:
    """Return the names that may be started, and the wait of the others: for the postStart hook of one before them."""
    containers = in_order(pod.spec)
    for index, container in enumerate(containers):
        record = blocking_hook(state, container)
        if record is None:
            continue
        what = (
            hooks_text(state, now, (container.name,)) or f"the postStart hook of container {container.name}"
        )
        if record.failure:
            what = f"container {container.name} to exit: its postStart hook failed"
        return frozenset(c.name for c in containers[:index]), [Stage(why=f"waiting for {what}")]
    return frozenset(c.name for c in containers), []


def link_logs_and_record_hooks(state: PodState, observed: RuntimePod) -> Stage | None:
    """Return the stage that links container logs or records which hooks are done, None when both are done."""
    links = log_links(state, observed)
    if links:
        return Stage(calls=links, why="linking container logs")
    if state.remembered is not None and state.remembered.hooks != state.memo.hooks:
        memo = msgspec.structs.replace(state.memo, kill=None)
        return remember(state, memo, "recording which hooks are done")
    return None


def log_links(state: PodState, observed: RuntimePod) -> tuple[PortCall, ...]:
    """Return the calls that link the logs of running containers into the folder that log collectors read."""
    if not state.node.confined:
        return ()
    return tuple(
        PortCall(
            port="podfiles",
            call=LinkContainerLog(
                name=link_name(observed.name, observed.namespace, instance.name, instance.id),
                log_path=instance.log_path,
            ),
            deadline_s=HOST_DEADLINE_S,
            container=instance.id,
        )
        for instance in running(observed)
        if instance.log_path and not state.instance(instance.id).linked
    )


def terminate(state: PodState, kill: Kill, now: Instant, wall: WallNs) -> Stage:
    """Stop everything: record the kill, stop containers, then sandboxes, then inspect to prove it."""
    left_s = grace_left_s(kill, wall)
    leave = tuple(container_stop(c, left_s) for c in running(state.observed))
    if state.remembered is None or state.remembered.kill != kill:
        memo = with_pre_stop_records(state, msgspec.structs.replace(state.memo, kill=kill), leave, wall)
        return pod_backoff(state, now) or remember(state, memo, "recording the kill", durable=True)
    if state.observed is None or state.view.must_inspect:
        return inspection_stage(state, now, "inspecting what still runs")
    backing_off = pod_backoff(state, now)
    if backing_off:
        return backing_off
    sidecars_last = wall < kill.stop_by
    why = f"stopping its containers, {left_s} s of grace period left"
    stopping = stops(state, leave, now, wall, why=why, sidecars_last=sidecars_last)
    if stopping is not None:
        # Hooks have alarms of their own; a sidecar waits for other containers no longer than this.
        timed = sidecar_names(state) and sidecars_last
        used_up = now + (kill.stop_by - wall) / NS if timed else None
        return msgspec.structs.replace(stopping, wake_at=used_up)
    ended = termination_message_reads(state)
    if ended:
        return ended
    sandboxes = sandbox_stops(state)
    if sandboxes:
        return Stage(calls=sandboxes, why="stopping its sandbox")
    return Stage(calls=(inspection(state),), why="checking that everything is stopped")


def clean_up(state: PodState, life: Finished, now: Instant, wall: WallNs) -> Stage:
    """Remove everything of a deleted pod, the runtime's records of an evicted one; keep records and logs of any other.

    Under disk pressure only the status is kept.
    """
    kill = life.kill
    if state.observed is None or state.view.must_inspect:
        return inspection_stage(state, now, "inspecting what must be removed")
    backing_off = pod_backoff(state, now)
    if backing_off:
        return backing_off
    if is_alive(state.observed):
        # A start whose outcome was unknown may take effect after everything was proven stopped.
        return stop_again(state, kill, wall)
    volumes = remove_volumes(state)
    if volumes:
        return volumes
    if not (kill.deleted or kill.evict or life.clear):
        return Stage(why="finished; kept until it is removed from its source")
    if state.observed.sandboxes:
        calls = tuple(
            runtime_call(state, RemoveSandbox(uid=state.uid, sandbox_id=s.id))
            for s in state.observed.sandboxes
        )
        return Stage(calls=calls, why="removing its sandbox")
    if state.observed.containers:
        calls = tuple(
            runtime_call(state, RemoveContainer(uid=state.uid, container_id=c.id))
            for c in state.observed.containers
        )
        return Stage(calls=calls, why="removing containers without a sandbox")
    if kill.deleted:
        return leave_nothing(state, life)
    cleared = clear_node(state, life, ": the node is short of disk") if life.clear else None
    word = "evicted" if kill.evict else "finished"
    return cleared or Stage(why=f"{word}; its status is kept until it is removed from its source")


def clear_node(state: PodState, life: Finished, reason: str = "") -> Stage | None:
    """Return the stage that removes a pod's cgroup, then its folders, which record the cgroup; None when both are removed."""
    groups = () if life.ungrouped else groups_to_remove(state)
    if groups:
        return Stage(calls=groups, why=f"removing its cgroup{reason}")
    if not life.cleaned:
        return Stage(calls=(folder_removal(state),), why=f"removing its folders and logs{reason}")
    return None


def leave_nothing(state: PodState, life: Finished) -> Stage:
    """Remove what the node has of a deleted pod after the runtime's records: cgroup, folders, logs, ledger record."""
    cleared = clear_node(state, life)
    if cleared:
        return cleared
    # The record goes last: from it the next life of the agent knows that it must clean up. Durably, as it was written:
    # a static pod comes back under its UID, and after a power failure the old record would end it at once.
    forget = Forget(section=MEMO_SECTION, key=state.uid, durable=True)
    return Stage(calls=(host_call("ledger", forget),), why="removing its record from the ledger")


def folder_removal(state: PodState) -> PortCall:
    """Return the call that removes a pod's folders and logs."""
    # The record was lost and the sandbox is gone: the logs are found by UID.
    logs = state.memo.log_directory
    return host_call("podfiles", RemovePodFolders(uid=state.uid, log_directory=logs, find_logs=not logs))


def stop_again(state: PodState, kill: Kill, wall: WallNs) -> Stage:
    """Stop containers or sandboxes that started after the end of the pod."""
    alive = running(state.observed)
    if alive:
        calls = tuple(stop(state, c, grace_left_s(kill, wall)) for c in alive)
        return Stage(calls=calls, why="stopping containers that started after the end of the pod")
    why = "stopping a sandbox that became ready after the end of the pod"
    return Stage(calls=sandbox_stops(state), why=why)
