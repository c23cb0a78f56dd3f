"""Logs the state of manifest files and URLs: problems as warnings, accepted pods as information."""

from typing import Protocol

from api.shown.introspection import SourceRow


class SourceLog(Protocol):
    """The log of an actor."""

    def info(self, text: str, **facts: object) -> None:
        """Log at INFO."""
        ...

    def warning(self, text: str, **facts: object) -> None:
        """Log at WARNING."""
        ...


def log_rows(log: SourceLog, rows: tuple[SourceRow, ...]) -> None:
    """Log each row that is accepted or has a problem; ``nodeagent sources`` shows all."""
    for row in rows:
        if row.status in ("broken", "duplicate", "unreachable") or (
            row.problems and row.status == "accepted"
        ):
            log.warning("manifest invalid", where=row.where, status=row.status, problems=row.problems)
        elif row.status == "accepted":
            log.info("manifest accepted", where=row.where, pod=row.pod)
