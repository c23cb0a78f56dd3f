"""The probes of a pod as people see them: what is asked, how it went, when it is asked again."""

from typing import assert_never

from actors.probes.state import ProberState, Worker
from api.ids import Instant, Uid
from api.messages.probes import ProbeKind, ProbePlan
from api.ports.net import GrpcHealth, HttpGet, TcpConnect, host_port
from api.ports.runtime import ExecInContainer
from api.shown.introspection import ProbeRow

LINE = 200
"""Characters of a check's message that are shown."""


def probe_rows(state: ProberState, uid: Uid, now: Instant) -> tuple[ProbeRow, ...]:
    """Return one row for each probe of a pod's running containers."""
    pod = state.pods.get(uid)
    return tuple(row(worker, now) for worker in pod.workers) if pod is not None else ()


def row(worker: Worker, now: Instant) -> ProbeRow:
    """Return one probe."""
    place, plan = worker.place, worker.plan
    since = worker.failing_since
    asked = f"{what(plan)} every {plan.period_s} s"
    return ProbeRow(
        what=f"{place.kind.value.lower()} probe of container {place.container}: {asked}",
        result=worker.result.value,
        checked=worker.checked,
        failures=worker.failures,
        failing_s=max(0.0, now - since) if since is not None else None,
        message=one_line(worker.message),
        next_in_s=max(0.0, worker.due - now) if worker.due is not None else None,
        waits=waits(worker),
    )


def what(plan: ProbePlan) -> str:
    """Return in words what a probe asks."""
    match plan.call:
        case None:
            return f"nothing, {plan.problem};"
        case ExecInContainer(command=command):
            return f"command {one_line(' '.join(command))}"
        case HttpGet(scheme=scheme, host=host, port=port, path=path):
            return f"GET {scheme}://{host_port(host, port)}{path}"
        case TcpConnect(host=host, port=port):
            return f"connection to {host_port(host, port)}"
        case GrpcHealth(host=host, port=port, service=service):
            return f"gRPC health of {service or 'the server'} at {host_port(host, port)}"
        case _:
            assert_never(plan.call)


def waits(worker: Worker) -> str:
    """Return why a probe is not asked at a given time, empty when it is."""
    if worker.op is not None:
        return "check running"
    if worker.queued:
        return "waiting for another probe command to end"
    if worker.due is not None:
        return ""
    if worker.held and worker.place.kind is ProbeKind.STARTUP and not worker.failures:
        return "done: the container has started"
    if worker.held:
        return "waiting for the container's restart"
    return "waiting until the container has started"


def one_line(text: str) -> str:
    """Return the beginning of a text on one line."""
    line = " ".join(text.split())
    return line if len(line) <= LINE else f"{line[: LINE - 3]}..."
