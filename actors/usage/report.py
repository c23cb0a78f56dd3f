"""What UsageManager logs: a part that cannot be read any more, and one that can again."""

from collections.abc import Mapping

import msgspec

from actors.usage.state import Part, UsageState

OF_RUNTIME = frozenset({Part.LISTING, Part.IMAGES, Part.STATS})
"""Parts that ask the runtime: when it hangs, the first that fails speaks for all of them."""


class UsageLogLine(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the log."""

    text: str
    facts: Mapping[str, object] = {}
    warning: bool = False


def report(before: UsageState, after: UsageState) -> tuple[UsageLogLine, ...]:
    """Return the log lines of parts that changed; problems of single rows are in the usage itself."""
    failed_before, failed, refused_before = before.failed, after.failed, before.refused
    lines = [
        UsageLogLine(
            text="usage cannot be read", facts={"what": named(part), "why": failed[part]}, warning=True
        )
        for part in news(failed_before, failed)
    ]
    lines += [
        UsageLogLine(text="usage is read again", facts={"what": named(part)})
        for part in news(failed, failed_before)
    ]
    lines += [
        UsageLogLine(
            text="usage reading refused", facts={"what": part.value, "why": "; ".join(whys)}, warning=True
        )
        for part, whys in sorted(after.refused.items())
        if part not in refused_before
    ]
    return tuple(lines)


def named(part: Part) -> str:
    """Return the name of a part for the log."""
    return "runtime" if part in OF_RUNTIME else part.value


def news(without: Mapping[Part, str], having: Mapping[Part, str]) -> tuple[Part, ...]:
    """Return the parts that only `having` has, to be logged: one for all that ask the runtime."""
    new = sorted(part for part in having if part not in without)
    known = any(part in OF_RUNTIME for part in without)
    first = next((part for part in new if part in OF_RUNTIME and not known), None)
    return tuple(part for part in new if part is first or part not in OF_RUNTIME)
