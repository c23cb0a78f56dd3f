"""A world to test actors in, the same over both executors: probes, ports and streams that do as told."""

from collections.abc import Callable
from threading import Condition, Event
from typing import Any

import msgspec

from api.errors import Failure, NotFoundError
from api.ids import Path
from api.messages import Message
from runtime.kernel.actor import Actor
from runtime.kernel.pooled import PooledSystem
from runtime.kernel.sim import SimSystem
from runtime.kernel.system import System


class Note(Message, frozen=True, kw_only=True):
    n: int = 0

    def brief(self):
        return f"Note {self.n}"


class Other(Message, frozen=True, kw_only=True):
    n: int = 0


class Level(Message, frozen=True, kw_only=True):
    key: str
    n: int

    def conflation_key(self):
        return self.key


class Question(Message, frozen=True, kw_only=True):
    asked_by: Path


class Answer(Message, frozen=True, kw_only=True):
    n: int = 42


class Counted(msgspec.Struct, frozen=True, kw_only=True):
    n: int


class Look(msgspec.Struct, frozen=True, kw_only=True):
    n: int = 0


class Change(msgspec.Struct, frozen=True, kw_only=True):
    n: int = 0


class Journal:
    """What happened, in order; whoever waits for an entry is woken by it."""

    def __init__(self):
        self.news = Condition()
        self.entries: list[Any] = []

    def add(self, entry):
        with self.news:
            self.entries.append(entry)
            self.news.notify_all()

    def of(self, kind):
        with self.news:
            return [entry for entry in self.entries if isinstance(entry, kind)]

    def __contains__(self, entry):
        with self.news:
            return entry in self.entries


class Facts:
    """A log that keeps what it is told."""

    def __init__(self):
        self.lines = []

    def _keep(self, text, **facts):
        self.lines.append((text, facts))

    debug = info = warning = error = _keep

    def of(self, text):
        return [facts for said, facts in self.lines if said == text]


class Probe(Actor):
    """Writes all it is told into a journal, and does what the test says."""

    def __init__(self, journal, react=None, begin=None, end=None):
        self.journal, self.react, self.begin, self.end = journal, react, begin, end

    def on_start(self, ctx):
        self.journal.add(("start", ctx.self.path, ctx.incarnation))
        if self.begin:
            self.begin(ctx)

    def receive(self, message, ctx):
        self.journal.add(message)
        if self.react:
            self.react(message, ctx)
        self.state = Counted(n=self.state.n + 1 if self.state else 1)

    def on_stop(self, ctx):
        self.journal.add(("stop", ctx.self.path))
        if self.end:
            self.end(ctx)

    def explain_last(self):
        return f"counted {self.state.n}" if self.state else ""


class DonePort:
    """Completes by callback, when the test says so."""

    name = "done"

    def __init__(self):
        self.begun = []
        self.undone = 0
        self.at_once = None

    def begin(self, call, deadline_s, done):
        self.begun.append((call, deadline_s, done))
        if self.at_once is not None:
            done(self.at_once, None)

        def undo():
            self.undone += 1

        return undo

    def finish(self, result, failure=None):
        self.begun[-1][2](result, failure)


class HoldingPort:
    """Holds its thread as long as the test says."""

    name = "holding"

    def __init__(self, bounds=None):
        self.calls = []
        self.release = Event()
        self.holds = ()
        self.does: Callable[[Any], Any] = lambda call: Counted(n=call.n)
        if bounds is not None:
            self.bounds = bounds

    def perform(self, call, deadline_s):
        self.calls.append(call)
        if type(call) in self.holds:
            self.release.wait(20)
        return self.does(call)


class Tap:
    """A stream that the test feeds."""

    def __init__(self, name="tap"):
        self.name = name
        self.opened = []
        self.closed = 0
        self.broken: Exception | None = None

    def open(self, push, ended):
        if self.broken:
            raise self.broken
        self.opened.append((push, ended))

        def undo():
            self.closed += 1

        return undo

    def push(self, item):
        self.opened[-1][0](item)

    def end(self, failure: Failure | None = None):
        self.opened[-1][1](failure)


class World:
    """One actor system of either kind, with a journal and a log."""

    def __init__(self, kind, **options):
        self.kind = kind
        self.journal = Journal()
        self.facts = Facts()
        options.setdefault("log", lambda path: self.facts)
        self.system: System = SimSystem(7, **options) if kind == "sim" else PooledSystem(**options)

    def spawn(self, name="a", react=None, begin=None, end=None, **options):
        return self.system.spawn(self.spec(name, react, begin, end, **options))

    def spec(self, name="a", react=None, begin=None, end=None, actor=Probe, **options):
        return actor.options(name=name, **options).bind(self.journal, react, begin, end)

    def until(self, condition, deadline_s=5.0):
        """Wait for a condition, on a level, with a deadline; fail with what is known when it does not come."""
        if isinstance(self.system, SimSystem):
            held = self.system.await_until(condition, deadline_s)
        else:
            limit = self.system.clock() + deadline_s
            with self.journal.news:
                # Conditions on the system itself wake nobody, so look again now and then.
                while not (held := condition()) and self.system.clock() < limit:
                    self.journal.news.wait(0.002)
        assert held, f"never came: journal {self.journal.entries}, actors {self.system.list_actors()}"

    def heard(self, *entries):
        self.until(lambda: all(entry in self.journal for entry in entries))

    def state_of(self, path):
        try:
            return self.system.get_actor(path).state.value
        except NotFoundError:
            return None

    def settle(self):
        """Let everything that is under way come to its end: nothing pending, nobody at work."""
        self.until(
            lambda: (
                self.system.summarize_actors().pending == 0
                and not any(row.current_message for row in self.system.list_actors())
            )
        )

    def close(self):
        self.system.halt()  # type: ignore[attr-defined]
