"""Choose the next stage of a pod: the calls that may run side by side now, or what is waited for and until when.

Pure and level-triggered: sees the state, no message. `explain` shows its output on the live state.

```text
Recalling     recall memo, recall status, inspect                       (side by side)
Syncing       look? -> read last words -> folders, facts, memo -> stop what a new sandbox replaces -> sandbox -> prune
              -> stop changed -> next container: count it -> write its files -> make it -> start it
Terminating   remember the kill -> stop containers (side by side) -> read last words -> stop sandboxes -> inspect: proof
Terminated    remember that it is over
Finished      stop what came back; if deleted: sandboxes -> cgroup -> folders and logs -> forget
```
"""

from typing import assert_never

import msgspec

from actors.pod.config.ending import ending_call
from actors.pod.containerconfig import ConfigProblem, own_grace_s, sandbox_spec
from actors.pod.launch import bring_up, waiting_stage, waits_of
from actors.pod.stage import (
    CONFIG_RETRY_S,
    HOST_DEADLINE_S,
    Stage,
    grace_left_s,
    host_call,
    inspection,
    is_changed,
    look_first,
    node_files,
    paused,
    prunable,
    refusal,
    remember,
    runtime_call,
    stop,
)
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
from actors.rules.instance import is_alive, newest_of, ready_sandboxes, running
from actors.rules.loglink import link_name
from actors.rules.restart import should_start
from actors.rules.sandbox import judge, worth_making
from api.containers import (
    RemoveContainer,
    RemoveSandbox,
    RunSandbox,
    RuntimePod,
    StopSandbox,
)
from api.host import Forget, MakePodFolders, Recall, RemovePodCgroup, RemovePodFolders
from api.ids import Instant, WallNs
from api.logfile import LinkContainerLog
from api.node import DescribeNode, NodeFiles
from api.objects import pod as v1


def next_stage(state: PodState, now: Instant, wall: WallNs) -> Stage:
    """Choose the next stage as if no call were in flight."""
    stage = stage_of_life(state, now, wall)
    if stage.calls or state.rewrite_at is None or isinstance(state.life, Gone) or state.remembered is None:
        return stage
    if now < state.rewrite_at:
        wakes = [at for at in (stage.wake_at, state.rewrite_at) if at is not None]
        return msgspec.structs.replace(stage, wake_at=min(wakes))
    again = remember(state, state.remembered, "writing again what the ledger did not take")
    return msgspec.structs.replace(stage, calls=again.calls, memo=again.memo, why=again.why)


def stage_of_life(state: PodState, now: Instant, wall: WallNs) -> Stage:
    """Choose the stage that the pod's life asks for."""
    match state.life:
        case Recalling():
            return recall(state, now)
        case Syncing():
            return converge(state, now, wall)
        case Terminating(kill=kill):
            return terminate(state, kill, now, wall)
        case Terminated(kill=kill):
            held = paused(state, now)
            memo = msgspec.structs.replace(state.memo, kill=kill, terminated=True)
            return held or remember(state, memo, "making its end durable", durable=True)
        case Finished(kill=kill):
            return clean_up(state, kill, now, wall)
        case Gone():
            return Stage(why="nothing is left of it")
        case _:
            assert_never(state.life)


def recall(state: PodState, now: Instant) -> Stage:
    """Ask what the ledger and the runtime know."""
    held = paused(state, now)
    if held:
        return held
    calls = (
        PortCall(port="ledger", call=Recall(section=MEMO_SECTION, key=state.uid), deadline_s=HOST_DEADLINE_S),
        PortCall(
            port="ledger", call=Recall(section=STATUS_SECTION, key=state.uid), deadline_s=HOST_DEADLINE_S
        ),
        inspection(state),
    )
    return Stage(calls=calls, why="asking the ledger and the runtime what they know of it")


def converge(state: PodState, now: Instant, wall: WallNs) -> Stage:
    """Move the runtime one stage towards the desired pod."""
    pod, observed = state.desired, state.observed
    if pod is None:
        return Stage(why="waiting to be told what it should be")
    if observed is None or state.look:
        return look_first(state, now, "looking at what the runtime shows")
    refused = refusal(state) or paused(state, now)
    if refused:
        return refused
    ended = read_endings(state)
    if ended:
        return ended
    if not state.folders or (state.node.confined and not state.described):
        return settle_in(state)
    verdict = judge(observed, host_network=pod.spec.host_network)
    if verdict.needed:
        return renew_sandbox(state, pod, observed, verdict.attempt, verdict.why, now)
    return run_containers(state, pod, observed, verdict.current_id, now, wall)


def settle_in(state: PodState) -> Stage:
    """Do what has to be done once in the life of an actor, before its first container."""
    calls = [host_call("podfiles", MakePodFolders(uid=state.uid))]
    if state.node.confined:
        calls += [host_call("node", DescribeNode()), node_files(state)]
    memo = msgspec.structs.replace(state.memo, kill=None)
    if memo == state.remembered:
        return Stage(calls=tuple(calls), why="making its folders")
    page = remember(state, memo, "making its folders")
    return msgspec.structs.replace(page, calls=(*page.calls, *calls))


def read_endings(state: PodState) -> Stage | None:
    """Return the stage that reads the last words of what ended, None when all are known."""
    if not state.node.confined or state.observed is None:
        return None
    known = {identity for identity, _ in state.endings}
    calls = tuple(
        PortCall(port="podfiles", call=call, deadline_s=HOST_DEADLINE_S, container=instance.name)
        for instance in state.observed.containers
        if instance.id not in known and (call := ending_call(state.uid, instance)) is not None
    )
    return Stage(calls=calls, why="reading the last words of what ended") if calls else None


def renew_sandbox(
    state: PodState, pod: v1.Pod, observed: RuntimePod, attempt: int, why: str, now: Instant
) -> Stage:
    """Tear down what is left of the old sandbox, then make the new one if it would have anything to run."""
    leftovers = tuple(stop(state, c, own_grace_s(pod)) for c in running(observed))
    if leftovers:
        return Stage(calls=leftovers, why=f"stopping its containers: {why}")
    old = tuple(
        runtime_call(state, StopSandbox(uid=state.uid, sandbox_id=s.id)) for s in ready_sandboxes(observed)
    )
    if old:
        return Stage(calls=old, why=f"stopping its sandbox: {why}")
    if not worth_making(pod.spec, observed, attempt):
        return Stage(why="nothing of it is to run again", ended=True)
    if state.node.confined and state.files is None:
        return Stage(calls=(node_files(state),), why="reading the node's resolver")
    spec = sandbox_spec(pod, attempt, state.facts, state.files or NodeFiles())
    if isinstance(spec, ConfigProblem):
        return Stage(
            why=f"waiting for a sandbox that can be configured: {spec.message}",
            wake_at=now + CONFIG_RETRY_S,
            pod_reason=spec.reason,
            pod_message=spec.message,
        )
    creating = tuple((c.name, "ContainerCreating", "") for c in pod.spec.containers)
    call = runtime_call(state, RunSandbox(spec=spec))
    return Stage(calls=(call,), why=f"making its sandbox: {why}", waiting=creating)


def run_containers(
    state: PodState, pod: v1.Pod, observed: RuntimePod, sandbox_id: str, now: Instant, wall: WallNs
) -> Stage:
    """Prune what is outdated, stop what changed, then start the next container that is due, in spec order."""
    pruning = state.hold(PRUNING)
    outdated = prunable(state, pod, observed, sandbox_id)
    if outdated and (pruning is None or now >= pruning.until):
        return Stage(calls=outdated, why="removing containers that ended before the last one")
    changed = tuple(
        stop(state, newest, own_grace_s(pod))
        for c in pod.spec.containers
        if (newest := newest_of(observed, c.name)) and is_changed(c, newest)
    )
    if changed:
        return Stage(calls=changed, why="stopping containers whose definition changed")
    waits = waits_of(state, now, wall)
    waiting = {wait.container for wait in waits}
    stuck: list[Stage] = []
    for container in pod.spec.containers:
        newest = newest_of(observed, container.name)
        if container.name in waiting or not should_start(pod.spec, container, newest):
            continue
        stage = bring_up(state, pod, container, newest, sandbox_id, now, wall)
        if stage.calls:
            return stage
        stuck.append(stage)
    links = log_links(state, observed)
    if links:
        return Stage(calls=links, why="linking the logs of its containers")
    if waits or stuck:
        return waiting_stage(waits, stuck)
    return Stage(why="all its containers run" if running(observed) else "nothing is due")


def log_links(state: PodState, observed: RuntimePod) -> tuple[PortCall, ...]:
    """Return the calls that link the logs of what runs, where collectors of logs look for them."""
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
        if instance.log_path and instance.id not in state.linked
    )


def terminate(state: PodState, kill: Kill, now: Instant, wall: WallNs) -> Stage:
    """Stop everything, prove it, in this order: durable intent, containers, sandboxes, proof."""
    if state.remembered is None or state.remembered.kill != kill:
        memo = msgspec.structs.replace(state.memo, kill=kill)
        return paused(state, now) or remember(state, memo, "making the kill durable", durable=True)
    if state.observed is None or state.look:
        return look_first(state, now, "looking at what still runs")
    held = paused(state, now)
    if held:
        return held
    alive = running(state.observed)
    if alive:
        left_s = grace_left_s(kill, wall)
        calls = tuple(stop(state, c, left_s) for c in alive)
        return Stage(calls=calls, why=f"stopping its containers with {left_s} s of grace")
    ended = read_endings(state)
    if ended:
        return ended
    sandboxes = ready_sandboxes(state.observed)
    if sandboxes:
        calls = tuple(runtime_call(state, StopSandbox(uid=state.uid, sandbox_id=s.id)) for s in sandboxes)
        return Stage(calls=calls, why="stopping its sandbox")
    return Stage(calls=(inspection(state),), why="proving that nothing of it runs")


def clean_up(state: PodState, kill: Kill, now: Instant, wall: WallNs) -> Stage:
    """Remove everything of a deleted pod; keep records and logs of any other."""
    if state.observed is None or state.look:
        return look_first(state, now, "looking at what is left of it")
    held = paused(state, now)
    if held:
        return held
    if is_alive(state.observed):
        # A start whose outcome was unknown may take effect after everything was proven stopped.
        return stop_again(state, kill, wall)
    if not (kill.deleted or kill.evict):
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
        return Stage(calls=calls, why="removing its containers, whose sandbox is gone")
    if not kill.deleted:
        return Stage(why="evicted; its status is kept until it is removed from its source")
    if state.memo.cgroup_parent and not state.ungrouped:
        group = RemovePodCgroup(cgroup_parent=state.memo.cgroup_parent)
        return Stage(calls=(host_call("cgroups", group),), why="removing its cgroup")
    if not state.cleaned:
        call = RemovePodFolders(uid=state.uid, log_directory=state.memo.log_directory)
        return Stage(calls=(host_call("podfiles", call),), why="removing its folders and logs")
    # The page goes last: it is what tells the next life of the agent that there is something left to remove.
    forget = Forget(section=MEMO_SECTION, key=state.uid)
    return Stage(calls=(host_call("ledger", forget),), why="removing its page in the ledger")


def stop_again(state: PodState, kill: Kill, wall: WallNs) -> Stage:
    """Stop what runs of a pod whose life is over."""
    alive = running(state.observed)
    if alive:
        calls = tuple(stop(state, c, grace_left_s(kill, wall)) for c in alive)
        return Stage(calls=calls, why="stopping containers that came back after the pod had ended")
    calls = tuple(
        runtime_call(state, StopSandbox(uid=state.uid, sandbox_id=s.id))
        for s in ready_sandboxes(state.observed)
    )
    return Stage(calls=calls, why="stopping a sandbox that came back after the pod had ended")
