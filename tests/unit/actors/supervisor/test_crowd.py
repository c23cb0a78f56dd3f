"""Many pods: what a message of one of them costs, counted in pods that are looked at; and that nothing is overlooked."""

from random import Random

import pytest
from msgspec.structs import replace

from actors.admission import admit
from actors.admission.verdict import Verdict, encoded
from actors.supervisor import core
from actors.supervisor.kill import REPEAT_S
from api.eviction import Pressure
from api.ids import Path, Uid
from api.messages.admission import NodePressure
from api.messages.eviction import PodKilled
from api.messages.kernel import Restarted
from api.messages.pod import KillCause, KillPod
from api.messages.supervisor import PodLife, PodOp, WatchPods
from api.paths import pod_path
from runtime.kernel.mailbox import Mailbox
from tests.unit.actors.pods import wanted
from tests.unit.actors.supervisor.house import NODE, House, kills, presence

ROOM = 10
WATCHER = Path("/node/eviction")


def crowd(count):
    return [wanted(uid=f"u{number:04}", name=f"w{number:04}") for number in range(count)]


def full_house(count):
    """Return a house in which `ROOM` pods run and the others found no room, and its pods."""
    pods = crowd(count)
    house = House()
    house.give(WatchPods(asked_by=WATCHER))
    house.snapshot(*pods), house.listed()
    house.wait(1.0)
    for number, pod in enumerate(pods):
        house.moved(pod.metadata.uid, PodLife.SYNCING if number < ROOM else PodLife.FINISHED, kept=True)
    return house, pods


@pytest.fixture
def looks(monkeypatch):
    """Note each look at a pod: those that are attended, judged and counted as using something."""
    seen = []

    def noted(module, name):
        right = getattr(module, name)

        def look(*given, **named):
            seen.append(name)
            return right(*given, **named)

        monkeypatch.setattr(module, name, look)

    noted(core, "attend")
    noted(admit, "judge")
    return seen


@pytest.mark.parametrize("life", [PodLife.TERMINATING, PodLife.TERMINATED, PodLife.FINISHED])
def test_a_message_of_one_pod_costs_the_same_however_many_there_are(looks, life):
    costs = []
    for count in (20, 400):
        house, _ = full_house(count)
        looks.clear()
        house.moved("u0003", life)
        costs.append(len(looks))
    assert costs[0] == costs[1] <= 2


def test_a_crowd_that_comes_and_goes_costs_a_few_looks_a_pod(looks):
    count = 300
    house, pods = full_house(count)
    for pod in pods:
        house.change(PodOp.REMOVE, pod)
    for life in (PodLife.TERMINATING, PodLife.TERMINATED, PodLife.FINISHED, PodLife.GONE):
        for pod in pods:
            house.moved(pod.metadata.uid, life, deleted=True)
    for pod in pods:
        house.died(pod.metadata.uid)
    assert house.state.entries == {}
    assert len(looks) <= 15 * count
    assert house.state.index == type(house.state.index)(), "no one is left in any index"
    assert (house.admission.pods, house.admission.index) == ({}, type(house.admission.index)())


def test_those_who_wait_for_room_are_judged_only_when_some_is_made(looks):
    house = House()
    pods = crowd(40)
    house.snapshot(*pods), house.listed()
    looks.clear()
    for pod in pods[:ROOM]:
        house.moved(pod.metadata.uid, PodLife.RECALLING), house.moved(pod.metadata.uid, PodLife.SYNCING)
    assert looks.count("judge") <= 40 - ROOM, "once after the first verdicts, not for each message"
    house.change(PodOp.REMOVE, pods[0])
    assert "pods that are ending" in house.waits(f"u00{ROOM}")


def test_a_kill_that_was_answered_is_repeated_no_sooner_than_anything_else():
    house = House()
    house.snapshot(wanted()), house.listed()
    house.change(PodOp.REMOVE, wanted())
    house.moved("u1", PodLife.TERMINATING, deleted=True)
    assert [second for second in range(1, 131) if kills(house.wait(1.0))] == [60, 120]


def test_a_kill_without_an_answer_is_repeated_ever_more_slowly():
    house = House()
    house.snapshot(wanted()), house.listed()
    house.change(PodOp.REMOVE, wanted())
    # That it is stopping says nothing yet: somebody else may have asked for that.
    house.moved("u1", PodLife.TERMINATING)
    waits = []
    for _ in range(6):
        waits.append(house.due_in("u1"))
        assert kills(house.wait(waits[-1])) == [("u1", KillCause.REMOVED)]
    assert waits == pytest.approx([5, 10, 20, 40, 60, 60])
    again = house.give(Restarted(path=pod_path(Uid("u1")), incarnation=1, cause="x"))
    assert kills(again) == [("u1", KillCause.REMOVED)], "a new life of the actor is told at once"
    assert house.wake_at - house.now == pytest.approx(REPEAT_S)


def test_a_repeated_kill_and_its_answer_wait_once_in_a_mailbox():
    mailbox = Mailbox(limit=4)
    kill = KillPod(uid=Uid("u1"), cause=KillCause.REMOVED, deleted=True, asked_by=WATCHER)
    for message in (*(kill for _ in range(9)), replace(kill, grace_s=1), *(PodKilled(uid=Uid("u1")),) * 9):
        mailbox.offer(message, message.conflation_key(), 0.0)
    assert (mailbox.pending, mailbox.dead_lettered) == (3, 0)


# nothing is overlooked


def test_who_was_admitted_before_a_restart_starts_as_soon_as_its_name_is_free():
    verdict = Verdict(name="default/web")
    house = House(page=encoded({Uid("old"): verdict, Uid("new"): verdict}))
    house.listed()
    house.snapshot(wanted(uid="old"), wanted(uid="new"))
    assert house.alive == {"old"}
    house.change(PodOp.REMOVE, wanted(uid="old"))
    house.gone("old")
    assert house.alive == {"new"}


SOURCES = ("file",) * 7 + ("http",)
PAGE = encoded({Uid(f"u{n}"): Verdict(name=f"default/{'a' if n < 3 else 'b'}") for n in (0, 1, 3, 4)})


class Walking(House):
    """Looks at everything in each turn: what actors that overlook nothing do."""

    def feed(self, message, core=None):
        state, listed = self.state, self.state.runtime.listed
        if core is None:
            self.state = replace(
                state,
                touched={uid: state.touched.get(uid, entry) for uid, entry in state.entries.items()},
                due=replace(state.due, strays=True, waiting=True),
                runtime=replace(state.runtime, strays=listed.pods if listed is not None else ()),
            )
        else:
            self.admission = replace(self.admission, room_due=True)
        return super().feed(message, core)


def hear(house, random):
    """Let something happen, the same in each house whose `random` stands at the same place."""
    uid = f"u{random.randrange(8)}"
    names = {"u0": "a", "u1": "a", "u2": "a", "u3": "b", "u4": "b"}
    cpu = {"cpu": random.choice(("500m", "1", "2"))}
    priority = random.choice((None, None, None, 2_000_000_000))
    pod = wanted(uid=uid, name=names.get(uid, uid), priority=priority)
    container = replace(
        pod.spec.containers[0], resources=replace(pod.spec.containers[0].resources, requests=cpu)
    )
    pod = replace(pod, spec=replace(pod.spec, containers=(container,)))
    match random.randrange(13):
        case 0 | 1 | 2:
            source = random.choice(SOURCES)
            return house.change(random.choice((PodOp.ADD, PodOp.UPDATE)), pod, source=source)
        case 3 | 4:
            return house.change(PodOp.REMOVE, pod, source=random.choice(SOURCES))
        case 5 | 6 | 7:
            life = random.choice(list(PodLife))
            if uid not in house.alive:
                return ()
            return house.moved(uid, life, kept=random.random() < 0.5, deleted=random.random() < 0.5)
        case 8:
            cause = random.choice(("", "boom"))
            return house.died(uid, cause) if uid in house.alive else ()
        case 9:
            shown = [
                presence(
                    f"u{n}",
                    names.get(f"u{n}", f"u{n}"),
                    ours=random.random() < 0.8,
                    loose=random.random() < 0.2,
                )
                for n in range(9)
                if random.random() < 0.3
            ]
            return house.listed(*shown, as_of=house.now - random.choice((0.0, 3.0)))
        case 10:
            return house.wait(random.choice((0.1, 1.0, 5.0, 61.0)))
        case 11:
            pressed = (Pressure.DISK,) if random.random() < 0.5 else ()
            return house.ask_admission(NodePressure(conditions=pressed))
        case _:
            return house.give(Restarted(path=pod_path(Uid(uid)), incarnation=1, cause="x"))


@pytest.mark.parametrize("part", range(4))
def test_a_turn_does_all_that_a_walk_over_everything_would(part):
    for seed in range(part, 120, 4):
        node = replace(NODE, max_pods=4)
        expected, page = ("file", "http") if seed % 3 else ("file",), PAGE if seed % 5 > 1 else None
        houses = [made(expected, node=node, page=page) for made in (House, Walking)]
        for house in houses:
            if seed % 2:
                house.listed()
            house.give(WatchPods(asked_by=WATCHER))
            house.snapshot(seen=("file",) if seed % 2 else ())
        randoms = [Random(f"{seed}/crowd") for _ in houses]
        for step in range(40):
            done, whole = (hear(house, random) for house, random in zip(houses, randoms, strict=True))
            assert done == whole, f"seed {seed}, step {step}"
            assert houses[0].wake_at == houses[1].wake_at, f"seed {seed}, step {step}"
            assert houses[0].state.entries == houses[1].state.entries, f"seed {seed}, step {step}"
            assert houses[0].admission.pods == houses[1].admission.pods, f"seed {seed}, step {step}"
