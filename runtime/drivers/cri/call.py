"""The calls that change a pod or run something in it, step by step.

After a failed call the pod is inspected, because an equal call may have succeeded before. After a timeout or a broken
connection that is left to the caller.
"""

import math
import os
from typing import Any

from msgspec.structs import replace

from api.errors import (
    AlreadyExistsError,
    ConflictError,
    ExhaustedError,
    FailureKind,
    NotFoundError,
    OperatingError,
    RejectedError,
    TimedOutError,
)
from api.ports import runtime as c
from api.ports.call import Done
from api.ports.images import IMAGE_MISSING
from api.ports.runtime import SANDBOX_TIMES
from runtime.drivers.cri import annotation, request
from runtime.drivers.cri.concurrency import CREATE, RUN, START, ConcurrencyLimit
from runtime.drivers.cri.known import Known
from runtime.drivers.cri.link import Channels
from runtime.drivers.cri.opencall import Steps
from runtime.drivers.cri.view import PodLister, is_ready
from runtime.drivers.cri.watch import ExitWatch
from runtime.wire import cri
from runtime.wire.generated import cri_pb2 as pb
from runtime.wire.status import BROKEN

LIVE = (c.RuntimeContainerState.CREATED, c.RuntimeContainerState.RUNNING)
"""States in which a container's resources can be updated."""


class Calls:
    """The steps of each call."""

    def __init__(
        self, link: Channels, known: Known, view: PodLister, limit: ConcurrencyLimit, watch: ExitWatch
    ) -> None:
        self._link, self._known, self._view = link, known, view
        self._limit, self._watch = limit, watch

    def _heavy(self, rank: int, rpc: Any, message: Any, limit_s: float | None = None) -> Steps[Any]:
        """Make a heavy call when the concurrency limit admits it; its deadline counts from then."""
        slot = self._limit.enter(rank)
        yield slot
        try:
            return (yield self._link.ask(rpc, message, limit_s=limit_s))
        finally:
            slot.leave()

    # -- sandboxes

    def run_sandbox(self, call: c.RunSandbox) -> Steps[c.RuntimePod]:
        """RunPodSandbox, idempotent on (uid, attempt). It may take twice what another call may: the network is in it."""
        spec = call.spec
        _make_log_folder(spec)
        message = pb.RunPodSandboxRequest(
            config=request.sandbox_config(spec), runtime_handler=spec.runtime_handler
        )
        yield from self._view.hello()
        try:
            answer = yield from self._heavy(
                RUN, cri.RUN_SANDBOX, message, SANDBOX_TIMES * self._link.request_timeout_s
            )
        except OperatingError as error:
            pod = yield from self._inspect_after(error, spec.uid)
            if not _is_reserved(error) or not any(s.attempt == spec.attempt for s in pod.sandboxes):
                raise error from None
        else:
            pod = yield from self._view.after_sandbox(spec.uid, answer.pod_sandbox_id, spec.cgroup_parent)
        made = next((s for s in pod.sandboxes if s.attempt == spec.attempt), None)
        if made is not None and self._known.digest(made.id) != annotation.digest(spec):
            raise AlreadyExistsError(
                f"pod {spec.namespace}/{spec.name}: the runtime holds a sandbox of attempt {spec.attempt} already "
                f"({made.id[:12]}), made from another spec; remove it or use the next attempt"
            )
        return pod

    def _inspect_after(self, error: OperatingError, uid: Any) -> Steps[c.RuntimePod]:
        """Inspect a pod after a failure; after a timeout, a cancellation or a broken connection raise that instead."""
        if error.kind in (FailureKind.TIMED_OUT, FailureKind.CANCELLED) or error.reason == BROKEN:
            raise error
        try:
            return (yield from self._view.pod(uid))
        except OperatingError:
            raise error from None

    def stop_sandbox(self, call: c.StopSandbox) -> Steps[c.RuntimePod]:
        """StopPodSandbox; an unknown one is stopped."""
        message = pb.StopPodSandboxRequest(pod_sandbox_id=call.sandbox_id)
        with self._watch.held(call.sandbox_id):
            yield from self._quietly(cri.STOP_SANDBOX, message)
            return (yield from self._view.pod(call.uid))

    def remove_sandbox(self, call: c.RemoveSandbox) -> Steps[c.RuntimePod]:
        """StopPodSandbox, which gives its addresses back, then RemovePodSandbox."""
        stop = pb.StopPodSandboxRequest(pod_sandbox_id=call.sandbox_id)
        remove = pb.RemovePodSandboxRequest(pod_sandbox_id=call.sandbox_id)
        with self._watch.held(call.sandbox_id):
            yield from self._quietly(cri.STOP_SANDBOX, stop)
            yield from self._quietly(cri.REMOVE_SANDBOX, remove)
            # Its end is reported only by the result of this call.
            self._watch.forget(call.sandbox_id)
        return (yield from self._view.pod(call.uid))

    def _quietly(self, rpc: Any, message: Any, limit_s: float | None = None) -> Steps[None]:
        """Make a stop or remove call; NotFound counts as success."""
        try:
            yield self._link.ask(rpc, message, limit_s=limit_s)
        except NotFoundError:
            return

    # -- containers

    def create(self, call: c.CreateContainer) -> Steps[c.RuntimePod]:
        """CreateContainer, idempotent on (sandbox, name, attempt)."""
        spec = call.spec
        yield from self._view.hello()
        message = pb.CreateContainerRequest(
            pod_sandbox_id=call.sandbox_id,
            config=request.container_config(spec, call.sandbox),
            sandbox_config=request.sandbox_config(call.sandbox),
        )
        try:
            answer = yield from self._heavy(CREATE, cri.CREATE, message)
        except OperatingError as error:
            pod = yield from self._inspect_after(error, call.uid)
            if not any(_is_made_from(one, call) for one in pod.containers):
                raise (yield from self._why_not_created(call, pod, error)) from None
        else:
            pod = yield from self._view.after_create(call.uid, message, answer.container_id)
        made = next((one for one in pod.containers if _is_made_from(one, call)), None)
        if made is not None and self._known.digest(request.bare(made.id)) != annotation.digest(spec):
            raise AlreadyExistsError(
                f"container {spec.name}: the runtime holds one of attempt {spec.attempt} already, made from another spec; "
                "remove it or use the next attempt"
            )
        return pod

    def _why_not_created(
        self, call: c.CreateContainer, pod: c.RuntimePod, error: OperatingError
    ) -> Steps[OperatingError]:
        """Return the error of a failed creation, now that the pod was inspected."""
        ready = is_ready(pod, call.sandbox_id)
        if ready is None:
            return NotFoundError(f"container {call.spec.name}: its sandbox {call.sandbox_id} is gone")
        if not ready:
            return ConflictError(
                f"container {call.spec.name}: its sandbox {call.sandbox_id[:12]} is not ready"
            )
        same = ((one.name, one.attempt) == (call.spec.name, call.spec.attempt) for one in pod.containers)
        if _is_reserved(error) and any(same):
            return AlreadyExistsError(
                f"container {call.spec.name}: attempt {call.spec.attempt} is in another sandbox of this pod"
            )
        image = yield self._link.ask(
            cri.IMAGE_STATUS, pb.ImageStatusRequest(image=pb.ImageSpec(image=call.spec.image))
        )
        if not image.HasField("image"):
            asked = call.spec.image_asked or call.spec.image
            return RejectedError(
                f"container {call.spec.name}: the runtime has no image {asked!r} (any more): pull it again",
                reason=IMAGE_MISSING,
            )
        return error

    def start(self, call: c.StartContainer) -> Steps[c.RuntimePod]:
        """StartContainer; a command that cannot be run is shown by the container's state."""
        yield from self._view.hello()
        identity = request.bare(call.container_id)
        if self._known.container(identity) is None:
            # Made by an earlier agent: its state before the call decides what a failure of the call means.
            yield from self._view.pod(call.uid)
        before = self._known.container(identity)
        if before is not None and before.state is not c.RuntimeContainerState.CREATED:
            raise _not_startable(call, before)
        try:
            yield from self._heavy(START, cri.START, pb.StartContainerRequest(container_id=identity))
        except OperatingError as error:
            pod = yield from self._inspect_after(error, call.uid)
            now = next((one for one in pod.containers if one.id == call.container_id), None)
            if now is None or now.state is c.RuntimeContainerState.CREATED:
                raise error from None
            if now.state is not c.RuntimeContainerState.EXITED:
                raise _not_startable(call, now) from None
            return self._with_reason(pod, now, str(error))
        sandbox_id = before.sandbox_id if before is not None else ""
        return (yield from self._view.after_start(call.uid, sandbox_id, identity))

    def _with_reason(self, pod: c.RuntimePod, failed: c.RuntimeContainer, message: str) -> c.RuntimePod:
        """Return a pod whose container shows why it could not be started, also where the runtime forgot it."""
        identity = request.bare(failed.id)
        self._known.set_start_failure(identity, message)
        told = self._known.container(identity) or failed
        told = replace(told, created_at=failed.created_at)
        return replace(pod, containers=tuple(told if one.id == failed.id else one for one in pod.containers))

    def stop(self, call: c.StopContainer) -> Steps[c.RuntimePod]:
        """StopContainer: its deadline is the grace and the request timeout.

        The grace is rounded up to whole seconds: half a second is not 0.
        """
        yield from self._view.hello()
        identity = request.bare(call.container_id)
        timeout = max(0, math.ceil(call.grace_s))
        message = pb.StopContainerRequest(container_id=identity, timeout=timeout)
        with self._watch.held(identity):
            yield from self._quietly(cri.STOP, message, timeout + self._link.request_timeout_s)
            return (yield from self._view.pod(call.uid))

    def remove(self, call: c.RemoveContainer) -> Steps[c.RuntimePod]:
        """RemoveContainer, if the container does not run: runtimes would kill it silently."""
        yield from self._view.hello()
        identity = request.bare(call.container_id)
        known = self._known.container(identity)
        if known is None or known.state not in (
            c.RuntimeContainerState.CREATED,
            c.RuntimeContainerState.EXITED,
        ):
            try:
                yield from self._view.inspect(identity)
            except NotFoundError:
                return (yield from self._view.pod(call.uid))
            known = self._known.container(identity)
        if known is not None and known.state is c.RuntimeContainerState.RUNNING:
            raise ConflictError(f"container {known.name} runs; stop it before it is removed")
        yield from self._quietly(cri.REMOVE, pb.RemoveContainerRequest(container_id=identity))
        return (yield from self._view.pod(call.uid))

    def update(self, call: c.UpdateContainer) -> Steps[c.RuntimePod]:
        """UpdateContainerResources; the container is inspected again, because its state does not change."""
        yield from self._view.hello()
        identity = request.bare(call.container_id)
        message = pb.UpdateContainerResourcesRequest(
            container_id=identity, linux=request.resources(call.resources)
        )
        try:
            yield self._link.ask(cri.UPDATE, message)
        except OperatingError as error:
            # A failed update may have been applied.
            self._known.set_amounts(identity, None)
            yield from self._view.raise_for_state(identity, error, LIVE)
        self._known.set_amounts(identity, call.resources)
        pod = yield from self._view.pod(call.uid)
        # Runtimes accept new amounts for an exited container too: they have no effect.
        if not any(one.id == call.container_id and one.state in LIVE for one in pod.containers):
            raise ConflictError(f"container {call.container_id} has ended; it cannot be resized")
        return pod

    def reopen_log(self, call: c.ReopenContainerLog) -> Steps[c.RuntimePod]:
        """ReopenContainerLog."""
        yield from self._view.hello()
        identity = request.bare(call.container_id)
        try:
            yield self._link.ask(cri.REOPEN_LOG, pb.ReopenContainerLogRequest(container_id=identity))
        except OperatingError as error:
            yield from self._view.raise_for_state(identity, error)
        return (yield from self._view.pod(call.uid))

    def set_pod_cidr(self, call: c.SetPodCidr) -> Steps[Done]:
        """UpdateRuntimeConfig."""
        config = pb.RuntimeConfig(network_config=pb.NetworkConfig(pod_cidr=call.pod_cidr))
        yield self._link.ask(cri.UPDATE_CONFIG, pb.UpdateRuntimeConfigRequest(runtime_config=config))
        return Done()

    # -- commands

    def exec(self, call: c.ExecInContainer) -> Steps[c.ExecResult]:
        """ExecSync. A command that takes too long is TimedOut, however the runtime reports it."""
        identity = request.bare(call.container_id)
        timeout = max(1, math.ceil(call.timeout_s))
        message = pb.ExecSyncRequest(container_id=identity, cmd=call.command, timeout=timeout)
        late = TimedOutError(f"the command took longer than {call.timeout_s:g} s")
        try:
            reply = yield self._link.ask(
                cri.EXEC_SYNC, message, limit_s=timeout + self._link.request_timeout_s
            )
        except TimedOutError:
            raise late from None
        except ExhaustedError:
            raise ExhaustedError("the command's output exceeds the runtime's limit of 16 MiB") from None
        except OperatingError as error:
            yield from self._view.raise_for_state(identity, error)
        if reply.exit_code == -1 and reply.stderr.strip() == b"command timed out":
            raise late
        limit = max(0, call.limit_bytes)
        return c.ExecResult(
            exit_code=reply.exit_code,
            stdout=reply.stdout[:limit],
            stderr=reply.stderr[:limit],
            truncated=max(len(reply.stdout), len(reply.stderr)) > limit,
        )


def _make_log_folder(spec: c.SandboxSpec) -> None:
    """Make the folder of a pod's logs. Raises RejectedError with one line."""
    where = f"pod {spec.namespace}/{spec.name}: log directory {spec.log_directory!r}"
    if not spec.log_directory.startswith("/") or "\0" in spec.log_directory:
        raise RejectedError(f"{where} is not absolute")
    try:
        try:
            os.mkdir(spec.log_directory, mode=0o755)  # noqa: PTH102 a path of bytes that need not be one of text
        except OSError:
            # It is there already, or folders above it are not.
            os.makedirs(spec.log_directory, mode=0o755, exist_ok=True)  # noqa: PTH103
    except OSError as error:
        raise RejectedError(
            f"{where} cannot be made: {error.strerror}; choose another podLogsDir",
            reason="FailedCreatePodSandBox",
        ) from None


def _is_reserved(error: OperatingError) -> bool:
    """Return whether a runtime refused a name because it is reserved; only the text says so."""
    return error.kind is FailureKind.ALREADY_EXISTS or "reserve" in str(error)


def _is_made_from(one: c.RuntimeContainer, call: c.CreateContainer) -> bool:
    wanted = (call.sandbox_id, call.spec.name, call.spec.attempt)
    return (one.sandbox_id, one.name, one.attempt) == wanted


def _not_startable(call: c.StartContainer, known: c.RuntimeContainer) -> ConflictError:
    return ConflictError(
        f"container {known.name} ({call.container_id}) is {known.state} already: it is started once"
    )
