"""One decision asks each question once; the steps of a sync are what the documentation and `explain` say."""

import re
from collections import Counter
from pathlib import Path

import pytest

from actors.pod import planned
from actors.pod.container import situation
from actors.pod.explain import explain
from actors.pod.plan import SYNC_STEPS
from api.ids import Path as ActorPath
from api.kube.objects.container import Container, ContainerResizePolicy, ResourceRequirements
from api.messages.kernel import Alarm
from api.messages.pod import KillCause
from tests.unit.actors.pods import IMAGE, wanted
from tests.unit.actors.tiny import FACTS, Hand, running_pod

WHOLE = (
    "progress",
    "started_names",
    "ready_names",
    "resize_steps",
    "probe_failures",
    "judge",
    "containers_to_stop",
    "restarts_among",
)
EACH = ("must_start", "next_attempt", "crash_wait_s", "want_of")
"""Questions about the whole pod, and about each container that is asked about."""
ROOT = Path(__file__).parents[5]


class Questions:
    """Counts how often each question is asked, for each container where it is about one."""

    def __init__(self, monkeypatch):
        self.asked = Counter()
        for name in WHOLE:
            self._count(monkeypatch, situation, name, lambda *given: "")
        for name in EACH:
            self._count(monkeypatch, situation, name, self.container)
        for name in ("next_stage", "compose"):
            self._count(monkeypatch, planned, name, lambda *given: "")

    def _count(self, monkeypatch, module, name, about):
        right = getattr(module, name)

        def asked(*given, **more):
            self.asked[name, about(*given)] += 1
            return right(*given, **more)

        monkeypatch.setattr(module, name, asked)

    @staticmethod
    def container(*given):
        return next(
            str(one if isinstance(one, str) else one.name)
            for one in given
            if isinstance(one, str | Container)
        )

    def of(self, decide):
        """Return how often each question was asked by one decision."""
        self.asked.clear()
        decide()
        return dict(self.asked)


def three(**more):
    amounts = ResourceRequirements(requests={"cpu": "100m"}, limits={"cpu": "200m"})
    policy = (ContainerResizePolicy(resource_name="cpu", restart_policy="NotRequired"),)
    return wanted(
        *(Container(name=name, image=IMAGE, resources=amounts, resize_policy=policy) for name in "abc"),
        **more,
    )


@pytest.mark.parametrize(
    "happens",
    [
        pytest.param(lambda hand: hand.observe(), id="nothing"),
        pytest.param(lambda hand: (hand.world.exit("b", 1, hand.wall), hand.observe()), id="one ends"),
        pytest.param(
            lambda hand: [hand.world.exit(c, 1, hand.wall) for c in "abc"] + [hand.observe()], id="all end"
        ),
        pytest.param(lambda hand: (hand.world.lose("c"), hand.observe()), id="a record goes"),
        pytest.param(lambda hand: hand.update(three(), generation=2), id="an update"),
        pytest.param(lambda hand: hand.give(Alarm(at=hand.now)), id="an alarm"),
    ],
)
def test_a_decision_on_three_containers_asks_each_question_once(monkeypatch, happens):
    hand = running_pod(three(), node=FACTS)
    assert hand.status.phase == "Running"
    hand.answer_images = False
    questions = Questions(monkeypatch)
    asked = questions.of(lambda: happens(hand))
    assert {name for name, _ in asked} >= {"progress", "must_start", "next_stage", "compose", "resize_steps"}
    assert {key: count for key, count in asked.items() if count > 1} == {}


def test_a_step_of_the_life_has_them_asked_once_more(monkeypatch):
    hand = running_pod(three(policy="Never"), node=FACTS)
    hand.answer_images = False
    questions = Questions(monkeypatch)
    [hand.world.exit(name, 0, hand.wall) for name in "abc"]
    asked = questions.of(hand.observe)
    assert max(asked.values()) == 2
    asked = questions.of(lambda: hand.kill(cause=KillCause.REMOVED, asked_by=ActorPath("/node/pods")))
    assert max(asked.values()) == 1, "the kill itself is no step: it is known before anything is asked"


def test_every_step_of_a_sync_is_documented_in_its_order():
    page = (ROOT / "docs" / "architecture.md").read_text()
    rows = re.findall(r"^\| (\d+) \| `(\w+)` \| (.+) \|$", page, re.MULTILINE)
    assert rows == [
        (str(at), step.__name__, (step.__doc__ or "").splitlines()[0].rstrip("."))
        for at, step in enumerate(SYNC_STEPS, 1)
    ]


def test_explain_says_at_which_step_of_its_sync_a_pod_is():
    hand = Hand()
    assert explain(hand.state, hand.now, hand.wall).sync_step == ""
    hand.settle()
    assert explain(hand.state, hand.now, hand.wall).sync_step == "wait_for_spec"
    hand.update(wanted("a")), hand.settle()
    told = explain(hand.state, hand.now, hand.wall)
    assert (told.sync_step, told.sync_steps[-1]) == ("rest", "rest")
    hand.kill()
    assert explain(hand.state, hand.now, hand.wall).sync_step == ""
