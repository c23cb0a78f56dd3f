"""Stages of a pod's life and the functions that build them.

A stage is a set of calls that may run side by side; the next one waits for all their outcomes.
"""

import math

import msgspec

from actors.pod.spec.cgroup import settled_parent
from actors.pod.spec.identity import container_hash, log_directory
from actors.pod.spec.support import refused_host_image, unsupported_paths
from actors.pod.state import (
    MEMO_SECTION,
    Kill,
    PodMemo,
    PodState,
    PortCall,
)
from actors.rules.container.backoff import Backoff, backoff_key, counted, wait_s
from actors.rules.container.instance import instances_of
from actors.rules.container.loglink import link_name
from actors.rules.container.role import in_order
from actors.rules.resources.request import is_static
from api.duration import write
from api.ids import Instant, WallNs
from api.kube.objects import pod as v1
from api.ports.kube import ReadRuntimeClass, ReadServices
from api.ports.ledger import Remember
from api.ports.logs import RemoveContainerLogs
from api.ports.podfiles import ReadNodeFiles
from api.ports.runtime import (
    ANNOTATION_HASH,
    QUEUE_S,
    QUEUED,
    SANDBOX_TIMES,
    InspectPod,
    RemoveContainer,
    RemoveSandbox,
    RunSandbox,
    RuntimeContainer,
    RuntimeContainerState,
    RuntimePod,
    SandboxState,
    StopContainer,
    StopSandbox,
)

MIN_STOP_S = 2
"""Minimum grace of a stop whose grace is zero or over: less would kill before the runtime cleaned up."""
HOST_DEADLINE_S = 30.0
CONFIG_RETRY_S = 10.0
"""Time after which an invalid configuration is retried: files of the node may have changed."""
NS = 1_000_000_000


class Stage(msgspec.Struct, frozen=True, kw_only=True):
    """What to do next. No calls: nothing to do before `wake_at` or a change."""

    calls: tuple[PortCall, ...] = ()
    why: str = ""
    """In words: the purpose of the calls, or what the pod waits for."""
    step: str = ""
    """Name of its step of a sync, empty for any other stage."""
    wake_at: Instant | None = None
    since_s: float | None = None
    """How long the wait has lasted, where that is known."""
    memo: PodMemo | None = None
    """The memo that the calls make durable."""
    waiting: tuple[tuple[str, str, str], ...] = ()
    """Container, reason, message: the waiting reasons to publish."""
    ended: bool = False
    """No container of the pod runs or will run again."""
    pod_reason: str = ""
    pod_message: str = ""


def refusal(state: PodState) -> Stage | None:
    """Return the wait for a supported spec, None when this one is."""
    pod = state.desired
    if pod is None:
        return None
    unsupported = unsupported_paths(pod, confined=state.node.confined)
    if unsupported:
        what = ", ".join(unsupported)
        be, them = ("is", "it") if len(unsupported) == 1 else ("are", "them")
        whose = "this agent" if unsupported == unsupported_paths(pod, confined=True) else "this runtime"
        return Stage(
            why=f"waiting for a spec without {what}",
            pod_reason="Unsupported",
            pod_message=f"{what} {be} not supported by {whose}; remove {them}, or run the pod on another node",
        )
    refused = refused_host_image(pod, state.wanted.source, allowed=state.settings.allow_host_image)
    if refused:
        return Stage(
            why="waiting for a spec without host images",
            pod_reason="HostImageNotAllowed",
            pod_message=refused,
        )
    return None


def pod_backoff(state: PodState, now: Instant) -> Stage | None:
    """Return the wait of a pod in back-off after a failed call, None when it is not."""
    backoff = state.call_backoff("")
    if backoff is None or now >= backoff.retry.at:
        return None
    names = [c.name for c in in_order(state.desired.spec)] if state.desired else []
    waiting = tuple((name, backoff.reason, backoff.message) for name in names)
    return Stage(
        why=f"waiting: retrying ({failures_text(backoff.retry.failures)}): {backoff.message}",
        wake_at=backoff.retry.at,
        since_s=max(0.0, now - backoff.since),
        waiting=waiting,
    )


def inspection_stage(state: PodState, now: Instant, why: str) -> Stage:
    """Return the stage that inspects the pod: at once after a failed change, in back-off after a failed inspection."""
    backoff = state.call_backoff("")
    backing_off = (
        pod_backoff(state, now) if backoff is not None and backoff.call == InspectPod.__name__ else None
    )
    return backing_off or Stage(calls=(inspection(state),), why=why)


def remember(state: PodState, memo: PodMemo, why: str, *, durable: bool = False) -> Stage:
    """Return the stage that writes the memo; once it is written the next stage can follow."""
    entry = Remember(section=MEMO_SECTION, key=state.uid, data=msgspec.msgpack.encode(memo), durable=durable)
    return Stage(calls=(host_call("ledger", entry),), why=why, memo=memo)


def inspection(state: PodState) -> PortCall:
    """Return the call that inspects the pod in the runtime."""
    return runtime_call(state, InspectPod(uid=state.uid))


def runtime_call(state: PodState, call: msgspec.Struct, container: str = "") -> PortCall:
    """Return a call on the container runtime, with a deadline that includes its time in the driver's queue.

    The runtime may use the whole deadline; the rest is for the inspection afterwards.
    """
    deadline_s = state.settings.call_deadline_s * (SANDBOX_TIMES if isinstance(call, RunSandbox) else 1)
    deadline_s += QUEUE_S if isinstance(call, QUEUED) else 0.0
    return PortCall(port="runtime", call=call, deadline_s=deadline_s, container=container)


def host_call(port: str, call: msgspec.Struct) -> PortCall:
    """Return a call on a port of the host."""
    return PortCall(port=port, call=call, deadline_s=HOST_DEADLINE_S)


def node_files(state: PodState) -> PortCall:
    """Return the call that reads the node's resolv.conf and hosts file."""
    return host_call("podfiles", ReadNodeFiles(resolv_conf=state.node.resolv_conf))


def services_read(state: PodState, container: str, attempt: int) -> Stage | None:
    """Return the stage that reads the cluster's Services for a container's environment, None where they are known.

    A static pod does not wait for them: it may be the API server itself. What ran before starts again without them where the
    API server cannot be reached, as on a machine that was booted without its uplink.
    """
    if state.node.standalone or state.setup.services is not None:
        return None
    pod = state.desired
    assert pod is not None
    call = ReadServices(namespace=pod.metadata.namespace, at_once=is_static(pod), in_outage=attempt > 0)
    asked = PortCall(port="kube", call=call, deadline_s=HOST_DEADLINE_S, container=container)
    return Stage(calls=(asked,), why="reading the Services of the cluster")


def runtime_class_read(state: PodState) -> Stage | None:
    """Return the stage that looks up the handler of the pod's RuntimeClass, None where it is known."""
    name = state.desired.spec.runtime_class_name if state.desired is not None else ""
    if not name or state.node.standalone or state.setup.handler is not None:
        return None
    return Stage(
        calls=(host_call("kube", ReadRuntimeClass(name=name)),), why=f"reading the RuntimeClass {name}"
    )


def stop(state: PodState, container: RuntimeContainer, grace_s: int) -> PortCall:
    """Return the call that stops a container; its deadline leaves room for the grace.

    A grace of one second is sent as it is; the minimum is for a grace of zero.
    """
    grace = grace_s if grace_s >= 1 else MIN_STOP_S
    call = StopContainer(uid=state.uid, container_id=container.id, grace_s=float(grace))
    return PortCall(
        port="runtime", call=call, deadline_s=state.settings.call_deadline_s + grace, container=container.name
    )


def sandbox_stops(state: PodState) -> tuple[PortCall, ...]:
    """Return the calls that stop the pod's sandboxes: those that are ready, and once those that are not.

    A sandbox that died by itself, such as with its machine, keeps addresses and host ports until it is stopped.
    """
    boxes = state.observed.sandboxes if state.observed is not None else ()
    return tuple(
        runtime_call(state, StopSandbox(uid=state.uid, sandbox_id=box.id))
        for box in boxes
        if box.state is SandboxState.READY or box.id not in state.view.stopped
    )


def config_retry_at(now: Instant) -> Instant:
    """Return when an invalid configuration is retried: on a fixed grid, so that each call gives the same instant."""
    return (math.floor(now / CONFIG_RETRY_S) + 1) * CONFIG_RETRY_S


def grace_left_s(kill: Kill, wall: WallNs) -> int:
    """Return what is left of the grace in seconds, counted from the kill: a restart does not begin it again.

    At its end the minimum of a stop is left, unless the kill had less. A wall clock that jumped back gives no more than the
    grace.
    """
    left_s = -((wall - kill.stop_by) // NS)
    return int(min(max(left_s, MIN_STOP_S), kill.grace_s))


def is_changed(container: v1.Container | v1.EphemeralContainer, instance: RuntimeContainer) -> bool:
    """Return whether a live instance was created from another definition of its container."""
    if instance.state not in (RuntimeContainerState.RUNNING, RuntimeContainerState.CREATED):
        return False
    recorded = dict(instance.annotations).get(ANNOTATION_HASH, "")
    return recorded != container_hash(container.name, container.image)


def prunable(state: PodState, pod: v1.Pod, observed: RuntimePod, sandbox_id: str) -> tuple[PortCall, ...]:
    """Return calls that remove dead instances and their logs: keep two per container, the newest and the one before it."""
    uid = observed.uid
    known = {c.name for c in in_order(pod.spec)}
    old = [c for name in sorted(known) for c in instances_of(observed, name)[2:]]
    dead = [c for c in old if c.state is RuntimeContainerState.EXITED]
    if dead:
        records = (runtime_call(state, RemoveContainer(uid=uid, container_id=c.id)) for c in dead)
        logs = (host_call("podfiles", removal_of_logs(observed, c)) for c in dead if c.log_path)
        return (*records, *logs)
    used = {c.sandbox_id for c in observed.containers} | {sandbox_id}
    left = (s for s in observed.sandboxes if s.id not in used)
    return tuple(runtime_call(state, RemoveSandbox(uid=uid, sandbox_id=s.id)) for s in left)


def removal_of_logs(observed: RuntimePod, instance: RuntimeContainer) -> RemoveContainerLogs:
    """Return the call that removes the log files of a removed instance."""
    return RemoveContainerLogs(
        uid=observed.uid,
        log_path=instance.log_path,
        link=link_name(observed.name, observed.namespace, instance.name, instance.id),
        termination_log=instance.termination_log,
    )


def backoff_of(state: PodState, container: v1.Container | v1.EphemeralContainer) -> Backoff | None:
    """Return the crash-loop back-off of a container, None when it was counted for another image or other resources."""
    entry = state.memo.backoff(container.name)
    return entry if entry is not None and entry.key in ("", backoff_key(container)) else None


def crash_wait_s(
    state: PodState,
    container: v1.Container | v1.EphemeralContainer,
    newest: RuntimeContainer | None,
    wall: WallNs,
    attempt: int,
) -> float:
    """Return what is left of a container's crash-loop back-off, in seconds."""
    if newest is None or newest.state is not RuntimeContainerState.EXITED or newest.finished_at is None:
        return 0.0
    return wait_s(backoff_of(state, container), newest.finished_at, wall, attempt)


def counted_memo(
    state: PodState,
    container: v1.Container | v1.EphemeralContainer,
    newest: RuntimeContainer | None,
    wall: WallNs,
    attempt: int,
) -> PodMemo:
    """Return the memo that counts the start of a container; the first start needs no entry."""
    memo = msgspec.structs.replace(state.memo, kill=None)
    if newest is None or newest.state is not RuntimeContainerState.EXITED or newest.finished_at is None:
        return memo
    entry, limit_s = backoff_of(state, container), state.settings.restart_limit_s
    return memo.with_backoff(counted(entry, container, newest.finished_at, wall, attempt, limit_s))


def crash_text(state: PodState, pod: v1.Pod, container: v1.Container | v1.EphemeralContainer) -> str:
    """Return a kubelet's message of CrashLoopBackOff."""
    entry, name = backoff_of(state, container), container.name
    delay = write(int((entry.delay_s if entry else 0.0) * 1e9))
    meta = pod.metadata
    return f"back-off {delay} restarting failed container={name} pod={meta.name}_{meta.namespace}({meta.uid})"


def fresh_memo(state: PodState) -> PodMemo:
    """Return the memo with name, log folder and cgroup, so that the pod can be removed when it is in no source."""
    pod, observed = state.desired, state.observed
    if pod is not None:
        meta = pod.metadata
        name, namespace, folder = meta.name, meta.namespace, log_directory(state.settings.log_root, pod)
    elif observed is not None and observed.name:
        name, namespace = observed.name, observed.namespace
        folder = f"{state.settings.log_root}/{namespace}_{name}_{state.uid}"
    else:
        return state.memo
    parent = state.memo.cgroup_parent
    if pod is not None:
        parent = settled_parent(pod, state.node, parent)
    return msgspec.structs.replace(
        state.memo, name=name, namespace=namespace, log_directory=folder, cgroup_parent=parent
    )


def failures_text(failures: int) -> str:
    """Return how often something failed: ``6 failures``."""
    return "1 failure" if failures == 1 else f"{failures} failures"
