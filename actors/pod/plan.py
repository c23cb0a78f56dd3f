"""Choose the next stage of a pod: the calls that may run side by side now, or what is waited for and until when.

Pure and level-triggered: sees the state, no message. `explain` shows its output on the live state.

```text
Recalling     recall memo, recall status, inspect                       (side by side)
Syncing       look? -> folders -> stop what a new sandbox replaces -> sandbox -> prune -> stop changed -> next container
Terminating   remember the kill -> stop containers (side by side) -> stop sandboxes -> inspect: proof
Terminated    remember that it is over
Finished      stop what came back; if deleted: sandboxes -> folders and logs -> forget
```
"""

from typing import assert_never

import msgspec

from actors.pod.containerconfig import (
    ConfigProblem,
    container_spec,
    own_grace_s,
    sandbox_spec,
)
from actors.pod.stage import (
    HOST_DEADLINE_S,
    NS,
    Stage,
    counted_memo,
    crash_text,
    crash_wait_s,
    grace_left_s,
    host_call,
    inspection,
    is_changed,
    look_first,
    paused,
    prunable,
    remember,
    runtime_call,
    stop,
    tries,
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
from actors.pod.status import next_attempt, status_named
from actors.pod.support import refused_host_image, unsupported_paths
from actors.rules.instance import is_alive, newest_of, ready_sandboxes, running
from actors.rules.restart import should_start
from actors.rules.sandbox import judge, worth_making
from api.containers import (
    Container,
    ContainerState,
    CreateContainer,
    RemoveContainer,
    RemoveSandbox,
    RunSandbox,
    RuntimePod,
    StartContainer,
    StopSandbox,
)
from api.host import Forget, MakePodFolders, Recall, RemovePodFolders
from api.ids import Instant, WallNs
from api.objects import pod as v1


class Wait(msgspec.Struct, frozen=True, kw_only=True):
    """A container that is to be started, but not now."""

    container: str
    until: Instant
    since_s: float
    reason: str
    """Waiting reason to publish."""
    message: str
    why: str


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
    unsupported = unsupported_paths(pod, confined=state.node.confined)
    if unsupported:
        what = ", ".join(unsupported)
        message = f"this agent does not honour {what} yet; remove it, or run the pod on another node"
        return Stage(
            why=f"waiting for a spec that this agent honours: {what}",
            pod_reason="Unsupported",
            pod_message=message,
        )
    refused = refused_host_image(pod, state.source, allowed=state.allow_host_image)
    if refused:
        return Stage(
            why="waiting for a spec that this node accepts",
            pod_reason="HostImageNotAllowed",
            pod_message=refused,
        )
    held = paused(state, now)
    if held:
        return held
    if not state.folders:
        call = MakePodFolders(uid=state.uid)
        return Stage(calls=(host_call("podfiles", call),), why="making its folders")
    verdict = judge(observed, host_network=pod.spec.host_network)
    if verdict.needed:
        return renew_sandbox(state, pod, observed, verdict.attempt, verdict.why)
    return run_containers(state, pod, observed, verdict.current_id, now, wall)


def renew_sandbox(state: PodState, pod: v1.Pod, observed: RuntimePod, attempt: int, why: str) -> Stage:
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
    spec = sandbox_spec(pod, attempt, state.facts, state.files)
    if isinstance(spec, ConfigProblem):
        why = f"waiting for a sandbox that can be configured: {spec.message}"
        return Stage(why=why, pod_reason=spec.reason, pod_message=spec.message)
    creating = tuple((c.name, "ContainerCreating", "") for c in pod.spec.containers)
    call = runtime_call(state, RunSandbox(spec=spec))
    return Stage(calls=(call,), why=f"making its sandbox: {why}", waiting=creating)


def run_containers(
    state: PodState, pod: v1.Pod, observed: RuntimePod, sandbox_id: str, now: Instant, wall: WallNs
) -> Stage:
    """Prune what is outdated, stop what changed, then start the next container that is due, in spec order."""
    pruning = state.hold(PRUNING)
    outdated = prunable(pod, observed, sandbox_id)
    if outdated and (pruning is None or now >= pruning.until):
        calls = tuple(runtime_call(state, call) for call in outdated)
        return Stage(calls=calls, why="removing containers that ended before the last one")
    changed = tuple(
        stop(state, newest, own_grace_s(pod))
        for c in pod.spec.containers
        if (newest := newest_of(observed, c.name)) and is_changed(c, newest)
    )
    if changed:
        return Stage(calls=changed, why="stopping containers whose definition changed")
    waits = waits_of(state, now, wall)
    waiting = {wait.container for wait in waits}
    for container in pod.spec.containers:
        newest = newest_of(observed, container.name)
        if container.name not in waiting and should_start(pod.spec, container, newest):
            attempt = next_attempt(newest, status_named(state.base, container.name))
            return bring_up(state, pod, container, newest, sandbox_id, attempt, wall)
    if waits:
        first = min(waits, key=lambda wait: wait.until)
        return Stage(why=f"waiting: {first.why}", wake_at=first.until, since_s=first.since_s)
    return Stage(why="all its containers run" if running(observed) else "nothing is due")


def waits_of(state: PodState, now: Instant, wall: WallNs) -> tuple[Wait, ...]:
    """Return the containers that are to be started but wait: after failed tries, or in crash-loop back-off."""
    pod, observed = state.desired, state.observed
    waits: list[Wait] = []
    for container in pod.spec.containers if pod is not None else ():
        name = container.name
        newest = newest_of(observed, name)
        if pod is None or not should_start(pod.spec, container, newest):
            continue
        hold = state.hold(name)
        if hold is not None and now < hold.until:
            wait = Wait(
                container=name,
                until=hold.until,
                since_s=max(0.0, now - hold.since),
                reason=hold.reason,
                message=hold.message,
                why=f"trying container {name} again after {tries(hold.failures)}: {hold.message}",
            )
            waits.append(wait)
            continue
        attempt = next_attempt(newest, status_named(state.base, name))
        left_s = crash_wait_s(state, name, newest, wall, attempt)
        if newest is None or newest.finished_at is None or left_s <= 0:
            continue
        wait = Wait(
            container=name,
            until=now + left_s,
            since_s=max(0, wall - newest.finished_at) / NS,
            reason="CrashLoopBackOff",
            message=crash_text(state, pod, name),
            why=f"back-off of container {name}, which ended with exit code {newest.exit_code}, before restart {attempt}",
        )
        waits.append(wait)
    return tuple(waits)


def bring_up(
    state: PodState,
    pod: v1.Pod,
    container: v1.Container,
    newest: Container | None,
    sandbox_id: str,
    attempt: int,
    wall: WallNs,
) -> Stage:
    """Return the next step of starting one container: count it, make it, start it."""
    name = container.name
    if newest is not None and newest.state is ContainerState.UNKNOWN:
        call = stop(state, newest, own_grace_s(pod))
        return Stage(
            calls=(call,), why=f"stopping container {name}, whose state is unknown, before its restart"
        )
    if newest is not None and newest.state is ContainerState.CREATED:
        hold = state.hold(name)
        refused = hold is not None and hold.instance == newest.id
        if newest.sandbox_id == sandbox_id and not is_changed(container, newest) and not refused:
            step = StartContainer(uid=state.uid, container_id=newest.id)
            return Stage(calls=(runtime_call(state, step, name),), why=f"starting container {name}")
        drop = RemoveContainer(uid=state.uid, container_id=newest.id)
        return Stage(
            calls=(runtime_call(state, drop, name),), why=f"removing container {name}, which never started"
        )
    memo = counted_memo(state, name, newest, wall, attempt)
    if memo != state.remembered:
        return remember(state, memo, f"remembering restart {attempt} of container {name}")
    shown = state.observed.sandboxes if state.observed is not None else ()
    ips = next((box.ips for box in shown if box.id == sandbox_id), ())
    spec = container_spec(pod, container, attempt, state.facts, ips=ips)
    if isinstance(spec, ConfigProblem):
        why = f"waiting for a definition of container {name} that can be configured: {spec.message}"
        return Stage(why=why, waiting=((name, spec.reason, spec.message),))
    create = CreateContainer(uid=state.uid, sandbox_id=sandbox_id, spec=spec)
    return Stage(calls=(runtime_call(state, create, name),), why=f"making container {name}")


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
