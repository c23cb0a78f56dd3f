"""The way to the API server where each connection carries one exchange, as in HTTP/1: who waits goes on when any of them ends."""

from api.errors import Failure, FailureKind
from runtime.drivers.kube import link
from runtime.drivers.kube.exchange import ApiExchange
from runtime.drivers.kube.identity import KnownAccess
from runtime.net.kubeaccess import Access

OVER = Failure(kind=FailureKind.UNAVAILABLE, message="the answer is complete")
KNOWN = KnownAccess(access=Access(server="https://h"), settings=None)


class OneExchange:
    """A connection that takes one exchange, and ends when the test says so."""

    def __init__(self, access, moved, ended):
        self.server, self.moved, self.ended = access.server, moved, ended
        self.has_room = self.was_open = True
        self.is_distrusted = False
        self.carries = None

    @property
    def takes_no_more(self):
        return self.carries is not None

    def open(self):
        """Connect, which the test finishes."""

    def begin(self, exchange):
        self.carries = exchange.target


class Known:
    """An identity that is known at once."""

    def want(self, then):
        then(KNOWN)


def exchange(target):
    return ApiExchange("GET", target, head=None, data=None, end=lambda failure: None)


def test_the_end_of_an_older_connection_makes_room_for_who_waits(monkeypatch):
    monkeypatch.setattr(link, "SESSIONS", 2)
    made = []

    def connect(_loop, _resolver, access, _settings, moved, ended):
        made.append(OneExchange(access, moved, ended))
        return made[-1]

    monkeypatch.setattr(link, "ApiConnection", connect)
    way = link.Link(None, None, Known())
    for target in "abc":
        way.send(exchange(target))
        made[-1].moved()
    assert [one.carries for one in made] == ["a", "b"]
    made[0].ended(OVER)
    made[-1].moved()
    assert [one.carries for one in made] == ["a", "b", "c"], "b may be a watch, which does not end"
