"""Sandboxes: run, stop, remove, and what is shown of them."""

import pytest

from api.errors import FailureKind
from api.ports.runtime import (
    CreateContainer,
    RemoveSandbox,
    RunSandbox,
    RuntimeContainerState,
    SandboxState,
    StopSandbox,
)
from tests.conformance.containers.driver import CallFailedError, one
from tests.conformance.containers.script import ExitWith, IgnoreTerm, Run


def test_a_new_sandbox_is_ready_and_echoes_what_it_was_made_from(bench):
    before = bench.driver.wall()
    spec = bench.sandbox_spec(bench.new_uid(), attempt=3)
    pod = bench.call(RunSandbox(spec=spec))
    (sandbox,) = pod.sandboxes
    assert (pod.uid, pod.name, pod.namespace, pod.ours) == (spec.uid, spec.name, spec.namespace, True)
    assert (sandbox.uid, sandbox.name, sandbox.namespace) == (spec.uid, spec.name, spec.namespace)
    assert (sandbox.attempt, sandbox.state, sandbox.host_network) == (3, SandboxState.READY, True)
    assert dict(sandbox.labels) == dict(spec.labels)
    assert dict(sandbox.annotations) == dict(spec.annotations)
    assert list(sandbox.labels) == sorted(sandbox.labels)
    assert list(sandbox.annotations) == sorted(sandbox.annotations)
    assert before - 10**9 <= sandbox.created_at <= bench.latest()


def test_running_the_identical_sandbox_again_returns_the_same_one(bench):
    spec = bench.sandbox_spec(bench.new_uid())
    first = bench.call(RunSandbox(spec=spec))
    assert bench.call(RunSandbox(spec=spec)) == first


def test_another_sandbox_under_the_same_attempt_is_refused(bench):
    uid = bench.new_uid()
    bench.run_sandbox(uid)
    with pytest.raises(CallFailedError) as refused:
        bench.call(RunSandbox(spec=bench.sandbox_spec(uid, hostname="different")))
    assert refused.value.kind is FailureKind.ALREADY_EXISTS
    assert len(bench.inspect(uid).sandboxes) == 1


def test_a_stopped_sandbox_keeps_its_record_and_kills_what_ran_in_it(bench):
    sandbox = bench.run_sandbox()
    stubborn = bench.run(sandbox, IgnoreTerm(), "stubborn")
    ended = bench.run(sandbox, ExitWith(4), "ended")
    bench.exited(sandbox, ended)
    pod = bench.call(StopSandbox(uid=sandbox.uid, sandbox_id=sandbox.id))
    assert [(s.id, s.state) for s in pod.sandboxes] == [(sandbox.id, SandboxState.NOT_READY)]
    assert one(pod, stubborn.id).state is RuntimeContainerState.EXITED
    assert one(pod, stubborn.id).exit_code == 137
    assert one(pod, ended.id).exit_code == 4
    assert bench.call(StopSandbox(uid=sandbox.uid, sandbox_id=sandbox.id)) == pod


def test_a_new_attempt_stands_before_the_old_one(bench):
    old = bench.run_sandbox()
    bench.call(StopSandbox(uid=old.uid, sandbox_id=old.id))
    new = bench.run_sandbox(old.uid, attempt=1)
    pod = bench.inspect(old.uid)
    assert [s.id for s in pod.sandboxes] == [new.id, old.id]
    assert [s.state for s in pod.sandboxes] == [SandboxState.READY, SandboxState.NOT_READY]
    assert new.created_at > old.created_at


def test_removing_a_sandbox_removes_its_containers_and_its_record(bench):
    sandbox = bench.run_sandbox()
    bench.run(sandbox, Run())
    bench.call(StopSandbox(uid=sandbox.uid, sandbox_id=sandbox.id))
    pod = bench.call(RemoveSandbox(uid=sandbox.uid, sandbox_id=sandbox.id))
    assert (pod.uid, pod.sandboxes, pod.containers) == (sandbox.uid, (), ())
    assert pod == bench.inspect(sandbox.uid)
    assert sandbox.uid not in [p.uid for p in bench.listing().pods]


def test_a_ready_sandbox_is_stopped_before_it_is_removed(bench):
    sandbox = bench.run_sandbox()
    container = bench.run(sandbox, Run())
    pod = bench.call(RemoveSandbox(uid=sandbox.uid, sandbox_id=sandbox.id))
    assert pod.sandboxes == ()
    assert container.id not in [c.id for p in bench.listing().pods for c in p.containers]


def test_stopping_and_removing_an_unknown_sandbox_succeeds(bench):
    uid = bench.new_uid()
    assert bench.call(StopSandbox(uid=uid, sandbox_id="0123456789ab")).sandboxes == ()
    assert bench.call(RemoveSandbox(uid=uid, sandbox_id="0123456789ab")).sandboxes == ()


def test_no_container_is_made_in_an_unknown_sandbox(bench):
    box = bench.sandbox_spec(bench.new_uid())
    call = CreateContainer(
        uid=box.uid, sandbox_id="0123456789ab", sandbox=box, spec=bench.container_spec(Run())
    )
    with pytest.raises(CallFailedError) as refused:
        bench.call(call)
    assert refused.value.kind is FailureKind.NOT_FOUND


def test_no_container_is_made_in_a_stopped_sandbox(bench):
    sandbox = bench.run_sandbox()
    bench.call(StopSandbox(uid=sandbox.uid, sandbox_id=sandbox.id))
    with pytest.raises(CallFailedError) as refused:
        bench.create(sandbox, Run())
    assert refused.value.kind is FailureKind.CONFLICT


def test_a_host_network_sandbox_and_its_own_say_which_they_are(bench):
    assert bench.run_sandbox(host_network=True).host_network is True
