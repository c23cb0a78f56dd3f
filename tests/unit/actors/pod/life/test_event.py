"""What a pod tells of itself: when a changed sandbox is one, where in the pod it happened, how often."""

import itertools

import pytest
from msgspec.structs import replace

from actors.pod.core import decide
from actors.pod.life.event import field_path, new_events, with_event
from actors.pod.outcome import absorb_outcome
from actors.pod.report import report
from actors.pod.state import (
    Finished,
    Flight,
    Gone,
    Kill,
    NodeSetup,
    ObservedView,
    PodCalls,
    PodSettings,
    PodState,
    PortCall,
    Recalling,
    Syncing,
    Terminating,
    WantedPod,
    change_view,
)
from api import paths
from api.errors import Failure, FailureKind
from api.ids import Path
from api.kube.objects.container import Container, EphemeralContainer
from api.lifecycle import Tell
from api.messages.events import EventSeen, KeepEvents, ReleaseEvents
from api.messages.kernel import Outcome
from api.messages.pod import KillCause
from api.ports.runtime import RunSandbox, SandboxSpec, StartContainer
from tests.unit.actors.pods import UID, WALL, box, shown, wanted

KILL = Kill(
    cause=KillCause.REMOVED, grace_s=1, asked_at=WALL, stop_by=WALL, asked_by=Path("/node/pods"), deleted=True
)


def pod_state(**fields):
    settings = PodSettings(log_root="/logs")
    return PodState(uid=UID, settings=settings, wanted=WantedPod(pod=wanted("a")), life=Syncing(), **fields)


def told(actions):
    return [a.message for a in actions if isinstance(a, Tell) and a.to == paths.EVENTS]


@pytest.mark.parametrize(("attempt", "reasons"), [(0, []), (1, ["SandboxChanged"])])
def test_a_sandbox_changed_when_it_is_not_the_first_one_though_a_listing_showed_it_before(attempt, reasons):
    spec = SandboxSpec(uid=UID, name="web", namespace="default", attempt=attempt, log_directory="/logs/x")
    what = PortCall(port="runtime", call=RunSandbox(spec=spec), deadline_s=9.0)
    flying = pod_state(
        calls=PodCalls(inflight=(Flight(op=1, what=what, since=0.0),)),
        view=ObservedView(observed=shown(box(attempt))),
        setup=NodeSetup(folders=True),
    )
    ended = Outcome(op=1, call="RunSandbox", result=shown(box(attempt)), started_at=0.0, ended_at=1.0)
    ops = itertools.count(2)
    after = decide(flying, ended, 1.0, WALL, lambda: next(ops)).state
    assert [e.reason for e in after.events] == reasons


def test_each_kind_of_container_has_its_own_field_path():
    pod = wanted(
        "a",
        init_containers=(Container(name="i", image="x"),),
        ephemeral_containers=(EphemeralContainer(name="e", image="x"),),
    )
    state = replace(pod_state(), wanted=WantedPod(pod=pod))
    paths = [field_path(state, name) for name in ("a", "i", "e", "gone", "")]
    assert paths == [
        "spec.containers{a}",
        "spec.initContainers{i}",
        "spec.ephemeralContainers{e}",
        "spec.containers{gone}",
        "",
    ]


def test_what_is_told_is_what_is_new_and_how_often():
    before = with_event(pod_state(), WALL, "Normal", "Started", "Container started", "a")
    after = with_event(before, WALL + 1, "Normal", "Started", "Container started", "a")
    after = with_event(after, WALL + 2, "Normal", "Killing", "Stopping container a", "a")
    seen = new_events(before, after)
    assert [(e.reason, e.times, e.at, e.field_path) for e in seen] == [
        ("Started", 1, WALL + 1, "spec.containers{a}"),
        ("Killing", 1, WALL + 2, "spec.containers{a}"),
    ]
    assert (seen[0].namespace, seen[0].pod) == ("default", "web")
    assert new_events(after, change_view(after, settled_at=3.0)) == ()


def test_the_recorder_learns_that_a_pod_is_there_that_it_is_gone_and_again_after_its_own_restart():
    recalling = replace(pod_state(), life=Recalling())
    [keep] = told(report(recalling, pod_state()))
    assert keep == KeepEvents(uid=UID, namespace="default", pod="web")
    assert told(report(pod_state(), pod_state(), resend=paths.EVENTS)) == [keep]
    finished, gone = (
        replace(pod_state(), life=Finished(kill=KILL)),
        replace(pod_state(), life=Gone(kill=KILL)),
    )
    last = with_event(gone, WALL, "Warning", "Last", "words")
    [event, release] = told(report(finished, last))
    assert isinstance(event, EventSeen)
    assert release == ReleaseEvents(uid=UID)
    assert told(report(gone, gone, resend=paths.EVENTS)) == []


def ended_badly(call, life, text):
    what = PortCall(
        port="runtime", call=call, deadline_s=9.0, container=getattr(call, "container_id", "") and "a"
    )
    flying = replace(pod_state(calls=PodCalls(inflight=(Flight(op=1, what=what, since=0.0),))), life=life)
    failure = Failure(kind=FailureKind.UNAVAILABLE, message=text)
    ended = Outcome(op=1, call=type(call).__name__, failure=failure, started_at=0.0, ended_at=1.0)
    return absorb_outcome(flying, ended, 1.0, WALL).events


def test_an_error_names_the_container_and_not_its_number():
    call = StartContainer(uid=UID, container_id="containerd://0f0f0f")
    [event] = ended_badly(call, Syncing(), 'task 0f0f0f: exec: "nope": not found')
    assert event.message == 'Error: task a: exec: "nope": not found'


def test_a_sandbox_that_nobody_needs_any_more_fails_in_silence():
    spec = SandboxSpec(uid=UID, name="web", namespace="default", attempt=0, log_directory="/logs/x")
    assert ended_badly(RunSandbox(spec=spec), Terminating(kill=KILL), "no network") == ()
    [event] = ended_badly(RunSandbox(spec=spec), Syncing(), "no network")
    assert event.message == "Failed to create pod sandbox: no network"
