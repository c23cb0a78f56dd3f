"""MirrorManager's lines for the log."""

from collections.abc import Mapping

import msgspec

from actors.mirrors.state import MirrorMessage, MirrorsState
from api.messages.kernel import KernelMessage, Outcome


class MirrorLine(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the log."""

    text: str
    facts: Mapping[str, object] = {}
    warning: bool = False


def report(
    before: MirrorsState, after: MirrorsState, message: MirrorMessage | KernelMessage
) -> tuple[MirrorLine, ...]:
    """Return log lines for what a call's end changed. That the API server forbids mirrors is said once for all of them."""
    name = before.calls.get(message.op) if isinstance(message, Outcome) else None
    if name is None:
        return ()
    old, new = before.entries[name], after.entries.get(name)
    call = old.call
    facts: dict[str, object] = {"pod": name}
    if after.forbidden:
        if before.forbidden:
            return ()
        why = {"why": after.forbidden}
        return (MirrorLine(text="mirror pods forbidden by the API server", facts=facts | why, warning=True),)
    failure = new.failure if new is not None else None
    if failure is not None:
        known = old.failure
        if known is not None and (known.kind, known.message) == (failure.kind, failure.message):
            return ()
        why = {"why": failure.message}
        return (MirrorLine(text="mirror pod not brought up to date", facts=facts | why, warning=True),)
    if call is None or (new is not None and new.retry.failures):
        return ()
    return (MirrorLine(text="mirror pod created" if call.created else "mirror pod deleted", facts=facts),)
