"""Whose turn it is among the containers of a pod, row by row of the reference's table (6.4), and what holds of any view."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.rules.container.progress import Progress, progress
from api.kube.objects.pod import Container
from api.ports.runtime import RuntimeContainerState
from tests.unit.actors.pods import IMAGE, box, instance, shown, wanted

STATES = tuple(RuntimeContainerState)


def init(name, policy=""):
    return Container(name=name, image=IMAGE, restart_policy=policy)


ONE, TWO, SIDE = init("i"), init("j"), init("s", "Always")


def judged(inits, parts, *, policy="Always", started=("s", "t"), mains=("a",)):
    pod = wanted(*mains, policy=policy, init_containers=inits)
    return progress(pod.spec, shown(box(), *parts), "s0", started)


def due(*names, **more):
    return Progress(due=names, **more)


DONE = instance("i", "exited", code=0)
FAILED = instance("i", "exited", code=1)
RUNS = instance("s")
ENDED = instance("s", "exited", code=0)


@pytest.mark.parametrize(
    ("inits", "parts", "policy", "found"),
    [
        ((ONE,), (), "Always", due("i")),
        ((ONE,), (instance("i", "created"),), "Always", due("i")),
        ((ONE,), (instance("i"),), "Always", due(awaited="i")),
        ((ONE,), (instance("i", "unknown"),), "OnFailure", due("i")),
        ((ONE,), (instance("i", "unknown"),), "Never", due(failed="i")),
        ((ONE,), (FAILED,), "Always", due("i")),
        ((ONE,), (FAILED,), "OnFailure", due("i")),
        ((ONE,), (FAILED,), "Never", due(failed="i")),
        ((ONE,), (DONE,), "Never", due("a", initialised=True)),
        ((ONE, TWO), (DONE,), "Always", due("j")),
        ((ONE, TWO), (instance("j"), DONE), "Always", due(awaited="j")),
        ((ONE, TWO), (instance("j"),), "Always", due(awaited="j")),
        ((SIDE, ONE), (), "Always", due("s")),
        ((SIDE, ONE), (instance("s", "created"),), "Always", due("s")),
        ((SIDE, ONE), (instance("s", "unknown"),), "Never", due("s")),
        ((SIDE, ONE), (RUNS,), "Always", due("i")),
        ((SIDE, ONE), (ENDED,), "Never", due("s")),
        ((SIDE, ONE), (instance("i"), ENDED), "Never", due("s", awaited="i")),
        ((SIDE, ONE), (instance("i"),), "Never", due("s", awaited="i")),
        ((SIDE, ONE), (FAILED, RUNS), "Never", due(failed="i")),
        ((SIDE, ONE), (FAILED, ENDED), "Always", due("s", "i")),
        ((SIDE, ONE), (DONE, ENDED), "Always", due("s", "a", initialised=True)),
        ((ONE, SIDE), (RUNS, DONE), "Always", due("a", initialised=True)),
        ((ONE, SIDE), (ENDED, DONE), "Always", due("s")),
        ((ONE, SIDE), (instance("a"), ENDED), "Always", due("s", initialised=True)),
        ((ONE, SIDE), (instance("a", "created"), DONE), "Always", due("s", "a", initialised=True)),
        ((ONE, SIDE), (instance("a", "exited", code=1), RUNS), "Always", due("a", initialised=True)),
        ((ONE, SIDE), (instance("a", "exited", code=1), RUNS), "Never", due(initialised=True, over=True)),
        (
            (ONE, SIDE),
            (instance("a", "exited", code=0), ENDED),
            "OnFailure",
            due(initialised=True, over=True),
        ),
        ((ONE, SIDE), (instance("a", "exited", code=0), ENDED), "Always", due("s")),
        ((ONE, SIDE), (instance("a", "exited", code=1),), "Always", due("s")),
        ((ONE, SIDE), (instance("a", "unknown"), ENDED), "Always", due("s")),
        ((ONE, SIDE), (instance("old"), ENDED), "Always", due("s")),
        ((SIDE, ONE), (instance("a", "exited", code=1), ENDED), "Always", due("s", "a", initialised=True)),
        ((ONE, TWO), (instance("a", "exited", code=1), DONE), "Always", due("a", initialised=True)),
        ((ONE,), (instance("a"), FAILED), "Never", due(initialised=True)),
    ],
)
def test_what_is_due_follows_from_the_last_init_container_that_was_made(inits, parts, policy, found):
    assert judged(inits, parts, policy=policy) == found


def test_a_sidecar_that_runs_and_is_not_started_is_waited_for():
    assert judged((SIDE, ONE), (RUNS,), started=()) == due(awaited="s")
    assert judged((ONE, SIDE), (RUNS, DONE), started=()) == due(awaited="s")
    assert judged((ONE, SIDE), (instance("a", "exited", code=1), RUNS), started=()) == due(awaited="s")
    assert judged((ONE, SIDE), (instance("a"), RUNS), started=()) == due(initialised=True)


def test_who_has_nothing_to_start_again_is_over_whatever_its_sidecar_does():
    done = instance("a", "exited", code=0)
    assert judged((SIDE,), (done, RUNS), policy="Never", started=()).over
    assert judged((SIDE,), (done, ENDED), policy="Never", started=()).over


def test_only_the_active_sandbox_counts():
    old = (instance("a", "exited", code=1), instance("s"), DONE)
    pod = wanted("a", init_containers=(ONE, SIDE))
    assert progress(pod.spec, shown(box(1), box(0, "not-ready"), *old), "s1", ("s",)) == due("i")


@pytest.mark.parametrize(
    ("main", "policy", "code", "starts"),
    [
        (init("a"), "Always", 0, True),
        (init("a"), "OnFailure", 0, False),
        (init("a"), "OnFailure", 1, True),
        (init("a", "OnFailure"), "Always", 0, False),
        (init("a", "Never"), "Always", 0, True),
        (init("a", "Never"), "OnFailure", 1, True),
        (init("a", "Never"), "Never", 0, False),
        (init("a"), "Never", 1, False),
    ],
)
def test_a_new_sandbox_starts_everything_but_what_succeeded_under_on_failure(main, policy, code, starts):
    pod = wanted(main, policy=policy)
    seen = shown(box(1), box(0, "not-ready"), instance("a", "exited", code=code))
    assert progress(pod.spec, seen, "s1", ()).due == (("a",) if starts else ())


instances = st.builds(
    lambda name, state, attempt, code, sandbox: instance(name, state, attempt, code=code, sandbox=sandbox),
    st.sampled_from(("i", "s", "j", "t", "a", "b")),
    st.sampled_from(STATES),
    st.integers(0, 3),
    st.sampled_from((0, 1, 42)),
    st.sampled_from(("s0", "s9")),
)


@given(
    st.permutations((ONE, SIDE, TWO, init("t", "Always"))),
    st.lists(instances, max_size=8),
    st.sampled_from(("Always", "OnFailure", "Never")),
    st.sets(st.sampled_from(("s", "t"))),
)
def test_whatever_is_shown_nothing_overtakes_an_init_container(inits, parts, policy, started):
    found = judged(tuple(inits), parts, policy=policy, started=tuple(sorted(started)), mains=("a", "b"))
    here = [one for one in parts if one.sandbox_id == "s0"]
    began = any(one.name in "ab" for one in here)
    order = [one.name for one in inits]
    lives = any(one.name in "ab" and one.state in ("created", "running") for one in here)
    assert found.initialised or not lives
    assert found.initialised or not set(found.due) & {"a", "b"}
    plain_due = [name for name in found.due if name in "ij"]
    assert len(plain_due) <= 1, "two of those that run alone"
    if found.failed or found.awaited:
        assert not set(found.due) & {"a", "b"}
    if began:
        assert plain_due == [], "an init container runs again under what it prepared"
    for name in plain_due:
        for before in order[: order.index(name)]:
            assert any(one.name == before for one in here) or any(
                one.name in order[order.index(before) :] for one in here
            )
    assert sorted(found.due, key=(*order, "a", "b").index) == list(found.due), "not in spec order"
