"""Endpoints: what people write, and one line for each way in which nobody answers."""

import errno
import os
import socket

import pytest

from api.errors import RejectedError
from runtime.wire.endpoint import Endpoint, _explain, parse_endpoint


@pytest.mark.parametrize(
    "text", ["unix:///run/a/b.sock", "/run/a/b.sock", "unix:///run/a//b.sock", "unix:///run/x/../a/b.sock"]
)
def test_a_socket_is_named_with_or_without_its_scheme(text):
    assert parse_endpoint(text).path == "/run/a/b.sock"


def test_grpc_gets_its_own_form():
    assert parse_endpoint("unix:///run/a.sock").target == "unix:/run/a.sock"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "is empty"),
        ("run/a.sock", "no absolute path"),
        ("unix://run/a.sock", "no absolute path"),
        ("tcp://127.0.0.1:1", "only Unix sockets"),
        ("npipe:////./pipe/x", "only Unix sockets"),
        ("/" + "x" * 107, "at most 107 bytes"),
        ("/a\0b", "at most 107 bytes"),
    ],
)
def test_what_is_no_endpoint_is_refused_in_one_line_that_says_why(text, why):
    with pytest.raises(RejectedError) as refused:
        parse_endpoint(text, field="containerRuntimeEndpoint")
    assert str(refused.value).startswith("containerRuntimeEndpoint")
    assert why in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_socket_that_is_missing_is_named_with_what_to_do(tmp_path):
    assert Endpoint(f"{tmp_path}/a.sock").trouble() == (
        f"there is no socket {tmp_path}/a.sock: start the container runtime, or name its socket"
    )


def test_a_socket_that_nobody_listens_on_is_named(tmp_path):
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(f"{tmp_path}/a.sock")
    assert f"nobody listens on socket {tmp_path}/a.sock" in Endpoint(f"{tmp_path}/a.sock").trouble()


def test_a_file_is_not_taken_for_a_socket(tmp_path):
    (tmp_path / "file").write_text("")
    assert "a.sock" not in Endpoint(f"{tmp_path}/file").trouble()
    assert Endpoint(f"{tmp_path}/file").trouble()


def test_a_socket_without_permission_names_the_user_and_what_to_do():
    said = _explain("/run/a.sock", PermissionError(errno.EACCES, os.strerror(errno.EACCES)))
    assert said == (
        f"socket /run/a.sock may not be opened by user {os.geteuid()}: run as root, or give that user access to it"
    )


def test_a_socket_that_answers_is_no_trouble(tmp_path):
    with socket.socket(socket.AF_UNIX) as alive:
        alive.bind(f"{tmp_path}/a.sock")
        alive.listen()
        assert Endpoint(f"{tmp_path}/a.sock").trouble() == ""
