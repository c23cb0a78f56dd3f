"""What requests say in their paths and queries."""

import pytest

from runtime.server.query import container_of, flag, number, pod_of
from runtime.server.wire import Request, RequestRefusedError


def request(path="/exec/default/web", **query):
    pairs = tuple((name, value) for name, values in query.items() for value in values)
    return Request(method="GET", segments=tuple(path.strip("/").split("/")), query=pairs)


@pytest.mark.parametrize(
    ("path", "pod", "container"),
    [
        ("/exec/default/web", "default/web", ""),
        ("/exec/-/web", "web", ""),
        ("/exec/-/web/main", "web", "main"),
    ],
)
def test_a_path_names_a_pod_and_perhaps_a_container(path, pod, container):
    assert (pod_of(request(path)), container_of(request(path))) == (pod, container)


@pytest.mark.parametrize(
    ("values", "means"),
    [
        ((), False),
        (("",), True),
        (("1",), True),
        (("true",), True),
        (("0",), False),
        (("true", "false"), False),
    ],
)
def test_the_last_word_of_a_flag_counts_and_none_is_false(values, means):
    assert flag(request(tty=values), "tty") is means


def test_a_flag_that_is_neither_is_refused_by_its_name():
    with pytest.raises(RequestRefusedError, match="tty=yes is neither true nor false"):
        flag(request(tty=("yes",)), "tty")


def test_a_number_that_is_left_out_has_a_default_and_one_too_small_or_strange_is_refused():
    assert number(request(), "tail") is None
    assert number(request(), "n", default=16) == 16
    assert number(request(tail=("7",)), "tail") == 7
    for text in ("-1", "1.5", "\u0661", "1" * 16, "0"):
        with pytest.raises(RequestRefusedError, match="whole number of at least 1"):
            number(request(n=(text,)), "n", least=1)
