"""Golden pairs: a pod and what the runtime shows of it in, the next calls and the published status out.

Each pair is written by hand from the rule that it names. Times are seconds after the beginning of the pair.
"""

import itertools
from pathlib import Path as File

import msgspec
import pytest

from actors.pod.core import advance, decide, with_status
from actors.pod.hookrecord import HookKind, HookRecord
from actors.pod.life.stage import fresh_memo
from actors.pod.life.volume import with_volumes
from actors.pod.outcome import with_view
from actors.pod.spec.mount import SubPath
from actors.pod.spec.volume import volume_plans
from actors.pod.state import (
    BoundPart,
    ContainerRecord,
    Finished,
    Kill,
    NodeSetup,
    ObservedView,
    PodSettings,
    PodState,
    ReadyVolume,
    Syncing,
    Terminated,
    Terminating,
    WantedPod,
    change_sent,
    change_setup,
    with_container,
    with_instance,
)
from actors.rules.container.backoff import Backoff, backoff_key
from api.ids import Path
from api.kube.objects.container import ResourceRequirements
from api.kube.objects.pod import Pod, PodStatus
from api.kube.poddefault import default_pod
from api.lifecycle import Start, Tell
from api.messages.pod import ImageProgress, ImageReport, KillCause, ProbeChanged, Resize
from api.messages.probes import ProbePod
from api.ports.confinement import Resources
from api.ports.node import NodeFacts, NodeFiles
from api.ports.runtime import ContainerIds
from api.wallclock import wall_ns
from tests.golden.pair import hold
from tests.unit.actors.pods import NS, UID, WALL, box, instance, shown

PAIRS = sorted(File(__file__).parent.glob("*.yaml"))
LIVES = {"terminating": Terminating, "terminated": Terminated, "finished": Finished}


def state_of(pair):
    """Build the state that a pair describes."""
    raw = pair["pod"]
    meta = {"name": "web", "namespace": "default", "uid": UID, **raw.get("metadata", {})}
    pod = {"metadata": meta, "spec": raw["spec"], "status": raw.get("status", {})}
    pod = default_pod(msgspec.convert(pod, Pod))
    shows = pair.get("observed", {})
    parts = [box(**b) for b in shows.get("sandboxes", [])] + [
        instance(**typed(c)) for c in shows.get("containers", [])
    ]
    life = Syncing()
    if "life" in pair:
        given = pair["kill"]
        stop_by = WALL + (given.get("asked_s", 0) + given["grace"]) * NS
        kill = Kill(
            cause=KillCause[given["cause"]],
            grace_s=given["grace"],
            asked_at=WALL + given.get("asked_s", 0) * NS,
            stop_by=stop_by,
            asked_by=Path("/node/pods"),
            deleted=given.get("deleted", False),
            disruption=given.get("disruption", False),
            reason=given.get("reason", ""),
            message=given.get("message", ""),
        )
        life = LIVES[pair["life"]](kill=kill)
    state = PodState(
        uid=UID,
        settings=PodSettings(log_root="/logs"),
        wanted=WantedPod(
            pod=pod, resize=msgspec.convert(pair["resize"], Resize) if "resize" in pair else None
        ),
        life=life,
        node=msgspec.convert(pair.get("node", {}), NodeFacts),
        base=msgspec.convert(pair.get("before", {}), PodStatus),
        view=ObservedView(stopped=tuple(pair.get("stopped", []))),
        setup=NodeSetup(
            folders=pair.get("folders", True),
            grouped=pair.get("grouped", ""),
            granted_to=pod if "grouped" in pair else None,
            files=NodeFiles() if pair.get("folders", True) else None,
        ),
        containers={
            name: ContainerRecord(prepared=attempt) for name, attempt in pair.get("prepared", {}).items()
        },
    )
    # As an actor takes in what the runtime shows.
    state = with_parts(with_probes(with_view(state, shown(*parts), 0.0), pair), pair)
    memo = msgspec.structs.replace(
        with_volumes(fresh_memo(state), pod),
        kill=None if pair.get("unwritten") else state.killed,
        hooks=tuple(mark_of(given) for given in pair.get("hooks", [])),
        backoffs=tuple(
            Backoff(
                container=b["container"],
                delay_s=b["delay_s"],
                updated_at=WALL,
                for_attempt=b["for_attempt"],
                key=key_of(pod, b),
            )
            for b in pair.get("backoffs", [])
        ),
        used=tuple(sorted(pair.get("used", {}).items())),
        renewed=tuple(pair.get("renewed", [])),
    )
    if "recorded_cgroup" in pair:
        # What the ledger holds of an earlier life, which may have been configured otherwise.
        before = msgspec.structs.replace(memo, cgroup_parent=pair["recorded_cgroup"])
        return msgspec.structs.replace(state, memo=before, remembered=before)
    return msgspec.structs.replace(state, memo=memo, remembered=memo)


def key_of(pod, given):
    """Return the key of a back-off: of the container with what it had then, where the pair says that."""
    if "earned_by" not in given:
        return ""
    (container,) = (c for c in pod.spec.containers if c.name == given["container"])
    kinds = {"resources": ResourceRequirements}
    then = {name: msgspec.convert(value, kinds.get(name, str)) for name, value in given["earned_by"].items()}
    return backoff_key(msgspec.structs.replace(container, **then))


def typed(fields):
    """Return the fields of an instance with those that are structures as such."""
    kinds = {"ids": ContainerIds, "resources": Resources}
    return {name: msgspec.convert(value, kinds.get(name, object)) for name, value in fields.items()}


def mark_of(given):
    """Return the mark of a hook that a pair gives."""
    return HookRecord(
        kind=HookKind(given["kind"]),
        container=given["container"],
        attempt=given["attempt"],
        begun_at=WALL,
        grace_s=given.get("grace", 0),
        pause=given.get("pause", False),
        ended=given.get("ended", False),
        failure=given.get("failure", ""),
    )


def with_probes(state, pair):
    """Return the state with what probes say of the instances that are shown."""
    for given in pair.get("probes", []):
        report = msgspec.convert({"uid": UID, **given}, ProbeChanged)
        record = state.instance(report.container_id)
        record = msgspec.structs.replace(record, probes=(*record.probes, report))
        state = with_instance(state, report.container_id, record)
    return state


def with_parts(state, pair):
    """Return the state on a node that confines containers, where the pair says so, with the volumes that are ready."""
    if not pair.get("confined"):
        return state
    facts = NodeFacts(confined=True, allocatable_memory_bytes=8 << 30)
    state = msgspec.structs.replace(state, node=facts)
    ready = tuple(
        ReadyVolume(name=name, plan=plan, host_path=pair["volumes"][name])
        for name, plan in volume_plans(state.desired, state.facts)
        if name in pair.get("volumes", {})
    )
    containers = dict.fromkeys(pair.get("written", []), ContainerRecord(prepared=0))
    for row in pair.get("bound", []):
        record = containers.get(row["container"], ContainerRecord())
        part = SubPath(index=row["index"], host_path=row["path"])
        bound = (*record.bound, BoundPart(attempt=row.get("attempt", 0), part=part))
        containers[row["container"]] = msgspec.structs.replace(record, bound=bound)
    for one in state.observed.containers:
        record = msgspec.structs.replace(state.instance(one.id), linked=True, termination_message="")
        state = with_instance(state, one.id, record)
    if "unmounted" in pair:
        life = msgspec.structs.replace(state.life, unmounted=pair["unmounted"])
        state = msgspec.structs.replace(state, life=life)
    state = change_setup(state, volumes=ready, files=NodeFiles())
    return msgspec.structs.replace(state, containers=containers)


def container_line(status):
    """Return a container status in one line."""
    parts = [
        state_line(status.state),
        f"restarts={status.restart_count}",
        "ready" if status.ready else "unready",
    ]
    if status.last_state.terminated:
        parts.append(f"last: {state_line(status.last_state)}")
    return ", ".join(parts)


def state_line(state):
    """Return a container state in a few words."""
    if state.running:
        return "running"
    if state.terminated:
        return f"terminated {state.terminated.exit_code} {state.terminated.reason}"
    waiting = state.waiting
    return f"waiting {waiting.reason}: {waiting.message}" if waiting.message else f"waiting {waiting.reason}"


def with_images(state, now, given):
    """Return the state once every image that it needs is there, or what a pair says of it."""
    wanting = with_status(advance(state, now, WALL + int(now * NS)), stopped=False)
    reports = tuple(
        ImageReport(
            uid=UID,
            container=w.container,
            attempt=w.attempt,
            image=w.image,
            ref=w.image,
            **msgspec.convert(given.get(w.container, {"progress": "ready"}), dict[str, str]),
        )
        for w in wanting.sent.wants
    )
    reports = tuple(msgspec.structs.replace(r, progress=ImageProgress(r.progress)) for r in reports)
    state = change_sent(state, wants=wanting.sent.wants)
    for report in reports:
        record = msgspec.structs.replace(state.container(report.container), image=report)
        state = with_container(state, report.container, record)
    return state


def probe_line(target, plan):
    """Return what is to be probed of a container in one line."""
    asked = plan.call.brief() if plan.call is not None else plan.problem
    return f"{target.container} {plan.kind}: {asked}"


def outcome_of(pair):
    """Return what comes out, as a pair writes it."""
    ops = itertools.count(1)
    now = float(pair.get("now_s", 0))
    decision = decide(
        with_images(state_of(pair), now, pair.get("images", {})),
        None,
        now,
        WALL + int(now * NS),
        lambda: next(ops),
    )
    status = decision.state.base
    found = {
        "life": type(decision.state.life).__name__,
        "calls": [a.call.brief() for a in decision.actions if isinstance(a, Start)],
        "phase": status.phase,
        "containers": {c.name: container_line(c) for c in status.container_statuses},
        "inits": {c.name: container_line(c) for c in status.init_container_statuses},
        "conditions": {c.type: f"{c.status} {c.reason}".strip() for c in status.conditions},
        "messages": {c.type: c.message for c in status.conditions if c.message},
        "since_s": {c.type: seconds(c.last_transition_time) for c in status.conditions},
        "fields": {
            "hostIP": status.host_ip,
            "podIP": status.pod_ip,
            "podIPs": [one.ip for one in status.pod_ips],
            "qosClass": status.qos_class,
            "observedGeneration": status.observed_generation,
            "startTime_s": seconds(status.start_time),
        },
        "whole": {c.name: msgspec.json.decode(msgspec.json.encode(c)) for c in status.container_statuses},
        "ephemeral": {c.name: container_line(c) for c in status.ephemeral_container_statuses},
    }
    warnings = [f"{e.reason}: {e.message}" for e in decision.state.events if e.type == "Warning"]
    if warnings:
        found["warnings"] = warnings
    probing = [a.message for a in decision.actions if isinstance(a, Tell) and isinstance(a.message, ProbePod)]
    found["probing"] = [probe_line(t, p) for message in probing for t in message.targets for p in t.probes]
    found["started"] = [c.name for c in status.container_statuses if c.started]
    if status.reason:
        found["reason"] = f"{status.reason}: {status.message}"
    found["events"] = [f"{event.reason} {event.message}" for event in decision.state.events]
    if decision.wake_at is not None:
        found["wake_s"] = round(decision.wake_at, 3)
    return found


def seconds(text):
    """Return an instant of a status in seconds after the beginning of the pair."""
    return (wall_ns(text) - WALL) // NS if text else None


@pytest.mark.parametrize("path", PAIRS, ids=lambda path: path.stem)
def test_a_pair_comes_out_as_its_rule_says(path, request):
    hold(path, outcome_of, update=request.config.getoption("--update", default=False))


def test_there_are_enough_pairs():
    assert len(PAIRS) >= 120
