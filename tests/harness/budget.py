"""Budgets of the benches: one measured thing a row, what it must stay within, and the table for people."""

import msgspec

from runtime.cli.table import Cell, Column, screen_of, table

COLUMNS = (
    Column("WHAT"),
    Column("OURS", right=True),
    Column("PYKKA", right=True),
    Column("RATIO", right=True),
    Column("BUDGET", right=True),
    Column("MET"),
    Column("DETAIL", least=10),
)


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One measured figure, its budget, and what another did under the same load."""

    what: str
    ours: float
    unit: str
    other: float | None = None
    ratio: float | None = None
    """Ours to the other's."""
    at_least: float | None = None
    at_most: float | None = None
    ratio_at_least: float | None = None
    detail: str = ""

    @property
    def met(self) -> bool:
        """Return whether each budget that the row has is kept."""
        return (
            (self.at_least is None or self.ours >= self.at_least)
            and (self.at_most is None or self.ours <= self.at_most)
            and (
                self.ratio_at_least is None or (self.ratio is not None and self.ratio >= self.ratio_at_least)
            )
        )

    @property
    def budget(self) -> str:
        """Return the budgets in words."""
        limits = (
            (">=", self.at_least, self.unit),
            ("<=", self.at_most, self.unit),
            (">=", self.ratio_at_least, "x"),
        )
        return ", ".join(f"{sign} {figure(limit, unit)}" for sign, limit, unit in limits if limit is not None)


def figure(value: float | None, unit: str) -> str:
    """Return a figure with its unit, with as many digits as can be meant."""
    if value is None:
        return ""
    digits = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2
    return f"{value:,.{digits}f}{unit if unit in ('x', '%', '/s') else ' ' + unit}"


def show(rows: list[Row], *, beside: bool = True) -> str:
    """Return the rows as a table; `beside`: with what the other did."""
    keep = [column for column in COLUMNS if beside or column.head not in ("PYKKA", "RATIO")]
    lines: list[tuple[Cell | str, ...]] = []
    for row in rows:
        verdict = "" if not row.budget else "yes" if row.met else "NO"
        cells = {
            "WHAT": row.what,
            "OURS": figure(row.ours, row.unit),
            "PYKKA": figure(row.other, row.unit),
            "RATIO": figure(row.ratio, "x"),
            "BUDGET": row.budget,
            "MET": Cell(verdict, {"yes": "good", "NO": "bad"}.get(verdict, "")),
            "DETAIL": row.detail,
        }
        lines.append(tuple(cells[column.head] for column in keep))
    return table(tuple(keep), lines, screen_of())
