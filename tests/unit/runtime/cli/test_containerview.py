"""How a command with streams ended, as the command line reads it from the runtime's status."""

import pytest

from runtime.cli.client import VerbError
from runtime.cli.interactive import Wanted, exit_code, query_of


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (b'{"metadata":{},"status":"Success"}', 0),
        (b'{"status":"Failure","details":{"causes":[{"reason":"ExitCode","message":"3"}]}}', 3),
        (
            b'{"status":"Failure","details":{"causes":[{"reason":"X"},{"reason":"ExitCode","message":"137"}]}}',
            137,
        ),
    ],
)
def test_the_status_tells_the_exit_code(text, code):
    assert exit_code(text) == code


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (b'{"status":"Failure","message":"no such container"}', "failed: no such container"),
        (b'{"status":"Failure","reason":"InternalError"}', "failed: InternalError"),
        (b'{"status":"Failure"}', "unknown reason"),
        (b'{"status":"Failure","details":{"causes":[{"reason":"ExitCode","message":"x"}]}}', "failed"),
        (b"error executing command", "failed: error executing command"),
        (b"", "ended before the command"),
    ],
)
def test_another_failure_is_no_exit_code(text, why):
    with pytest.raises(VerbError, match=why):
        exit_code(text)


def test_a_terminal_has_one_output():
    assert query_of(["sh", "-l"], Wanted(stdin=True, tty=True)) == (
        ("command", "sh"),
        ("command", "-l"),
        ("stdin", "true"),
        ("stdout", "true"),
        ("tty", "true"),
    )
    assert ("stderr", "true") in query_of(["sh"], Wanted(stdin=False, tty=False))
