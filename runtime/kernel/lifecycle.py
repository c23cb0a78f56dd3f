"""The life of a cell: how incarnations begin, die and follow each other, and how the cell stops.

```text
PENDING_CREATION --begin--> ALIVE --exception--> RESTARTING --delay--> ALIVE ...
       |                      |                      |
       +----------------------+-- stop, kill, past the budget --> (children stop, last started first) --> DEAD
```

An incarnation owns its state, its alarm and its streams; they end with it. Operations and children belong to the cell
and stay. Each function here is a step of the thread that runs the cell, most of them commands.
"""

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from pykka import ActorRegistry, Future

from api.ids import Path
from api.messages import Message
from api.messages.kernel import Restarted
from api.shown.introspection import ActorState
from runtime.kernel.context import BEGINNING, ENDING, CellContext
from runtime.kernel.mailbox import Offer
from runtime.kernel.supervision import judge
from runtime.kernel.trace import brief, cut, report

if TYPE_CHECKING:
    from runtime.kernel.cell import Cell

CAUSE_LIMIT = 300
KILLED = "killed"


class StopProgress:
    """How far a cell is with stopping."""

    __slots__ = ("gentle", "overdue", "waiting")

    def __init__(self, *, gentle: bool) -> None:
        self.gentle = gentle
        """The incarnation gets its `on_stop`."""
        self.overdue: set[Path] = set()
        """Children that were not gone in time; they are waited for no longer."""
        self.waiting: list[Future[Any]] = []
        """Callers of pykka's own stop."""


# Incarnations.


def bring_up(cell: "Cell") -> None:
    """Begin an incarnation: constructor, then `on_start`. Only then are messages taken."""
    system = cell.system
    if cell.stopping:
        return
    cell.moment = system.clock()
    cell.current = BEGINNING
    context = cell.context = CellContext(cell, cell.number)
    try:
        incarnation = cell.spec.make()
        incarnation.on_start(context)
        said = incarnation.explain_last()
    except (Exception, SystemExit) as error:  # noqa: BLE001  # constructor, on_start and receive fail alike
        cell.current = None
        if not system.halted:
            crash(cell, error, BEGINNING, system.clock() - cell.moment)
        return
    cell.current = None
    if system.halted:
        return
    cell.record(BEGINNING, said, system.clock() - cell.moment)
    cell.incarnation = incarnation
    if incarnation.state is not None:
        cell.committed = incarnation.state
    cell.state = ActorState.ALIVE
    cell.inbox.release()
    if cell.number:
        system.announce(cell, Restarted(path=cell.path, incarnation=cell.number, cause=cut(cell.cause)))


def crash(cell: "Cell", error: BaseException, message: Message, took_s: float) -> None:
    """End the incarnation because of an exception, and log it with the deliveries that led to it."""
    cause = cut(f"{type(error).__name__}: {error}", CAUSE_LIMIT)
    if cell.system.interceptor is not None:
        cell.system.interceptor.crashing(cell.path, error)
    cell.record(message, cause, took_s)
    report(
        cell.log,
        "incarnation died",
        error,
        path=cell.path,
        incarnation=cell.number,
        cause=cause,
        message=brief(message),
        deliveries=tuple(f"{at:.3f} {text} | {said}" for at, _, text, said in cell.ring),
    )
    end_incarnation(cell, cause)


def end_incarnation(cell: "Cell", cause: str) -> None:
    """End the incarnation; another one follows after a delay, or the cell stops when its restarts are used up."""
    cell.cause = cause
    let_go(cell)
    cell.inbox.hold()
    now = cell.system.clock()
    verdict = judge(cell.spec.restart, cell.deaths, now)
    cell.deaths = verdict.deaths
    if verdict.delay_s is None:
        wind_down(cell, Offer.GONE, gentle=False)
        return
    cell.state = ActorState.RESTARTING
    cell.system.timers.call_at(now + verdict.delay_s, lambda: cell.command(restart))


def restart(cell: "Cell") -> None:
    """Begin the next incarnation."""
    if cell.stopping or cell.state is not ActorState.RESTARTING:
        return
    cell.number += 1
    cell.meter.restarts += 1
    bring_up(cell)


def let_go(cell: "Cell") -> None:
    """Drop what belongs to the incarnation."""
    context, cell.context, cell.incarnation = cell.context, None, None
    cell.alarm.at = None
    if context is not None:
        context.close_streams()


# Stopping.


def stop(cell: "Cell") -> None:
    """Stop: children first, then `on_stop`, then gone."""
    if not cell.stopping:
        cell.cause = ""
        wind_down(cell, Offer.STOPPING, gentle=True)


def stop_for(caller: "Future[Any] | None", cell: "Cell") -> None:
    """Stop; `caller`, who used pykka's own stop, is answered when it is done."""
    stop(cell)
    if caller is None:
        return
    if cell.state is ActorState.DEAD or cell.stopping is None:
        answer(caller)
    else:
        cell.stopping.waiting.append(caller)


def kill(cell: "Cell") -> None:
    """End without `on_stop`; children stop first."""
    if not cell.stopping:
        cell.cause = KILLED
        wind_down(cell, Offer.GONE, gentle=False)


def kill_incarnation(cell: "Cell") -> None:
    """End this incarnation as an exception would."""
    if not cell.stopping and cell.state is ActorState.ALIVE:
        cell.moment = cell.system.clock()
        cell.record(ENDING, KILLED, 0.0)
        end_incarnation(cell, KILLED)


def wind_down(cell: "Cell", reason: Offer, *, gentle: bool) -> None:
    """Begin to stop: what is pending becomes dead letters for `reason`."""
    cell.stopping = StopProgress(gentle=gentle)
    for message in cell.inbox.close(Offer.STOPPING):
        cell.system.refuse(cell.path, message, reason, counted=True)
    go_on_stopping(cell)


def go_on_stopping(cell: "Cell") -> None:
    """Stop the child that was started last; finish when no child is left to wait for."""
    if cell.stopping is None or cell.state is ActorState.DEAD:
        return
    left = [child for child in cell.children if child.path not in cell.stopping.overdue]
    if not left:
        finish(cell)
        return
    child = left[-1]
    child.command(stop)
    at = cell.system.clock() + child.spec.stop_deadline_s
    cell.system.timers.call_at(at, lambda: cell.command(lambda cell: give_up_on(cell, child)))


def give_up_on(cell: "Cell", child: "Cell") -> None:
    """Go on without a child that is not gone in time."""
    overdue = cell.stopping.overdue if cell.stopping is not None else set()
    if cell.state is ActorState.DEAD or child.state is ActorState.DEAD or child.path in overdue:
        return
    overdue.add(child.path)
    cell.log.error("child did not stop in time", child=child.path, deadline_s=child.spec.stop_deadline_s)
    go_on_stopping(cell)


def finish(cell: "Cell") -> None:
    """Be dead: `on_stop`, then nothing is left but what the system keeps for people."""
    stopping = cell.stopping
    assert stopping is not None
    if stopping.gentle:
        run_on_stop(cell)
    let_go(cell)
    operations, cell.operations = cell.operations, {}
    for operation in list(operations.values()):
        operation.abandon()
    cell.alarm.stop_timer()
    cell.state = ActorState.DEAD
    ActorRegistry.unregister(cell.actor_ref)
    cell.actor_stopped.set()
    for message in cell.inbox.close(Offer.GONE):
        cell.system.refuse(cell.path, message, Offer.STOPPING, counted=True)
    cell.system.remove(cell)
    for caller in stopping.waiting:
        answer(caller)


def answer(caller: "Future[Any]") -> None:
    """Answer a caller of pykka's own stop: it is done."""
    with suppress(Exception):  # pykka may have answered it already
        caller.set(None)


def run_on_stop(cell: "Cell") -> None:
    """Give the incarnation its `on_stop`; a failed one is traced and logged, and changes nothing."""
    incarnation, context = cell.incarnation, cell.context
    if incarnation is None or context is None:
        return
    cell.moment = cell.system.clock()
    cell.current = ENDING
    said = ""
    try:
        incarnation.on_stop(context)
        cell.committed = incarnation.state
    except (Exception, SystemExit) as error:  # noqa: BLE001  # the actor stops all the same
        said = cut(f"{type(error).__name__}: {error}")
        report(cell.log, "on_stop failed", error)
        if cell.system.interceptor is not None:
            cell.system.interceptor.crashing(cell.path, error)
    cell.current = None
    cell.record(ENDING, said, cell.system.clock() - cell.moment)


def vanish(cell: "Cell") -> None:
    """Be gone as after a kill of the process, with no word to anyone; on any thread."""
    cell.state = ActorState.DEAD
    cell.inbox.seal()
    ActorRegistry.unregister(cell.actor_ref)
    cell.actor_stopped.set()
