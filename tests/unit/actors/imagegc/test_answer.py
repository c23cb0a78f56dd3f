"""Who is told the end of a collection."""

from msgspec.structs import replace

from actors.imagegc.answer import answered, with_asker
from actors.imagegc.state import ImageGCState
from api.ids import Path
from api.messages.imagegc import CollectImages
from api.shown.introspection import Collection

EVICTION = Path("/node/eviction")


def ended(*runs, **more):
    return Collection(runs=runs, everything=True, done=True, **more)


def test_an_actor_is_told_once_what_its_run_came_to():
    before = with_asker(ImageGCState(), CollectImages(run="r1", asked_by=EVICTION))
    after = replace(before, collected=(ended("r0"), ended("r1", "r2", failure="it broke")))
    state, [tell] = answered(before, after)
    assert (tell.to, tell.message.run, tell.message.failure) == (
        EVICTION,
        "r1",
        "it broke",
    )
    assert state.askers == {}
    assert answered(after, state) == (state, ())


def test_a_run_that_is_not_over_is_not_told():
    before = with_asker(ImageGCState(), CollectImages(run="r1", asked_by=EVICTION))
    after = replace(before, collected=(ended("another"),))
    assert answered(before, after) == (after, ())


def test_people_look_it_up_themselves():
    asked = CollectImages(run="r1", asked_by=Path("/edge"))
    assert with_asker(ImageGCState(), asked).askers == {}
