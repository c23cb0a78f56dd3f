"""Status codes of gRPC become what the receiver is to do."""

import grpc
import pytest

from api.errors import FailureKind
from runtime.wire.status import KINDS, UNIMPLEMENTED, failure_of


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("NOT_FOUND", FailureKind.NOT_FOUND),
        ("DEADLINE_EXCEEDED", FailureKind.TIMED_OUT),
        ("UNAVAILABLE", FailureKind.UNAVAILABLE),
        ("UNKNOWN", FailureKind.UNAVAILABLE),
        ("INTERNAL", FailureKind.UNAVAILABLE),
        ("RESOURCE_EXHAUSTED", FailureKind.EXHAUSTED),
        ("PERMISSION_DENIED", FailureKind.DENIED),
        ("UNAUTHENTICATED", FailureKind.DENIED),
        ("ALREADY_EXISTS", FailureKind.ALREADY_EXISTS),
        ("CANCELLED", FailureKind.CANCELLED),
        ("INVALID_ARGUMENT", FailureKind.REJECTED),
        ("FAILED_PRECONDITION", FailureKind.CONFLICT),
    ],
)
def test_a_code_becomes_a_kind(code, kind):
    assert failure_of(code, "why", what="Call", where="socket /s").kind is kind


def test_every_code_has_a_kind():
    assert set(KINDS) == {code.name for code in grpc.StatusCode} - {"OK"}


def test_a_call_that_the_server_does_not_know_can_be_told_apart():
    failure = failure_of("UNIMPLEMENTED", "unknown method", what="GetContainerEvents", where="socket /s")
    assert (failure.kind, failure.reason) == (FailureKind.REJECTED, UNIMPLEMENTED)


def test_the_servers_own_words_are_kept_in_one_line():
    failure = failure_of("UNKNOWN", 'failed to\n  resolve "x"', what="PullImage", where="socket /s")
    assert failure.message == 'PullImage: failed to resolve "x"'


def test_a_late_answer_names_the_socket_and_what_is_unknown():
    said = failure_of("DEADLINE_EXCEEDED", "", what="RunPodSandbox", where="socket /s").message
    assert "RunPodSandbox" in said
    assert "socket /s" in said
    assert "unknown" in said
