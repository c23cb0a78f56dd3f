"""Commands with streams on the embedded runtime."""

from api.errors import FailureKind
from api.ports.streams import OpenExec
from runtime.drivers.embedded.streaming import EmbeddedStreams


def test_a_command_with_streams_is_refused_at_once_with_what_to_do_instead():
    answers = []
    call = OpenExec(uid="u", container_id="embedded://1", command=("sh",), tty=True, stderr=False)
    EmbeddedStreams().begin(call, 1.0, lambda *answer: answers.append(answer))()
    ((result, failure),) = answers
    assert result is None
    assert failure.kind is FailureKind.REJECTED
    assert "remove -i and -t" in failure.message
