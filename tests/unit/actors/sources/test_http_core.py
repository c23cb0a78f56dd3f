"""The URL source: when it fetches, what an answer means, and what it never shows."""

import json

from actors.sources.http.core import begin, decide, rows
from api.errors import Failure, FailureKind
from api.ids import OpId, Path
from api.lifecycle import Start, Tell
from api.messages.kernel import Alarm, Outcome, Restarted
from api.messages.podconfig import PodsSeen
from api.ports.manifests import Problem
from api.ports.urls import FetchedManifests

CONFIG = Path("/node/config")
DOWN = Failure(kind=FailureKind.UNAVAILABLE, message="the server is down")


def pod(name):
    spec = {"containers": [{"name": "c", "image": "i"}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def pod_list(*names):
    return json.dumps(
        {"apiVersion": "v1", "kind": "PodList", "items": [pod(name) for name in names]}
    ).encode()


class World:
    """A server and a clock around the core."""

    def __init__(self):
        self.now = 0.0
        self.calls = []
        self.sent = []
        self.ops = 0
        self.take(begin("http://u:pw@h/x?t=1", (("Token", "s3cr3t"),), "n", CONFIG, 0.0, self.new_op))

    def new_op(self):
        self.ops += 1
        return OpId(self.ops)

    def take(self, decision):
        self.state, self.wake_at = decision.state, decision.wake_at
        for action in decision.actions:
            match action:
                case Start(call=call):
                    self.calls.append(call)
                case Tell(message=message):
                    self.sent.append(message)

    def send(self, message):
        self.take(decide(self.state, message, self.now, self.new_op))

    def answer(self, document=None, *, digest="d", problems=(), failure=None, unchanged=False):
        result = (
            None
            if failure
            else FetchedManifests(digest=digest, document=document, problems=problems, unchanged=unchanged)
        )
        self.send(
            Outcome(
                op=OpId(self.ops),
                call="x",
                result=result,
                failure=failure,
                started_at=self.now,
                ended_at=self.now,
            )
        )

    def wake(self):
        self.now = self.wake_at
        self.send(Alarm(at=self.now))

    def names(self):
        return [p.metadata.name for p in self.sent[-1].pods]


def test_it_fetches_at_once_and_then_every_period():
    world = World()
    assert (world.calls[0].headers, world.calls[0].known_digest) == ((("Token", "s3cr3t"),), "")
    assert world.wake_at is None
    world.answer(pod_list("a", "b"))
    assert world.names() == ["a-n", "b-n"]
    assert world.wake_at == 20.0
    world.wake()
    assert world.calls[1].known_digest == "d"


def test_an_unchanged_answer_repeats_the_same_list():
    world = World()
    world.answer(pod_list("a"))
    world.wake()
    world.answer(unchanged=True)
    assert world.sent == [world.sent[0]] * 2


def test_an_empty_body_is_an_empty_list():
    world = World()
    world.answer(pod_list("a"))
    world.wake()
    world.answer(None, digest="empty")
    assert world.sent[-1] == PodsSeen(source="http")


def test_an_empty_first_body_makes_the_source_seen():
    world = World()
    world.answer(None, digest="empty")
    assert world.sent == [PodsSeen(source="http")]
    assert [row.status for row in rows(world.state)] == ["accepted"]


def test_a_failure_keeps_the_list_and_is_retried_with_back_off():
    world = World()
    world.answer(pod_list("a"))
    waits = []
    for _ in range(7):
        world.wake()
        world.answer(failure=DOWN)
        waits.append(world.wake_at - world.now)
    assert waits == [1, 2, 4, 8, 16, 20, 20]
    assert len(world.sent) == 1
    assert rows(world.state)[0].status == "unreachable"
    assert rows(world.state)[1].pod == "default/a-n"
    world.wake()
    world.answer(unchanged=True)
    assert world.wake_at - world.now == 20
    assert rows(world.state)[0].status == "accepted"


def test_nothing_is_told_before_the_first_right_answer():
    world = World()
    world.answer(failure=DOWN)
    world.wake()
    world.answer(None, problems=(Problem(where="http://h/x", message="no YAML"),))
    world.send(Restarted(path=CONFIG, incarnation=1, cause="x"))
    assert world.sent == []
    assert rows(world.state)[0].problems[-1] == "it never gave a right answer"


def test_a_wrong_body_keeps_the_list_and_is_not_looked_at_again():
    world = World()
    world.answer(pod_list("a"))
    world.wake()
    world.answer(pod_list("Bad_Name", "b"), digest="bad")
    assert world.names() == ["a-n"]
    assert rows(world.state)[0].status == "broken"
    world.wake()
    assert world.calls[-1].known_digest == "bad"
    world.answer(unchanged=True, digest="bad")
    assert world.names() == ["a-n"]
    assert rows(world.state)[0].status == "broken"
    world.wake()
    world.answer(pod_list("b"), digest="good")
    assert world.names() == ["b-n"]
    assert rows(world.state)[0].status == "accepted"


def test_a_restarted_merge_is_told_again():
    world = World()
    world.answer(pod_list("a"))
    world.send(Restarted(path=CONFIG, incarnation=1, cause="x"))
    assert len(world.sent) == 2
    world.send(Restarted(path=Path("/else"), incarnation=1, cause="x"))
    assert len(world.sent) == 2


def test_it_fetches_each_period_but_never_twice_at_once():
    world = World()
    world.now += 100 * world.state.period_s
    world.send(Alarm(at=world.now))
    assert len(world.calls) == 1
    world.answer(pod_list("a"))
    world.wake()
    assert len(world.calls) == 2


def test_an_outcome_of_an_earlier_incarnation_says_nothing():
    world = World()
    world.send(Outcome(op=OpId(99), call="x", failure=DOWN, started_at=0, ended_at=0))
    assert rows(world.state)[0].status == "waiting"


def test_secrets_are_never_shown():
    world = World()
    world.answer(failure=DOWN)
    shown = [repr(world.state), *map(repr, rows(world.state)), *map(repr, world.calls)]
    shown += [call.brief() for call in world.calls]
    for text in shown:
        assert "s3cr3t" not in text
        assert "pw" not in text
        assert "t=1" not in text
