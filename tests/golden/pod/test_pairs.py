"""Golden pairs: a pod and what the runtime shows of it in, the next calls and the published status out.

Each pair is written by hand from the rule that it names. Times are seconds after the beginning of the pair.
"""

import itertools
from pathlib import Path as File

import msgspec
import pytest
import yaml

from actors.pod.core import advance, decide
from actors.pod.stage import fresh_memo
from actors.pod.state import Finished, Kill, PodState, Syncing, Terminated, Terminating
from actors.rules.backoff import Backoff
from api.ids import Path
from api.lifecycle import Start
from api.messages.pod import ImageProgress, ImageReport, KillCause
from api.objects.pod import Pod, PodStatus
from api.poddefault import default_pod
from tests.unit.actors.pods import NS, UID, WALL, box, instance, shown

PAIRS = sorted(File(__file__).parent.glob("*.yaml"))
LIVES = {"terminating": Terminating, "terminated": Terminated, "finished": Finished}
SPLIT = "\nexpect:\n"


def state_of(pair):
    """Build the state that a pair describes."""
    raw = pair["pod"]
    meta = {"name": "web", "namespace": "default", "uid": UID, **raw.get("metadata", {})}
    pod = default_pod(msgspec.convert({"metadata": meta, "spec": raw["spec"]}, Pod))
    shows = pair.get("observed", {})
    parts = [box(**b) for b in shows.get("sandboxes", [])] + [
        instance(**c) for c in shows.get("containers", [])
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
            reason=given.get("reason", ""),
            message=given.get("message", ""),
        )
        life = LIVES[pair["life"]](kill=kill)
    state = PodState(
        uid=UID,
        log_root="/logs",
        desired=pod,
        life=life,
        observed=shown(*parts),
        folders=True,
        base=msgspec.convert(pair.get("before", {}), PodStatus),
    )
    memo = msgspec.structs.replace(
        fresh_memo(state),
        kill=state.killed,
        backoffs=tuple(
            Backoff(
                container=b["container"], delay_s=b["delay_s"], updated_at=WALL, for_attempt=b["for_attempt"]
            )
            for b in pair.get("backoffs", [])
        ),
    )
    return msgspec.structs.replace(state, memo=memo, remembered=memo)


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


def with_images(state, now):
    """Return the state once every image that it needs is there."""
    ready = ImageProgress.READY
    wanting = advance(state, now, WALL + int(now * NS))
    reports = tuple(
        ImageReport(
            uid=UID, container=w.container, attempt=w.attempt, image=w.image, progress=ready, ref=w.image
        )
        for w in wanting.wants
    )
    return msgspec.structs.replace(state, wants=wanting.wants, images=reports)


def outcome_of(pair):
    """Return what comes out, as a pair writes it."""
    ops = itertools.count(1)
    now = float(pair.get("now_s", 0))
    decision = decide(with_images(state_of(pair), now), None, now, WALL + int(now * NS), lambda: next(ops))
    status = decision.state.base
    found = {
        "life": type(decision.state.life).__name__,
        "calls": [a.call.brief() for a in decision.actions if isinstance(a, Start)],
        "phase": status.phase,
        "containers": {c.name: container_line(c) for c in status.container_statuses},
        "conditions": {c.type: f"{c.status} {c.reason}".strip() for c in status.conditions},
    }
    if status.reason:
        found["reason"] = f"{status.reason}: {status.message}"
    if decision.wake_at is not None:
        found["wake_s"] = round(decision.wake_at, 3)
    return found


@pytest.mark.parametrize("path", PAIRS, ids=lambda path: path.stem)
def test_a_pair_comes_out_as_its_rule_says(path, request):
    text = path.read_text()
    head, _, _ = text.partition(SPLIT)
    pair = yaml.safe_load(text)
    assert pair["rule"], "a pair names the rule that it is written from"
    found = outcome_of(pair)
    if request.config.getoption("--update", default=False):
        body = yaml.safe_dump(found, sort_keys=False, width=110)
        path.write_text(head + SPLIT + "".join(f"  {line}\n" for line in body.splitlines()))
        return
    assert {key: found.get(key) for key in pair["expect"]} == pair["expect"]


def test_there_are_enough_pairs():
    assert len(PAIRS) >= 15
