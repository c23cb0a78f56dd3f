"""Cells that wait for a thread: each is taken once, nobody sleeps over one, and who comes by itself rouses nobody."""

from threading import Event, Thread

import pytest

from runtime.kernel.runqueue import RunQueue
from tests.harness.wait import until


@pytest.fixture
def queue():
    return RunQueue()


class Crew:
    """Threads that note what they take until they take None; `joins` ones do as the kernel's do."""

    def __init__(self, queue, count, *, joins=True):
        self.queue, self.joins = queue, joins
        self.taken = [[] for _ in range(count)]
        self.does = {}
        self.threads = [Thread(target=self._work, args=(mine,), daemon=True) for mine in self.taken]
        for thread in self.threads:
            thread.start()

    def _work(self, mine):
        if self.joins:
            self.queue.join()
        while (cell := self.queue.take()) is not None:
            mine.append(cell)
            if cell in self.does:
                self.does[cell]()

    def all_taken(self):
        return [cell for mine in self.taken for cell in mine]

    def until_asleep(self, *, but=0):
        until(lambda: len(self.queue._sleeping) == len(self.threads) - but, "they sleep")

    def dismiss(self):
        for _ in self.threads:
            self.queue.put(None)
        for thread in self.threads:
            thread.join(20)
            assert not thread.is_alive(), "a thread slept over its end"


def test_every_cell_is_taken_once_however_many_tell(queue):
    crew = Crew(queue, 3)
    tellers = [
        Thread(target=lambda start=start: [queue.put(start + n) for n in range(5000)])
        for start in range(0, 20000, 5000)
    ]
    for teller in tellers:
        teller.start()
    for teller in tellers:
        teller.join(20)
    until(lambda: len(crew.all_taken()) == 20000, "all are taken")
    crew.dismiss()
    assert sorted(crew.all_taken()) == list(range(20000))


@pytest.mark.parametrize("cells", [200, pytest.param(2000, marks=pytest.mark.slow)])
def test_nobody_sleeps_over_a_cell_that_comes_alone(queue, cells):
    crew = Crew(queue, 2)
    for n in range(cells):
        queue.put(n)
        until(lambda n=n: not queue.waiting and sum(map(len, crew.taken)) == n + 1, "it is taken", every_s=0)
    crew.dismiss()


@pytest.mark.parametrize("sees_the_sleeper", [False, True])
def test_a_cell_that_comes_while_a_thread_lies_down_is_seen(queue, sees_the_sleeper):
    class LiesDown(list):
        def append(self, bell):
            if not sees_the_sleeper:
                queue.put("a")
            super().append(bell)
            if sees_the_sleeper:
                queue.put("a")

    queue._sleeping = LiesDown()
    crew = Crew(queue, 1, joins=False)
    until(lambda: crew.all_taken()[:1] == ["a"], "it is taken")
    queue._sleeping = [*queue._sleeping]
    queue.put(None)


def test_what_a_running_thread_puts_it_takes_itself(queue):
    crew = Crew(queue, 2)
    crew.until_asleep()
    asleep = []

    def tell():
        queue.put("b")
        asleep.append(len(queue._sleeping))

    crew.does["a"] = tell
    queue.put("a")
    until(lambda: "b" in crew.all_taken(), "what it told is taken")
    crew.dismiss()
    assert asleep == [1], "the other thread was roused"
    assert ["a", "b"] in crew.taken


def test_a_thread_that_resigned_leaves_what_it_told_to_others(queue):
    crew = Crew(queue, 2)
    crew.until_asleep()
    told, release = Event(), Event()

    def tell_and_hold():
        queue.put("b")
        told.set()
        release.wait(20)
        queue.put("c")
        until(lambda: "c" in crew.all_taken(), "another takes what it tells from then on")

    crew.does["a"] = tell_and_hold
    queue.put("a")
    told.wait(20)
    assert crew.all_taken() == ["a"]
    holder = next(one for one, mine in zip(crew.threads, crew.taken, strict=True) if mine)
    queue.leave(holder.ident)
    until(lambda: "b" in crew.all_taken(), "another takes what it told", 10)
    crew.until_asleep(but=1)
    release.set()
    until(lambda: "c" in crew.all_taken(), "another takes what it tells from then on")
    crew.dismiss()
    assert ["b", "c"] in [mine for mine in crew.taken if "a" not in mine]
