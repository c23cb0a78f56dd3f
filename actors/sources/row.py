"""How loudly an operator is told of a row that changed."""

from enum import StrEnum

from api.introspection import SourceRow


class Voice(StrEnum):
    """How a changed row is told."""

    SILENT = "silent"
    INFO = "info"
    WARNING = "warning"


def voice(row: SourceRow) -> Voice:
    """Choose how to tell a row: what is wrong loudly, what waits or is ignored not at all (it can be looked up)."""
    if row.status in ("broken", "duplicate", "unreachable"):
        return Voice.WARNING
    if row.status in ("waiting", "ignored"):
        return Voice.SILENT
    return Voice.WARNING if row.problems else Voice.INFO
