"""Budgets of the benches: one measured thing a row, what it must stay within, and the table for people."""

import msgspec

from runtime.cli.table import Column, TableCell, screen_of, table


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
    ratio_at_most: float | None = None
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
            and (self.ratio_at_most is None or (self.ratio is not None and self.ratio <= self.ratio_at_most))
        )

    @property
    def budget(self) -> str:
        """Return the budgets in words."""
        limits = (
            (">=", self.at_least, self.unit),
            ("<=", self.at_most, self.unit),
            (">=", self.ratio_at_least, "x"),
            ("<=", self.ratio_at_most, "x"),
        )
        return ", ".join(f"{sign} {figure(limit, unit)}" for sign, limit, unit in limits if limit is not None)


def figure(value: float | None, unit: str) -> str:
    """Return a figure with its unit, with as many digits as can be meant."""
    if value is None:
        return ""
    digits = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2
    return f"{value:,.{digits}f}{unit if unit in ('x', '%', '/s') else ' ' + unit}"


def show(rows: list[Row], *, beside: str = "PYKKA") -> str:
    """Return the rows as a table; `beside` is the head of the column of what the other did, empty for none."""
    others = (Column(beside, right=True), Column("RATIO", right=True)) if beside else ()
    columns = (
        Column("WHAT"),
        Column("OURS", right=True),
        *others,
        Column("BUDGET", right=True),
        Column("MET"),
        Column("DETAIL", least=10),
    )
    lines: list[tuple[TableCell | str, ...]] = []
    for row in rows:
        verdict = "" if not row.budget else "yes" if row.met else "NO"
        compared = (figure(row.other, row.unit), figure(row.ratio, "x")) if beside else ()
        met = TableCell(verdict, {"yes": "good", "NO": "bad"}.get(verdict, ""))
        lines.append((row.what, figure(row.ours, row.unit), *compared, row.budget, met, row.detail))
    return table(columns, lines, screen_of())
