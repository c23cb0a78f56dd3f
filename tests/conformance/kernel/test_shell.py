"""The shell around pure cores: what a decision says is done."""

from itertools import count

import msgspec
import pytest

from api.lifecycle import Action, Cancel, Decision, Listen, Start, Tell, Unlisten
from api.messages.kernel import Alarm, Heard, Outcome
from runtime.kernel.actor import Restart
from runtime.kernel.shell import CoreActor
from tests.harness.kernel import Counted, DonePort, Look, Note, Tap


class Shout(Action, frozen=True, kw_only=True):
    text: str


class Shelled(CoreActor):
    """Carries out the decisions given for each message class, in a table."""

    def __init__(self, journal, table, port, tap, first=None):
        self.journal, self.table, self.first = journal, table, first
        self.ports, self.streams = {"p": port}, {"s": tap}

    def begin(self, ctx):
        return self.first

    def decide(self, message, ctx):
        self.journal.add(message)
        made = self.table.get(type(message), lambda message, ctx: Decision(state=self.state))
        return made(message, ctx)

    def perform(self, action, ctx):
        if isinstance(action, Shout):
            self.journal.add(action)
        else:
            super().perform(action, ctx)


class Unknown(Action, frozen=True, kw_only=True):
    pass


def shelled(world, table, first=None):
    world.port, world.tap = DonePort(), Tap("the tap")
    spec = Shelled.options(name="a", restart=Restart(max_restarts=0)).bind(
        world.journal, table, world.port, world.tap, first
    )
    return world.system.spawn(spec)


def test_a_decision_is_kept_performed_and_explained(world):
    world.spawn("b")

    def decide(message, ctx):
        return Decision(
            state=Counted(n=message.n),
            actions=(
                Start(op=ctx.new_op(), port="p", call=Look(n=1), deadline_s=60.0),
                Tell(to="/node/b", message=Note(n=8)),
                Listen(stream="s"),
                Shout(text="hey"),
            ),
            wake_at=ctx.now() + 0.05,
        )

    shelled(world, {Note: decide}).tell(Note(n=1))
    world.until(lambda: world.journal.of(Alarm) and world.port.begun)
    world.heard(Note(n=8), Shout(text="hey"))
    world.tap.push(Note(n=3))
    world.port.finish(Counted(n=2))
    world.until(lambda: world.journal.of(Outcome))
    world.heard(Heard(stream="the tap", item=Note(n=3)))
    assert world.system.committed("/node/a") == Counted(n=1)
    said = next(row for row in world.system.trace("/node/a") if row.message == "Note 1").outcome
    assert said.startswith("start 1 p Look; send /node/b Note 8; listen s; Shout; wake at ")


def test_streams_are_closed_and_operations_cancelled_on_request(world):
    first = Decision(
        state=Counted(n=0),
        actions=(Listen(stream="s"), Start(op=1, port="p", call=Look(), deadline_s=60.0)),
    )

    def decide(message, ctx):
        return Decision(state=Counted(n=1), actions=(Unlisten(stream="s"), Cancel(op=1)))

    handle = shelled(world, {Note: decide}, first)
    world.until(lambda: world.port.begun)
    handle.tell(Note())
    world.until(lambda: world.tap.closed and world.port.undone)
    assert world.system.committed("/node/a") == Counted(n=1)


def test_an_action_that_nobody_knows_costs_the_incarnation(world):
    shelled(world, {Note: lambda message, ctx: Decision(state=Counted(n=1), actions=(Unknown(),))}).tell(
        Note()
    )
    world.until(lambda: world.state_of("/node/a") == "DEAD")
    assert "cannot perform Unknown" in world.system.get_actor("/node/a").death_cause


def test_each_decision_sets_the_alarm_anew(world):
    steps = count()

    def decide(message, ctx):
        at = ctx.now() + 0.03 if next(steps) == 0 else None
        return Decision(state=msgspec.structs.replace(Counted(n=0), n=1), wake_at=at)

    handle = shelled(world, {Note: decide})
    handle.tell(Note(n=1))
    handle.tell(Note(n=2))
    world.heard(Note(n=2))
    with pytest.raises(AssertionError, match="never came"):
        world.until(lambda: world.journal.of(Alarm), deadline_s=0.1)
