"""A keeper's record as the driver reads it, and what the port shows of it."""

from typing import Any

import msgspec

from api.decoding import ready
from api.ids import Uid, WallNs
from api.ports import runtime as c
from api.ports.confinement import Pairs

SCHEME = "embedded://"


class SandboxRow(msgspec.Struct, frozen=True, kw_only=True):
    """A sandbox as recorded: `state` is ``ready`` or ``stopped``."""

    id: str
    spec: c.SandboxSpec
    state: str
    created_at: WallNs
    ips: tuple[str, ...] = ()


class ContainerRow(msgspec.Struct, frozen=True, kw_only=True):
    """A container as recorded; `settled` is False while the rest of its process tree is being killed."""

    id: str
    name: str
    attempt: int
    image: str
    labels: Pairs = ()
    annotations: Pairs = ()
    log_path: str = ""
    state: str
    created_at: WallNs
    started_at: WallNs | None = None
    finished_at: WallNs | None = None
    exit_code: int | None = None
    signal: int = 0
    reason: str = ""
    message: str = ""
    pid: int = 0
    pid_start: int = 0
    settled: bool = True
    dropped_log_lines: int = 0
    log_trouble: str = ""


class KeeperRow(msgspec.Struct, frozen=True, kw_only=True):
    """Which process keeps the pod; `start` is in clock ticks since boot."""

    pid: int
    start: int


class SandboxRecord(msgspec.Struct, frozen=True, kw_only=True):
    """All of one sandbox, as written by its keeper."""

    boot: str
    keeper: KeeperRow
    cgroups: tuple[str, ...] = ()
    sandbox: SandboxRow
    containers: tuple[ContainerRow, ...] = ()


def decode(body: Any) -> SandboxRecord:
    """Decode a record from JSON; raise msgspec.ValidationError for an invalid one."""
    return msgspec.convert(body, ready(SandboxRecord))


def encode(record: SandboxRecord) -> dict[str, Any]:
    """Return a record as JSON data."""
    body: dict[str, Any] = msgspec.to_builtins(record)
    return body


def abandoned(record: SandboxRecord, now: WallNs, why: str) -> SandboxRecord:
    """Return the record of a sandbox whose keeper is gone: nothing of it runs, how it ended is not known."""
    rows = []
    for row in record.containers:
        if row.state == "exited":
            # The keeper had seen the exit itself: a known exit code outlives any guess.
            rows.append(msgspec.structs.replace(row, settled=True))
            continue
        rows.append(
            msgspec.structs.replace(
                row,
                state="exited",
                settled=True,
                pid=0,
                finished_at=now,
                exit_code=255,
                reason="ContainerStatusUnknown",
                message=why if row.state == "running" else f"never started: {why}",
            )
        )
    sandbox = msgspec.structs.replace(record.sandbox, state="stopped")
    return msgspec.structs.replace(record, sandbox=sandbox, containers=tuple(rows))


def show(uid: Uid, records: list[SandboxRecord]) -> c.RuntimePod:
    """Return one pod of the port from the records of its sandboxes."""
    if not records:
        return c.RuntimePod(uid=uid, name="", namespace="", ours=True)
    records = sorted(records, key=lambda r: (r.sandbox.spec.attempt, r.sandbox.created_at), reverse=True)
    sandboxes = tuple(_sandbox(r) for r in records)
    containers = [_container(r, row) for r in records for row in r.containers]
    containers.sort(key=lambda k: k.created_at, reverse=True)
    newest = records[0].sandbox.spec
    owned = any(name == c.ANNOTATION_OWNER for s in sandboxes for name, _ in s.annotations)
    return c.RuntimePod(
        uid=uid,
        name=newest.name,
        namespace=newest.namespace,
        sandboxes=sandboxes,
        containers=tuple(containers),
        ours=owned,
    )


def _sandbox(record: SandboxRecord) -> c.Sandbox:
    row = record.sandbox
    spec = row.spec
    ready = row.state == "ready"
    return c.Sandbox(
        id=row.id,
        uid=spec.uid,
        name=spec.name,
        namespace=spec.namespace,
        attempt=spec.attempt,
        state=c.SandboxState.READY if ready else c.SandboxState.NOT_READY,
        created_at=row.created_at,
        host_network=spec.host_network,
        ips=row.ips if ready else (),
        labels=tuple(sorted(spec.labels)),
        annotations=tuple(sorted(spec.annotations)),
    )


def _container(record: SandboxRecord, row: ContainerRow) -> c.RuntimeContainer:
    exited = row.state == "exited" and row.settled
    running = row.state == "running" or (row.state == "exited" and not row.settled)
    message = row.message
    if row.dropped_log_lines:
        lost = f"{row.dropped_log_lines} log lines were dropped" + (
            f": {row.log_trouble}" if row.log_trouble else ""
        )
        message = f"{message}; {lost}" if message else lost
    return c.RuntimeContainer(
        id=SCHEME + row.id,
        sandbox_id=record.sandbox.id,
        name=row.name,
        attempt=row.attempt,
        image=row.image,
        image_id=c.HOST_IMAGE,
        image_ref=c.HOST_IMAGE,
        state=(
            c.RuntimeContainerState.EXITED
            if exited
            else c.RuntimeContainerState.RUNNING
            if running
            else c.RuntimeContainerState.CREATED
        ),
        created_at=row.created_at,
        started_at=row.started_at,
        finished_at=row.finished_at if exited else None,
        exit_code=row.exit_code if exited else None,
        signal=row.signal if exited else 0,
        reason=row.reason if exited else "",
        message=message,
        pid=row.pid if row.state == "running" else 0,
        labels=tuple(sorted(row.labels)),
        annotations=tuple(sorted(row.annotations)),
        log_path=row.log_path,
    )
