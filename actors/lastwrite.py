"""What an actor writes as it stops, when no outcome would reach it any more: an orderly end loses nothing."""

from collections.abc import Iterable

import msgspec

from api.errors import OperatingError
from api.ports import BlockingPort, Port
from runtime.kernel.actor import Context

LAST_WRITE_S = 1.0


def write_at_last(ledger: Port | BlockingPort, calls: Iterable[msgspec.Struct], ctx: Context) -> None:
    """Carry out calls of the ledger one after the other, until one fails: the next would as well."""
    if not hasattr(ledger, "perform"):
        return
    for call in calls:
        try:
            ledger.perform(call, LAST_WRITE_S)
        except OperatingError as error:
            ctx.log.warning(
                "the ledger takes nothing, not even at last", call=type(call).__name__, why=str(error)
            )
            return
