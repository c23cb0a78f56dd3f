"""Commands with streams: where they are reached, and why some are not begun."""

import pytest

from api.errors import FailureKind
from api.ports.streams import OpenExec
from tests.conformance.containers.driver import CallFailedError
from tests.conformance.containers.script import ExitWith, Run


def opened(bench, uid, container_id, **fields):
    command, args = bench.driver.command_for(ExitWith(0))
    values = {"command": (*command, *args)} | fields
    return bench.call(OpenExec(uid=uid, container_id=container_id, **values))


def refused(bench, uid, container_id, **fields):
    with pytest.raises(CallFailedError) as caught:
        opened(bench, uid, container_id, **fields)
    assert caught.value.failure.message
    return caught.value.kind


def expected(bench, kind):
    """Return how a call is refused: a runtime without streams looks at none of them."""
    return kind if bench.driver.has_streams else FailureKind.REJECTED


def test_a_running_container_gives_each_command_an_address_of_its_own(bench):
    sandbox = bench.run_sandbox()
    container = bench.run(sandbox, Run())
    if not bench.driver.has_streams:
        assert refused(bench, sandbox.uid, container.id) is FailureKind.REJECTED
        return
    first = opened(bench, sandbox.uid, container.id, stdin=True)
    second = opened(bench, sandbox.uid, container.id, tty=True, stderr=False)
    for one in (first, second):
        assert one.url.startswith("http://")
        assert one.url not in repr(one), "whoever has it has the command"
    assert first.url != second.url


def test_a_terminal_has_one_output(bench):
    sandbox = bench.run_sandbox()
    container = bench.run(sandbox, Run())
    assert refused(bench, sandbox.uid, container.id, tty=True, stderr=True) is FailureKind.REJECTED


def test_an_unknown_container_has_no_streams(bench):
    sandbox = bench.run_sandbox()
    unknown = f"{bench.driver.scheme}0123456789ab"
    assert refused(bench, sandbox.uid, unknown) is expected(bench, FailureKind.NOT_FOUND)


def test_a_container_that_does_not_run_has_no_streams(bench):
    sandbox = bench.run_sandbox()
    ended = bench.exited(sandbox, bench.run(sandbox, ExitWith(0)))
    assert refused(bench, sandbox.uid, ended.id) is expected(bench, FailureKind.CONFLICT)
