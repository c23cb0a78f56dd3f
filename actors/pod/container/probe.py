"""The probes of a pod: the targets that the Prober gets, and what follows from the results.

The rules are the kubelet's (reference ``pod-lifecycle`` sections 6.3, 9 and 9.5). Targets and results are levels: they
are sent when they change and repeated now and then. Whether a container counts as started or ready is
decided in `actors.pod.container.health` from what is kept here.
"""

from collections.abc import Iterator

import msgspec
from msgspec.structs import replace

from actors.pod.container.hook import post_start_of
from actors.pod.life.event import with_event
from actors.pod.life.stage import is_changed
from actors.pod.spec.environment import expand
from actors.pod.spec.identity import own_grace_s
from actors.pod.state import PodState, Syncing, Terminating, change_sent, with_instance
from actors.rules.container.instance import newest_of, ready_sandboxes
from api.ids import Instant, Uid, WallNs
from api.kube.objects.container import Container, ContainerPort, HTTPGetAction, Probe
from api.kube.objects.pod import Pod
from api.kube.objects.wiretype import IntOrString
from api.messages.pod import ProbeChanged, ProbeResult, ProbeTrouble
from api.messages.probes import ProbeCall, ProbeKind, ProbePlan, ProbePod, ProbeTarget
from api.ports.confinement import Pairs
from api.ports.net import BODY_LIMIT_BYTES, GrpcHealth, HttpGet, TcpConnect
from api.ports.runtime import ExecInContainer, RuntimeContainerState
from api.ports.runtime import RuntimeContainer as Instance

USER_AGENT = "kube-probe/1.36"
KILLING = ((ProbeKind.LIVENESS, "liveness"), (ProbeKind.STARTUP, "startup"))


class ProbeFailure(msgspec.Struct, frozen=True, kw_only=True):
    """A container that must be stopped because a probe failed."""

    container: Container
    instance: Instance
    grace_s: int
    event: str
    """What its ``Killing`` event says."""
    renews: bool
    """It is restarted, whatever its exit code."""


def probed(pod: Pod) -> tuple[Container, ...]:
    """Return the containers that may have probes: sidecars and regular ones, in spec order."""
    sidecars = (c for c in pod.spec.init_containers if c.restart_policy == "Always")
    return (*sidecars, *pod.spec.containers)


def probe_of(container: Container, kind: ProbeKind) -> Probe | None:
    """Return a container's probe of this kind."""
    match kind:
        case ProbeKind.STARTUP:
            return container.startup_probe
        case ProbeKind.LIVENESS:
            return container.liveness_probe
        case ProbeKind.READINESS:
            return container.readiness_probe


# ---------------------------------------------------------------- targets


def with_probes(state: PodState) -> PodState:
    """Return the state with the probe targets of now, without results of removed instances."""
    targets = targets_of(state)
    ids = {target.container_id for target in targets}
    for container_id, record in state.instances.items():
        if record.probes and container_id not in ids:
            state = with_instance(state, container_id, replace(record, probes=()))
    if targets == () and state.sent.probed is None:
        return state
    known = state.sent.probed or ()
    if state.sent.probed is not None and [plain(t) for t in targets] == [plain(t) for t in known]:
        return state
    return change_sent(state, probed=targets)


def plain(target: ProbeTarget) -> ProbeTarget:
    """Return a target without its initial results."""
    return replace(target, started=False, ready=False)


def targets_of(state: PodState) -> tuple[ProbeTarget, ...]:
    """Return the running instances to probe. While a pod is being stopped only readiness is probed.

    An instance is no target before the end of its postStart hook, as for a kubelet, whose start has not returned: all its
    probes begin with the end of the hook.
    """
    pod, observed = state.desired, state.observed
    if pod is None or not isinstance(state.life, Syncing | Terminating):
        return ()
    kinds = tuple(ProbeKind) if isinstance(state.life, Syncing) else (ProbeKind.READINESS,)
    targets = []
    for container in probed(pod):
        newest = newest_of(observed, container.name)
        if (
            newest is None
            or newest.state is not RuntimeContainerState.RUNNING
            or post_start_of(state, newest)
        ):
            continue
        plans = tuple(
            plan_of(state, pod, container, newest, kind, probe)
            for kind in kinds
            if (probe := probe_of(container, kind)) is not None
        )
        if plans:
            started, ready = published_health(state, container.name, newest.id)
            targets.append(
                ProbeTarget(
                    container=container.name,
                    container_id=newest.id,
                    started_at=newest.started_at,
                    started=started,
                    ready=ready,
                    probes=plans,
                )
            )
    return tuple(targets)


def published_health(state: PodState, name: str, container_id: str) -> tuple[bool, bool]:
    """Return whether an instance is started and whether it is ready by the last status."""
    statuses = (*state.base.init_container_statuses, *state.base.container_statuses)
    status = next((s for s in statuses if s.name == name), None)
    if status is None or status.container_id != container_id or status.state.running is None:
        return False, False
    return bool(status.started), status.ready


def plan_of(
    state: PodState, pod: Pod, container: Container, instance: Instance, kind: ProbeKind, probe: Probe
) -> ProbePlan:
    """Return the plan of one probe, with its call or the reason why there is none."""
    asked = probe_call(state, pod, container, instance, probe)
    return ProbePlan(
        kind=kind,
        call=None if isinstance(asked, str) else asked,
        problem=asked if isinstance(asked, str) else "",
        initial_delay_s=probe.initial_delay_seconds,
        period_s=max(1, probe.period_seconds),
        success_threshold=max(1, probe.success_threshold),
        failure_threshold=max(1, probe.failure_threshold),
    )


def probe_call(
    state: PodState, pod: Pod, container: Container, instance: Instance, probe: Probe
) -> ProbeCall | str:
    """Return the call of a probe, or why there is none."""
    timeout_s = float(max(1, probe.timeout_seconds))
    if probe.exec is not None:
        literal = {one.name: one.value for one in container.env if one.value_from is None}
        return ExecInContainer(
            uid=state.uid,
            container_id=instance.id,
            command=tuple(expand(word, literal) for word in probe.exec.command),
            timeout_s=timeout_s,
            limit_bytes=BODY_LIMIT_BYTES,
        )
    own = address(state, pod)
    if probe.grpc is not None:
        call = GrpcHealth(host=own, port=probe.grpc.port, service=probe.grpc.service, timeout_s=timeout_s)
        return call if own else "the pod has no address yet"
    action = probe.http_get or probe.tcp_socket
    if action is None:
        return "it has no supported handler: exec, httpGet, tcpSocket or grpc"
    host = action.host or own
    port = number(container.ports, action.port)
    if port is None:
        return f'port "{action.port}" not found: container {container.name} has no port of that name'
    if not host:
        return "the pod has no address yet"
    if isinstance(action, HTTPGetAction):
        headers = headers_of(action)
        scheme = (action.scheme or "HTTP").lower()
        path = action.path if action.path.startswith("/") else f"/{action.path}"
        return HttpGet(scheme=scheme, host=host, port=port, path=path, headers=headers, timeout_s=timeout_s)
    return TcpConnect(host=host, port=port, timeout_s=timeout_s)


def address(state: PodState, pod: Pod) -> str:
    """Return the pod's own address: on the host's network that is the node's."""
    boxes = ready_sandboxes(state.observed)
    if boxes and boxes[0].ips:
        return boxes[0].ips[0]
    if pod.spec.host_network and state.settings.node_ip:
        return state.settings.node_ip
    return state.base.pod_ip


def number(ports: tuple[ContainerPort, ...], port: IntOrString) -> int | None:
    """Return a port's number; None for a name that the container's ports do not have."""
    if isinstance(port, int):
        return port
    named = next((one.container_port for one in ports if one.name == port), None)
    if named is not None:
        return named
    return int(port) if port.isascii() and port.isdigit() and 0 < int(port) < 1 << 16 else None


def headers_of(action: HTTPGetAction) -> Pairs:
    """Return the headers of a probe: an empty value removes a default header."""
    given = tuple((header.name, str(header.value)) for header in action.http_headers)
    names = {name.lower() for name, _ in given}
    own = (("User-Agent", USER_AGENT), ("Accept", "*/*"))
    kept = tuple(row for row in given if row[1] or row[0].lower() not in ("accept", "user-agent"))
    return (*kept, *(row for row in own if row[0].lower() not in names))


def probe_message(uid: Uid, state: PodState) -> ProbePod:
    """Return the message with the probe targets."""
    return ProbePod(uid=uid, targets=targets_of(state) if state.sent.probed else ())


# ---------------------------------------------------------------- results


def absorb_probe(state: PodState, report: ProbeChanged, wall: WallNs) -> PodState:
    """Absorb the result of a probe, unless its instance is not the newest."""
    newest = newest_of(state.observed, report.container)
    if newest is None or newest.id != report.container_id:
        return state
    before = probe_report(state, report.container_id, report.kind)
    if report == before:
        return state
    record = state.instance(report.container_id)
    others = (other for other in record.probes if other.kind is not report.kind)
    state = with_instance(state, report.container_id, replace(record, probes=(*others, report)))
    if before is not None and before.checked == report.checked:
        return state
    return with_probe_event(state, report, wall)


def with_probe_event(state: PodState, report: ProbeChanged, wall: WallNs) -> PodState:
    """Return the state with a kubelet's event for a failed check."""
    kind = report.kind.value
    match report.trouble:
        case ProbeTrouble.NONE:
            return state
        case ProbeTrouble.FAILED:
            reason, text = "Unhealthy", f"{kind} probe failed: {report.message}"
        case ProbeTrouble.ERRORED:
            reason = "Unhealthy"
            text = f"{kind} probe errored and resulted in unknown state: {report.message}"
        case ProbeTrouble.WARNED:
            reason, text = "ProbeWarning", f"{kind} probe warning: {report.message}"
    return with_event(state, wall, "Warning", reason, text, report.container)


def probe_report(state: PodState, container_id: str, kind: ProbeKind) -> ProbeChanged | None:
    """Return the last result of a probe of an instance."""
    return next((report for report in state.instance(container_id).probes if report.kind is kind), None)


def result_of(state: PodState, container_id: str, kind: ProbeKind) -> ProbeResult:
    """Return the result that counts of a probe of an instance."""
    report = probe_report(state, container_id, kind)
    return report.result if report is not None else ProbeResult.UNKNOWN


# ---------------------------------------------------------------- what follows


def probe_failures(state: PodState) -> Iterator[ProbeFailure]:
    """Yield the containers to stop: a liveness or startup probe reached its failure threshold."""
    pod = state.desired
    if pod is None or not state.instances:
        return
    for container in probed(pod):
        newest = newest_of(state.observed, container.name)
        if (
            newest is None
            or newest.state is not RuntimeContainerState.RUNNING
            or is_changed(container, newest)
        ):
            continue
        for kind, word in KILLING:
            probe = probe_of(container, kind)
            if probe is None or result_of(state, newest.id, kind) is not ProbeResult.FAILURE:
                continue
            own = probe.termination_grace_period_seconds
            sidecar = container not in pod.spec.containers
            text = f"{'Init container' if sidecar else 'Container'} {container.name} failed {word} probe"
            policy = container.restart_policy or pod.spec.restart_policy or "Always"
            renews = policy != "Never"
            if renews:
                text += ", will be restarted"
            grace_s = own_grace_s(pod) if own is None else own
            yield ProbeFailure(
                container=container, instance=newest, grace_s=grace_s, event=text, renews=renews
            )
            break


def unready_text(state: PodState, now: Instant) -> tuple[str, float] | None:
    """Return in words which probe keeps a container from being started or ready, and for how many seconds; None for none."""
    pod = state.desired
    for container in probed(pod) if pod is not None else ():
        newest = newest_of(state.observed, container.name)
        if newest is None or newest.state is not RuntimeContainerState.RUNNING:
            continue
        for kind in (ProbeKind.STARTUP, ProbeKind.READINESS):
            if probe_of(container, kind) is None:
                continue
            report = probe_report(state, newest.id, kind)
            if report is not None and report.result is ProbeResult.SUCCESS:
                continue
            started, ready = published_health(state, container.name, newest.id)
            if report is None and (started if kind is ProbeKind.STARTUP else ready):
                continue
            word = f"{kind.value.lower()} probe of container {container.name}"
            if report is None or not report.message:
                return f"the {word} to succeed", 0.0
            since = report.failing_since
            return f"the {word} to succeed: {short(report.message)}", max(0.0, now - since) if since else 0.0
    return None


def short(text: str, limit: int = 160) -> str:
    """Return the beginning of a text, on one line."""
    line = " ".join(text.split())
    return line if len(line) <= limit else f"{line[: limit - 3]}..."
