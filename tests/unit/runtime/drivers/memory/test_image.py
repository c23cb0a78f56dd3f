"""The images of a world in memory: what a cancelled call still does, and that both ports are about one world."""

import pytest

from api.errors import FailureKind
from api.ports.images import ImageRow, ImageStatus, ListImages, PullImage, RemoveImage
from api.ports.runtime import ListPods
from runtime.drivers.memory.call import Latency
from runtime.drivers.memory.runtime import MemoryRuntime
from tests.conformance.containers.clock import VirtualClock

APP = ImageRow(id="sha256:" + "a" * 64, names=("registry.local/app:1",), size_bytes=7)
SLOW = Latency(effect_s=(1.0, 1.0), pull_s=(5.0, 5.0))


class Images:
    """Images on virtual time, of which one can be fetched."""

    def __init__(self, **options):
        self.clock = VirtualClock()
        self.runtime = MemoryRuntime(self.clock, registry=(APP,), **options)
        self.port = self.runtime.images

    def begin(self, call):
        answers = []
        undo = self.port.begin(call, 60.0, lambda result, failure: answers.append(result or failure))
        return answers, undo

    def pass_time(self, seconds):
        ends_at = self.clock.now() + seconds
        while self.clock.now() < ends_at:
            self.clock.let_pass(ends_at - self.clock.now())

    def holds(self, name):
        answers, _ = self.begin(ImageStatus(image=name))
        self.pass_time(1.5)
        return answers[0].image is not None


def test_a_pull_takes_its_own_time_and_the_image_is_held_from_then_on():
    images = Images(latency=SLOW)
    answers, _ = images.begin(PullImage(image=APP.names[0]))
    images.pass_time(4.0)
    assert answers == []
    images.pass_time(1.5)
    assert answers[0].ref == APP.id
    answers, _ = images.begin(PullImage(image=APP.names[0]))
    images.pass_time(1.5)
    assert answers[0].ref == APP.id, "what is held is not fetched again"


def test_a_cancelled_pull_fetches_nothing_and_a_cancelled_removal_is_seen_through():
    images = Images(latency=SLOW)
    answers, cancel = images.begin(PullImage(image=APP.names[0]))
    cancel()
    images.pass_time(6.0)
    assert [answer.kind for answer in answers] == [FailureKind.CANCELLED]
    assert not images.holds(APP.id)
    images.begin(PullImage(image=APP.names[0]))
    images.pass_time(6.0)
    answers, cancel = images.begin(RemoveImage(image=APP.id))
    cancel()
    images.pass_time(1.5)
    assert [answer.kind for answer in answers] == [FailureKind.CANCELLED]
    assert not images.holds(APP.id)


def test_an_agent_that_was_killed_hears_of_no_image():
    images = Images(latency=SLOW)
    answers, _ = images.begin(PullImage(image=APP.names[0]))
    images.runtime.disconnect()
    images.pass_time(6.0)
    assert answers == []
    assert images.holds(APP.id), "what was asked for goes on"


def test_each_port_refuses_the_calls_of_the_other():
    images = Images()
    with pytest.raises(TypeError, match="the port images takes no ListPods"):
        images.begin(ListPods())
    with pytest.raises(TypeError, match="the port runtime takes no ListImages"):
        images.runtime.begin(ListImages(), 1.0, lambda *_: None)
