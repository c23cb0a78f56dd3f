"""Cells that wait for a thread: each is taken once, nobody sleeps over one, and who comes by itself rouses nobody."""

from threading import Event, Thread

import pytest

from runtime.kernel.turns import Turns
from tests.harness.wait import until


@pytest.fixture
def turns():
    return Turns()


class Crew:
    """Threads that note what they take until they take None; `enlisted` ones do as the kernel's do."""

    def __init__(self, turns, count, *, enlisted=True):
        self.turns, self.enlisted = turns, enlisted
        self.taken = [[] for _ in range(count)]
        self.does = {}
        self.threads = [Thread(target=self._work, args=(mine,), daemon=True) for mine in self.taken]
        for thread in self.threads:
            thread.start()

    def _work(self, mine):
        if self.enlisted:
            self.turns.enlist()
        while (cell := self.turns.take()) is not None:
            mine.append(cell)
            if cell in self.does:
                self.does[cell]()

    def all_taken(self):
        return [cell for mine in self.taken for cell in mine]

    def until_asleep(self, *, but=0):
        until(lambda: len(self.turns._sleepers) == len(self.threads) - but, "they sleep")

    def dismiss(self):
        for _ in self.threads:
            self.turns.put(None)
        for thread in self.threads:
            thread.join(20)
            assert not thread.is_alive(), "a thread slept over its end"


def test_every_cell_is_taken_once_however_many_tell(turns):
    crew = Crew(turns, 3)
    tellers = [
        Thread(target=lambda start=start: [turns.put(start + n) for n in range(5000)])
        for start in range(0, 20000, 5000)
    ]
    for teller in tellers:
        teller.start()
    for teller in tellers:
        teller.join(20)
    until(lambda: len(crew.all_taken()) == 20000, "all are taken")
    crew.dismiss()
    assert sorted(crew.all_taken()) == list(range(20000))


def test_nobody_sleeps_over_a_cell_that_comes_alone(turns):
    crew = Crew(turns, 2)
    for n in range(2000):
        turns.put(n)
        until(lambda n=n: not turns.waiting and sum(map(len, crew.taken)) == n + 1, "it is taken", every_s=0)
    crew.dismiss()


@pytest.mark.parametrize("sees_the_sleeper", [False, True])
def test_a_cell_that_comes_while_a_thread_lies_down_is_seen(turns, sees_the_sleeper):
    class LiesDown(list):
        def append(self, bell):
            if not sees_the_sleeper:
                turns.put("a")
            super().append(bell)
            if sees_the_sleeper:
                turns.put("a")

    turns._sleepers = LiesDown()
    crew = Crew(turns, 1, enlisted=False)
    until(lambda: crew.all_taken()[:1] == ["a"], "it is taken")
    turns._sleepers = [*turns._sleepers]
    turns.put(None)


def test_what_a_running_thread_puts_it_takes_itself(turns):
    crew = Crew(turns, 2)
    crew.until_asleep()
    asleep = []

    def tell():
        turns.put("b")
        asleep.append(len(turns._sleepers))

    crew.does["a"] = tell
    turns.put("a")
    until(lambda: "b" in crew.all_taken(), "what it told is taken")
    crew.dismiss()
    assert asleep == [1], "the other thread was roused"
    assert ["a", "b"] in crew.taken


def test_a_thread_that_resigned_leaves_what_it_told_to_others(turns):
    crew = Crew(turns, 2)
    crew.until_asleep()
    told, release = Event(), Event()

    def tell_and_hold():
        turns.put("b")
        told.set()
        release.wait(20)
        turns.put("c")
        until(lambda: "c" in crew.all_taken(), "another takes what it tells from then on")

    crew.does["a"] = tell_and_hold
    turns.put("a")
    told.wait(20)
    assert crew.all_taken() == ["a"]
    holder = next(one for one, mine in zip(crew.threads, crew.taken, strict=True) if mine)
    turns.resign(holder.ident)
    until(lambda: "b" in crew.all_taken(), "another takes what it told", 10)
    crew.until_asleep(but=1)
    release.set()
    until(lambda: "c" in crew.all_taken(), "another takes what it tells from then on")
    crew.dismiss()
    assert ["b", "c"] in [mine for mine in crew.taken if "a" not in mine]
