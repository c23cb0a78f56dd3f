"""postStart and preStop hooks: when they run, what waits for them, how they end."""

import msgspec
import pytest

from actors.pod.container.hook import POST_START_LIMIT_S
from actors.pod.core import begin
from actors.pod.explain import explain
from actors.pod.hookrecord import HookKind, HookRecord, recalled_hook_records
from actors.pod.state import MEMO_SECTION, PodMemo, PodSettings, PodState, Syncing, Terminated, Terminating
from api.errors import FailureKind
from api.kube.objects.container import (
    Container,
    ContainerPort,
    ExecAction,
    HTTPGetAction,
    HTTPHeader,
    Lifecycle,
    LifecycleHandler,
    Probe,
    SleepAction,
    TCPSocketAction,
)
from api.lifecycle import Cancel, Start
from api.messages.pod import KillCause, ProbeChanged, ProbeResult
from api.messages.probes import ProbeKind, ProbePod
from api.ports.ledger import Remember
from api.ports.net import PLAIN_HTTP, UNREADABLE, HttpGet
from api.ports.runtime import (
    ANNOTATION_PORTS,
    ANNOTATION_PRE_STOP,
    CreateContainer,
    ExecInContainer,
    ExecResult,
    RunSandbox,
    StartContainer,
    StopContainer,
    StopSandbox,
)
from tests.unit.actors.pods import IMAGE, UID, box, instance, shown, wanted
from tests.unit.actors.tiny import Hand, TinyWorld, calls, running_pod, stopped

WAKE, DRAIN = ("wake", "up"), ("drain",)


def execs(command):
    return LifecycleHandler(exec=ExecAction(command=command))


def sleeps(seconds):
    return LifecycleHandler(sleep=SleepAction(seconds=seconds))


def gets(port=8080, **more):
    return LifecycleHandler(http_get=HTTPGetAction(port=port, path="/hook", **more))


def hooked(name="a", *, start=None, stop=None, **more):
    return Container(name=name, image=IMAGE, lifecycle=Lifecycle(post_start=start, pre_stop=stop), **more)


def events(hand, *reasons):
    return [(e.reason, e.message) for e in hand.state.events if e.reason in reasons]


def status_of(hand, name="a"):
    return next(s for s in hand.status.container_statuses if s.name == name)


def memo_of(hand):
    return msgspec.msgpack.decode(hand.world.pages[MEMO_SECTION], type=PodMemo)


# ---------------------------------------------------------------- postStart


def test_a_post_start_hook_runs_right_after_the_start_and_the_next_container_waits_for_it():
    hand = Hand()
    hand.update(wanted(hooked(start=execs(WAKE)), "b"))
    hand.settle(but=ExecInContainer)
    assert [type(c) for c in hand.started[-2:]] == [StartContainer, ExecInContainer]
    assert [c.spec.name for c in calls(hand, CreateContainer)] == ["a"]
    assert status_of(hand).state.running
    assert not status_of(hand).started
    assert not status_of(hand).ready
    told = explain(hand.state, hand.now, hand.wall)
    assert "postStart hook of container a: exec wake up" in told.waits_for
    hand.end(hand.op_of(ExecInContainer)), hand.settle()
    assert [c.spec.name for c in calls(hand, CreateContainer)] == ["a", "b"]
    assert status_of(hand).started
    assert status_of(hand).ready


def test_a_post_start_hook_has_no_limit_but_that_of_every_call():
    hand = Hand()
    hand.update(wanted(hooked(start=execs(WAKE)))), hand.settle(but=ExecInContainer)
    (call,) = calls(hand, ExecInContainer)
    assert call.timeout_s >= POST_START_LIMIT_S >= 3600
    assert call.limit_bytes <= 1 << 16
    hand.wait(3600), hand.observe()
    assert not hand.cancelled


def test_a_failed_post_start_hook_stops_the_container_and_says_so():
    hand = Hand()
    hand.world.commands[WAKE] = ExecResult(exit_code=3, stderr=b"the secret is 42")
    hand.update(wanted(hooked(start=execs(WAKE)), policy="Never")), hand.settle()
    assert ("FailedPostStartHook", "PostStartHook failed") in events(hand, "FailedPostStartHook")
    assert ("Killing", "FailedPostStartHook") in events(hand, "Killing")
    assert "42" not in repr(hand.state.events), "what a hook prints may be secret"
    assert stopped(hand) == [("a", 30)]


def test_the_next_try_after_a_failed_post_start_hook_waits_with_its_reason():
    hand = Hand()
    hand.world.commands[WAKE] = ExecResult(exit_code=3, stdout=b"out", stderr=b"err")
    hand.update(wanted(hooked(start=execs(WAKE)))), hand.settle()
    waiting = status_of(hand).state.waiting
    assert waiting.reason == "PostStartHookError"
    assert waiting.message == (
        'Exec lifecycle hook ([wake up]) for Container "a" in Pod "web_default(u1)" failed - error:'
        " command 'wake up' exited with 3: err, message: \"outerr\""
    )
    hand.ring(), hand.settle()
    assert len(calls(hand, CreateContainer)) == 2, "the first restart has no back-off"
    hand.ring(), hand.settle()
    assert status_of(hand).state.waiting.reason == "CrashLoopBackOff"


def test_a_failed_post_start_hook_of_one_container_runs_its_pre_stop_hook():
    hand = Hand()
    hand.world.commands[WAKE] = ExecResult(exit_code=1)
    hand.update(wanted(hooked(start=execs(WAKE), stop=execs(DRAIN)), policy="Never")), hand.settle()
    assert [c.command for c in calls(hand, ExecInContainer)] == [WAKE, DRAIN]


def test_a_kill_interrupts_a_post_start_hook_and_waits_for_nothing():
    hand = Hand()
    hand.update(wanted(hooked(start=execs(WAKE)))), hand.settle(but=ExecInContainer)
    op = hand.op_of(ExecInContainer)
    hand.kill()
    assert hand.cancelled == [op]
    hand.settle_until(StopContainer)
    assert stopped(hand) == [("a", 30)]
    assert not events(hand, "FailedPostStartHook")
    assert not status_of(hand).started


def test_a_post_start_pause_takes_no_call():
    hand = Hand()
    hand.update(wanted(hooked(start=sleeps(5)), "b")), hand.settle()
    assert hand.open == {}
    assert [c.spec.name for c in calls(hand, CreateContainer)] == ["a"]
    assert hand.wake_at - hand.now == pytest.approx(5, abs=0.2)
    hand.ring(), hand.settle()
    assert [c.spec.name for c in calls(hand, CreateContainer)] == ["a", "b"]


def test_a_container_that_ends_before_its_pause_is_over_failed_its_start():
    hand = Hand()
    hand.update(wanted(hooked(start=sleeps(50)))), hand.settle()
    hand.wait(1), hand.world.exit("a", 0, hand.wall), hand.wait(0.1), hand.observe(), hand.settle()
    waiting = status_of(hand).state.waiting
    assert waiting.reason == "PostStartHookError"
    assert "Sleep lifecycle hook (50)" in waiting.message
    assert "container terminated before sleep hook finished" in waiting.message


PROBED = Probe(exec=ExecAction(command=("check",)))


@pytest.mark.parametrize("startup", [None, PROBED])
def test_probing_begins_when_the_post_start_hook_is_over(startup):
    hand = Hand()
    hand.update(wanted(hooked(start=execs(WAKE), readiness_probe=PROBED, startup_probe=startup)))
    hand.settle(but=ExecInContainer)
    hand.wait(5), hand.observe()
    assert not any(message.targets for message in hand.messages(ProbePod))
    hand.settle()
    ((target,),) = (message.targets for message in hand.messages(ProbePod) if message.targets)
    assert target.container_id == hand.world.view.containers[0].id
    assert target.started is (startup is None), "without a startup probe it counts as started"


def test_nothing_is_probed_of_a_container_whose_post_start_hook_failed():
    hand = Hand()
    hand.world.commands[WAKE] = ExecResult(exit_code=3)
    hand.update(wanted(hooked(start=execs(WAKE), readiness_probe=PROBED), policy="Never"))
    hand.settle()
    assert not any(message.targets for message in hand.messages(ProbePod))


def test_what_is_adopted_has_its_start_behind_it():
    world = TinyWorld(shown(box(), instance("a")))
    world.pages[MEMO_SECTION] = msgspec.msgpack.encode(PodMemo(name="web", namespace="default"))
    hand = Hand(world)
    hand.update(wanted(hooked(start=execs(WAKE)))), hand.settle()
    assert calls(hand, ExecInContainer) == []
    assert status_of(hand).started


def test_a_post_start_hook_that_the_agents_death_interrupted_runs_again():
    first = Hand()
    pod = wanted(hooked(start=execs(WAKE)), "b")
    first.update(pod), first.settle(but=ExecInContainer)
    again = Hand(first.world, now=first.now)
    again.update(pod), again.settle()
    assert [c.command for c in calls(again, ExecInContainer)] == [WAKE]
    assert [c.spec.name for c in calls(again, CreateContainer)] == ["b"]
    third = Hand(again.world, now=again.now)
    third.update(pod), third.settle()
    assert calls(third, ExecInContainer) == [], "it went well, and that is remembered"


def test_a_pod_without_hooks_costs_no_write_more():
    plain, with_hook = Hand(), Hand()
    plain.update(wanted("a")), plain.settle()
    with_hook.update(wanted(hooked(start=execs(WAKE)))), with_hook.settle()
    assert len(calls(plain, Remember)) == 1
    assert len(calls(with_hook, Remember)) == 3


# ---------------------------------------------------------------- preStop


def test_a_pre_stop_hook_runs_before_the_stop_and_its_time_is_taken_off():
    hand = running_pod(wanted(hooked(stop=execs(DRAIN))))
    hand.kill(), hand.settle(but=ExecInContainer)
    assert stopped(hand) == []
    assert events(hand, "Killing") == [("Killing", "Stopping container a")]
    hand.end(hand.op_of(ExecInContainer), took=28.9)
    hand.settle_until(StopContainer)
    assert stopped(hand) == [("a", 2)], "30 - 28 whole seconds"
    assert events(hand, "Killing") == [("Killing", "Stopping container a")]


def test_a_pre_stop_hook_keeps_no_other_container_from_being_stopped():
    hand = running_pod(wanted(hooked("a", stop=execs(DRAIN)), "b", "c"))
    hand.kill(), hand.settle(but=(ExecInContainer, StopContainer))
    assert sorted(stopped(hand)) == [("b", 30), ("c", 30)]
    hand.wait(3)
    hand.end(hand.op_of(ExecInContainer), took=0)
    assert stopped(hand)[2:] == [("a", 27)], "it waits for no other container's end"


def test_a_pre_stop_hook_that_outlasts_the_grace_is_given_up_and_two_seconds_are_left():
    hand = running_pod(wanted(hooked(stop=execs(DRAIN)), grace=10))
    hand.kill(), hand.settle(but=ExecInContainer)
    op = hand.op_of(ExecInContainer)
    hand.ring()
    assert hand.cancelled == [op]
    assert stopped(hand) == [("a", 2)]
    assert not events(hand, "FailedPreStopHook")


def test_a_failed_pre_stop_hook_is_told_and_the_stop_follows():
    hand = running_pod(wanted(hooked(stop=execs(DRAIN))))
    hand.world.commands[DRAIN] = ExecResult(exit_code=1, stderr=b"secret")
    hand.kill(), hand.settle_until(StopContainer)
    assert events(hand, "FailedPreStopHook") == [("FailedPreStopHook", "PreStopHook failed")]
    assert stopped(hand) == [("a", 30)]


def test_a_shorter_grace_aborts_the_wait_for_a_hook_and_stops():
    hand = running_pod(wanted(hooked(stop=execs(DRAIN)), grace=60))
    hand.kill(), hand.settle(but=ExecInContainer)
    op = hand.op_of(ExecInContainer)
    hand.wait(3), hand.kill(grace=20)
    assert hand.cancelled == [op]
    hand.settle_until(StopContainer)
    assert stopped(hand) == [("a", 20)]


def test_a_longer_grace_changes_nothing():
    hand = running_pod(wanted(hooked(stop=execs(DRAIN)), grace=20))
    hand.kill(), hand.settle(but=ExecInContainer)
    hand.wait(3), hand.kill(grace=60), hand.settle(but=ExecInContainer)
    assert hand.cancelled == []
    assert stopped(hand) == []


def test_a_hook_runs_once_for_an_instance_however_often_it_is_stopped():
    hand = running_pod(wanted(hooked(stop=execs(DRAIN)), grace=10))
    hand.kill(), hand.settle_until(StopContainer)
    (
        hand.fail(StopContainer, FailureKind.TIMED_OUT),
        hand.settle(),
        hand.ring(),
        hand.settle_until(StopSandbox),
    )
    assert len(calls(hand, ExecInContainer)) == 1
    assert len(calls(hand, StopContainer)) == 2


def test_a_hook_runs_once_also_when_the_ledger_takes_nothing_and_what_it_missed_is_written_again():
    hand = running_pod(wanted(hooked("a", stop=execs(DRAIN)), hooked("b", stop=execs(DRAIN)), grace=60))
    hand.kill(), hand.fail(Remember)
    for op in [flight.op for flight in hand.state.hooks]:
        hand.end(op, took=0)
    hand.fail(StopContainer, FailureKind.REJECTED), hand.fail(Remember)
    hand.fail(StopContainer, FailureKind.REJECTED), hand.settle()
    hand.ring(), hand.settle()
    assert all(mark.ended for mark in hand.state.memo.hooks)
    assert len(calls(hand, ExecInContainer)) == 2


def test_a_pause_before_the_stop_is_an_alarm():
    hand = running_pod(wanted(hooked(stop=sleeps(7))))
    hand.kill(), hand.settle()
    assert hand.open == {}
    assert "preStop hook of container a: sleep of 7 s" in explain(hand.state, hand.now, hand.wall).waits_for
    hand.ring()
    assert stopped(hand) == [("a", 23)]


def test_a_pause_goes_on_after_a_restart_of_the_agent():
    first = running_pod(wanted(hooked(stop=sleeps(20))))
    first.kill(), first.settle()
    again = Hand(first.world, now=first.now + 5)
    again.update(wanted(hooked(stop=sleeps(20)))), again.settle()
    assert isinstance(again.state.life, Terminating)
    assert again.wake_at - again.now == pytest.approx(15, abs=0.3)


def test_a_restarted_supervisor_takes_no_grace_from_a_pod_that_was_being_stopped():
    pod = wanted(hooked(stop=sleeps(20)))
    first = running_pod(pod)
    first.kill(), first.settle()
    again = Hand(first.world, now=first.now + 5)
    again.kill(cause=KillCause.ORPHAN), again.settle()
    again.wait(2), again.kill(cause=KillCause.ORPHAN), again.settle()
    assert again.state.killed.cause is KillCause.REMOVED
    assert again.wake_at - again.now == pytest.approx(13, abs=0.3)


def test_a_command_that_a_restart_of_the_agent_interrupted_runs_once_more_and_no_third_time():
    pod = wanted(hooked(stop=execs(DRAIN)))
    first = running_pod(pod)
    first.kill(), first.settle(but=ExecInContainer)
    second = Hand(first.world, now=first.now + 4)
    second.update(pod), second.settle(but=ExecInContainer)
    assert [c.command for c in calls(second, ExecInContainer)] == [DRAIN]
    third = Hand(second.world, now=second.now + 4)
    third.update(pod), third.settle_until(StopContainer)
    assert calls(third, ExecInContainer) == []
    assert stopped(third)[0][1] in (21, 22)


def test_a_hook_that_was_over_when_the_agent_died_does_not_run_again():
    pod = wanted(hooked(stop=execs(DRAIN)))
    first = running_pod(pod)
    first.kill(), first.settle_until(StopContainer)
    first.end(first.op_of(Remember))
    again = Hand(first.world, now=first.now)
    again.update(pod), again.settle_until(StopContainer)
    assert calls(again, ExecInContainer) == []


def test_a_new_incarnation_cancels_the_hooks_of_the_last_one_and_runs_them_once_more():
    first = running_pod(wanted(hooked(stop=execs(DRAIN))))
    first.kill(), first.settle(but=ExecInContainer)
    op = first.op_of(ExecInContainer)
    state = PodState(uid=UID, settings=PodSettings(log_root="/logs"))
    decision = begin(state, first.now, first.wall, lambda: 1, in_flight=(op,), hooks=(op,))
    assert [a.op for a in decision.actions if isinstance(a, Cancel)] == [op]
    assert not [a for a in decision.actions if isinstance(a, Start)], "nothing is started beside what is left"


def test_a_container_that_ends_during_its_hook_is_not_stopped():
    hand = running_pod(wanted(hooked(stop=execs(DRAIN))))
    hand.kill(), hand.settle(but=ExecInContainer)
    hand.wait(1), hand.world.exit("a", 0, hand.wall), hand.wait(0.1), hand.observe()
    assert hand.cancelled
    hand.settle()
    assert stopped(hand) == []


def test_a_hook_that_ended_with_the_kill_shows_in_what_was_tried():
    hand = running_pod(wanted(hooked(stop=execs(DRAIN))))
    hand.kill(), hand.settle_until(StopContainer)
    tried = explain(hand.state, hand.now, hand.wall).tried
    assert [t.what for t in tried if "hook" in t.what] == ["preStop hook of container a: exec drain"]


def test_a_changed_container_runs_its_hook_and_the_others_go_on():
    pod = wanted(hooked("a", stop=execs(DRAIN)), "b")
    hand = running_pod(pod)
    spec = pod.spec
    newer = (msgspec.structs.replace(spec.containers[0], image=f"{IMAGE}2"), spec.containers[1])
    hand.update(
        msgspec.structs.replace(pod, spec=msgspec.structs.replace(spec, containers=newer)), generation=2
    )
    hand.settle(but=ExecInContainer)
    assert stopped(hand) == []
    assert events(hand, "Killing") == [("Killing", "Container a definition changed, will be restarted")]
    hand.wait(1), hand.world.exit("b", 1, hand.wall), hand.wait(0.1), hand.observe()
    hand.settle(but=ExecInContainer)
    assert [c.spec.name for c in calls(hand, CreateContainer)] == ["a", "b", "b"], "b is restarted meanwhile"
    hand.end(hand.op_of(ExecInContainer)), hand.settle()
    assert [name for name, _ in stopped(hand)] == ["a"]
    assert [c.spec.image for c in calls(hand, CreateContainer)][-1] == f"{IMAGE}2"


def test_what_a_liveness_probe_found_ill_runs_its_hook_within_the_probes_grace():
    probe = Probe(exec=ExecAction(command=("check",)), termination_grace_period_seconds=9)
    hand = running_pod(wanted(hooked("a", stop=execs(DRAIN), liveness_probe=probe), "b"))
    ill = hand.world.view.containers[-1]
    failed = ProbeChanged(
        uid=UID,
        container="a",
        container_id=ill.id,
        kind=ProbeKind.LIVENESS,
        result=ProbeResult.FAILURE,
        checked=3,
    )
    hand.give(failed), hand.settle(but=ExecInContainer)
    assert stopped(hand) == []
    assert events(hand, "Killing") == [("Killing", "Container a failed liveness probe, will be restarted")]
    hand.wait(1), hand.world.exit("b", 1, hand.wall), hand.wait(0.1), hand.observe()
    hand.settle(but=ExecInContainer)
    assert [c.spec.name for c in calls(hand, CreateContainer)] == ["a", "b", "b"], "b is restarted meanwhile"
    hand.wait(2), hand.end(hand.op_of(ExecInContainer)), hand.settle()
    ((name, grace_s),) = stopped(hand)
    assert (name, grace_s) == ("a", 6)
    assert [c.spec.name for c in calls(hand, CreateContainer)] == ["a", "b", "b", "a"]


def test_a_renewed_sandbox_runs_the_hooks_of_what_still_runs():
    hand = Hand(TinyWorld(shown(box(1), box(0), instance("a"))))
    hand.update(wanted(hooked(stop=execs(DRAIN)))), hand.settle(but=ExecInContainer)
    assert not calls(hand, StopContainer, StopSandbox)
    hand.end(hand.op_of(ExecInContainer)), hand.settle_until(RunSandbox)
    assert stopped(hand) == [("a", 30)]


def test_an_orphans_hook_is_in_its_annotation():
    annotations = ((ANNOTATION_PRE_STOP, '{"exec":{"command":["drain"]}}'),)
    hand = Hand(TinyWorld(shown(box(), instance("a", annotations=annotations))))
    hand.kill(cause=KillCause.ORPHAN), hand.settle_until(StopContainer)
    assert [c.command for c in calls(hand, ExecInContainer)] == [DRAIN]


def test_an_orphans_annotation_that_does_not_decode_is_no_hook():
    annotations = ((ANNOTATION_PRE_STOP, '{"exec":'),)
    hand = Hand(TinyWorld(shown(box(), instance("a", annotations=annotations))))
    hand.kill(cause=KillCause.ORPHAN), hand.settle_until(StopContainer)
    assert calls(hand, ExecInContainer) == []


# ---------------------------------------------------------------- httpGet


def test_an_http_hook_asks_the_pod_by_its_ports_name():
    port = (ContainerPort(name="web", container_port=8080),)
    header = (HTTPHeader(name="X-A", value="1"),)
    hand = running_pod(wanted(hooked(stop=gets("web", http_headers=header), ports=port)))
    hand.kill(), hand.settle_until(HttpGet)
    (call,) = calls(hand, HttpGet)
    assert (call.scheme, call.host, call.port, call.path) == ("http", "10.0.0.9", 8080, "/hook")
    assert dict(call.headers) == {"X-A": "1", "User-Agent": "kube-lifecycle/1.36"}
    hand.settle_until(StopContainer)


def test_an_orphans_http_hook_finds_its_port_in_the_annotation():
    annotations = (
        (ANNOTATION_PORTS, '[{"name":"web","containerPort":8081,"protocol":"TCP"}]'),
        (ANNOTATION_PRE_STOP, '{"httpGet":{"path":"/hook","port":"web","scheme":"HTTP"}}'),
    )
    hand = Hand(TinyWorld(shown(box(), instance("a", annotations=annotations))))
    hand.kill(cause=KillCause.ORPHAN), hand.settle_until(HttpGet)
    assert calls(hand, HttpGet)[0].port == 8081


def test_a_hook_that_speaks_tls_to_a_plain_server_is_repeated_without():
    headers = (HTTPHeader(name="Authorization", value="secret"),)
    hand = running_pod(wanted(hooked(stop=gets(scheme="HTTPS", http_headers=headers))))
    hand.kill(), hand.settle_until(HttpGet)
    hand.end(hand.op_of(HttpGet), FailureKind.UNAVAILABLE, reason=PLAIN_HTTP)
    first, second = calls(hand, HttpGet)
    assert (first.scheme, second.scheme) == ("https", "http")
    assert "Authorization" not in dict(second.headers)
    hand.settle_until(StopContainer)
    ((_, message),) = events(hand, "LifecycleHTTPFallback")
    assert message.endswith("got HTTP response, retry with HTTP succeeded")


@pytest.mark.parametrize(
    ("failure", "reason", "told"),
    [(FailureKind.UNAVAILABLE, "", True), (FailureKind.UNAVAILABLE, UNREADABLE, False), (None, "", False)],
)
def test_any_answer_is_success_and_only_no_answer_fails(failure, reason, told):
    hand = running_pod(wanted(hooked(stop=gets())))
    hand.kill(), hand.settle_until(HttpGet)
    hand.end(hand.op_of(HttpGet), failure, reason=reason), hand.settle_until(StopContainer)
    assert bool(events(hand, "FailedPreStopHook")) is told


def test_an_http_hook_that_fails_at_the_start_is_published_with_its_path():
    hand = Hand()
    hand.update(wanted(hooked(start=gets()))), hand.settle_until(HttpGet)
    hand.end(hand.op_of(HttpGet), FailureKind.UNAVAILABLE), hand.settle()
    text = 'HTTP lifecycle hook (/hook) for Container "a" in Pod "web_default(u1)" failed - error: it broke'
    assert status_of(hand).state.waiting.message == text


# ---------------------------------------------------------------- order of the stop


SIDECARS = tuple(Container(name=n, image=IMAGE, restart_policy="Always") for n in ("s1", "s2"))


def with_sidecars(*more, s1=None, grace=30):
    first = msgspec.structs.replace(SIDECARS[0], lifecycle=Lifecycle(pre_stop=s1)) if s1 else SIDECARS[0]
    pod = wanted(*(more or ("a", "b")), grace=grace)
    spec = msgspec.structs.replace(pod.spec, init_containers=(first, SIDECARS[1]))
    return msgspec.structs.replace(pod, spec=spec)


def killed_with_sidecars(pod, grace=None):
    """Return a hand on a killed pod whose init containers are known to the stop only: nothing has brought them up."""
    names = [c.name for c in (*pod.spec.init_containers, *pod.spec.containers)]
    hand = Hand(TinyWorld(shown(box(), *(instance(name) for name in names))))
    hand.kill(grace=grace, cause=KillCause.DELETED)
    hand.update(pod)
    return hand


def test_sidecars_are_stopped_last_and_in_reverse_order():
    hand = killed_with_sidecars(with_sidecars())
    hand.settle_until(StopContainer)
    assert [name for name, _ in stopped(hand)] == ["a", "b"]
    hand.end(hand.op_of(StopContainer))
    assert [name for name, _ in stopped(hand)] == ["a", "b"]
    hand.end(hand.op_of(StopContainer))
    assert [name for name, _ in stopped(hand)] == ["a", "b", "s2"]
    hand.end(hand.op_of(StopContainer))
    assert [name for name, _ in stopped(hand)] == ["a", "b", "s2", "s1"]


def test_a_sidecars_hook_runs_at_once_and_only_its_stop_waits():
    hand = killed_with_sidecars(with_sidecars(s1=execs(DRAIN)))
    hand.settle(but=(StopContainer, ExecInContainer))
    assert [c.container_id for c in calls(hand, ExecInContainer)] == ["tiny://s10"]
    hand.end(hand.op_of(ExecInContainer))
    assert [name for name, _ in stopped(hand)] == ["a", "b"]
    hand.settle()
    assert [name for name, _ in stopped(hand)] == ["a", "b", "s2", "s1"]


def test_when_the_grace_is_used_up_every_sidecar_is_stopped_at_once():
    hand = killed_with_sidecars(with_sidecars(grace=10))
    hand.settle(but=StopContainer)
    hand.ring()
    assert stopped(hand)[2:] == [("s1", 2), ("s2", 2)]


def test_the_wait_for_its_turn_is_explained():
    pod = with_sidecars(hooked("a", stop=execs(DRAIN)))
    hand = killed_with_sidecars(pod)
    hand.settle(but=(StopContainer, ExecInContainer))
    assert "preStop hook of container a" in explain(hand.state, hand.now, hand.wall).waits_for


def test_a_sidecar_that_does_not_run_is_waited_for_by_nobody():
    pod = with_sidecars("a")
    hand = Hand(TinyWorld(shown(box(), instance("s1"), instance("s2", "exited"), instance("a", "exited"))))
    hand.kill(cause=KillCause.DELETED), hand.update(pod), hand.settle_until(StopContainer)
    assert [name for name, _ in stopped(hand)] == ["s1"]


# ---------------------------------------------------------------- marks


def test_a_stop_that_nobody_wants_any_more_is_forgotten_with_its_hook():
    mark = HookRecord(kind=HookKind.PRE_STOP, container="a", attempt=0, grace_s=30)
    assert recalled_hook_records((mark,), killed=False) == ()
    (kept,) = recalled_hook_records((mark,), killed=True)
    assert kept.again
    assert not kept.ended
    (over,) = recalled_hook_records((kept,), killed=True)
    assert over.ended
    pause = msgspec.structs.replace(mark, pause=True)
    assert recalled_hook_records((pause,), killed=False) == (pause,)


def test_the_marks_of_a_pod_that_ended_are_gone():
    hand = running_pod(wanted(hooked(start=execs(WAKE), stop=execs(DRAIN))))
    assert isinstance(hand.state.life, Syncing)
    assert memo_of(hand).hooks == ()
    hand.kill(deleted=False), hand.settle()
    assert not isinstance(hand.state.life, Terminated)
    assert memo_of(hand).hooks == ()


# ---------------------------------------------------------------- what cannot be called

TCP = LifecycleHandler(tcp_socket=TCPSocketAction(port=80))


def test_a_pre_stop_hook_over_tcp_fails_and_the_stop_follows_at_once():
    hand = Hand()
    hand.update(wanted(hooked(stop=TCP), grace=20)), hand.settle()
    hand.kill(), hand.settle()
    assert events(hand, "FailedPreStopHook") == [("FailedPreStopHook", "PreStopHook failed")]
    assert stopped(hand) == [("a", 20)]


def test_a_post_start_hook_over_tcp_fails_the_start_and_says_what_to_use():
    hand = Hand()
    hand.update(wanted(hooked(start=TCP), policy="Never")), hand.settle()
    assert events(hand, "FailedPostStartHook") == [("FailedPostStartHook", "PostStartHook failed")]
    assert stopped(hand) == [("a", 30)]
