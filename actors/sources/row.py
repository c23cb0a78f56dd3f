"""Telling an operator what became of which file or URL: what is wrong loudly, what waits or is ignored not at all."""

from typing import Protocol

from api.shown.introspection import SourceRow


class Voice(Protocol):
    """A log to tell rows to."""

    def info(self, text: str, **facts: object) -> None:
        """Tell what went well."""
        ...

    def warning(self, text: str, **facts: object) -> None:
        """Tell what somebody should look at."""
        ...


def tell_rows(log: Voice, rows: tuple[SourceRow, ...]) -> None:
    """Tell each row; what is left out can be looked up with ``nodeagent sources``."""
    for row in rows:
        if row.status in ("broken", "duplicate", "unreachable") or (
            row.problems and row.status == "accepted"
        ):
            log.warning("manifest needs a look", where=row.where, status=row.status, problems=row.problems)
        elif row.status == "accepted":
            log.info("manifest accepted", where=row.where, pod=row.pod)
