"""Reading an HTTP answer piece by piece, and writing a GET."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.drivers.net.httptext import GetExchange, MalformedError, Target, following

CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4;x=y\r\nwiki\r\n5\r\npedia\r\n0\r\n\r\n"
WHOLE = [
    (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", 200, b"hello"),
    (b"HTTP/1.0 404 Not Found\r\ncontent-length:0\r\n\r\n", 404, b""),
    (b"HTTP/1.1 204 No Content\r\n\r\n", 204, b""),
    (b"HTTP/1.1 200\r\nContent-Length: 2\r\n\r\nok", 200, b"ok"),
    (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 500 No\r\nContent-Length: 1\r\n\r\nx", 500, b"x"),
    (CHUNKED, 200, b"wikipedia"),
]


def read(data, cuts=(), limit=1024):
    answer = GetExchange(target(), (), limit)
    at = 0
    for cut in (*sorted(cuts), len(data)):
        if cut > at and not answer.complete:
            answer.feed(data[at:cut])
            at = cut
    return answer


@pytest.mark.parametrize(("data", "status", "body"), WHOLE)
@given(cuts=st.lists(st.integers(1, 120), max_size=12))
def test_an_answer_is_the_same_wherever_it_is_cut(data, status, body, cuts):
    answer = read(data, [cut for cut in cuts if cut < len(data)])
    assert (answer.complete, answer.status, answer.body, answer.truncated) == (True, status, body, False)


def test_a_body_without_a_length_ends_with_the_connection():
    answer = read(b"HTTP/1.1 200 OK\r\n\r\nall of it")
    assert not answer.complete
    assert answer.end()
    assert answer.body == b"all of it"


@pytest.mark.parametrize(
    "data", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhal", CHUNKED[:-9], b"HTTP/1.1 2"]
)
def test_an_answer_that_is_cut_off_is_not_whole(data):
    assert not read(data).end()


@pytest.mark.parametrize("data", [b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\n" + b"x" * 50, b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 50,
                                  b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n32\r\n" + b"x" * 50])  # fmt: skip
def test_no_more_than_the_limit_is_kept_and_no_more_is_waited_for(data):
    answer = read(data, limit=9)
    assert (answer.complete, answer.body, answer.truncated) == (True, b"x" * 9, True)


@pytest.mark.parametrize("data", [b"SSH-2.0-OpenSSH\r\n", b"\x15\x03\x01\x00\x02", b"HTTP/2 200\r\n\r\n", b"HTTP/1.1 abc\r\n\r\n",
                                  b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 20_000,
                                  b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"])  # fmt: skip
def test_what_is_no_http_is_said_to_be_that(data):
    with pytest.raises(MalformedError):
        read(data)


def sent(to, headers):
    return GetExchange(to, headers, 0).request


def target(path="/", host="10.0.0.7"):
    return Target(scheme="http", host=host, port=8080, path=path)


def test_a_request_has_its_headers_and_one_host():
    text = sent(target("/a b?c=%20&d"), (("X", "1"), ("Connection", "keep-alive"))).decode()
    assert text == "GET /a%20b?c=%20&d HTTP/1.1\r\nHost: 10.0.0.7:8080\r\nX: 1\r\nConnection: close\r\n\r\n"
    assert "Host: other\r\n" in sent(target(), (("host", "other"),)).decode()
    assert "Host: [fd00::1]:8080\r\n" in sent(target(host="fd00::1"), ()).decode()


def test_a_header_cannot_smuggle_another():
    with pytest.raises(ValueError, match="X"):
        sent(target(), (("X", "1\r\nEvil: 1"),))


@pytest.mark.parametrize(
    ("location", "to"),
    [
        ("/b?x=1", "http://10.0.0.7:8080/b?x=1"),
        ("https://10.0.0.7/b", "https://10.0.0.7:443/b"),
        ("http://10.0.0.7:99", "http://10.0.0.7:99/"),
        ("http://10.0.0.8/", ""),
        ("ftp://10.0.0.7/", ""),
        ("http://[", ""),
    ],
)
def test_a_redirect_is_followed_on_its_own_host_only(location, to):
    onward = following(target("/a"), location)
    assert (onward.url if onward is not None else "") == to
