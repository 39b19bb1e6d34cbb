"""Figures with their goals, as a table and as JSON."""

from __future__ import annotations

import json
import os
import statistics
from collections.abc import Sequence
from typing import Any, NamedTuple


class Figure(NamedTuple):
    """One measured number. A goal is an upper bound unless `more_is_better` is set."""

    name: str
    value: float
    unit: str
    goal: float | None = None
    note: str = ""
    more_is_better: bool = False  # the goal is a lower bound

    @property
    def verdict(self) -> str:
        if self.goal is None:
            return ""
        if self.more_is_better:
            return "ok" if self.value >= self.goal else "SHORT"
        return "ok" if self.value <= self.goal else "OVER"

    @property
    def goal_text(self) -> str:
        if self.goal is None:
            return ""
        return f">= {self.goal:g}" if self.more_is_better else f"{self.goal:g}"

    def as_json(self) -> dict[str, Any]:
        return {**self._asdict(), "verdict": self.verdict}


def figure_of(
    name: str,
    values: Sequence[float],
    unit: str,
    goal: float | None = None,
    note: str = "",
    *,
    more_is_better: bool = False,
) -> Figure:
    """Return the median of several rounds, with their spread in the note."""
    assert values, f"{name}: nothing was measured"
    spread = f"{rounded(min(values))}..{rounded(max(values))}" if len(values) > 1 else ""
    remarks = "; ".join(filter(None, (spread, note)))
    return Figure(name, statistics.median(values), unit, goal, remarks, more_is_better)


def rounded(value: float) -> str:
    if value == 0:
        return "0"
    magnitude = abs(value)
    digits = 0 if magnitude >= 100 else 1 if magnitude >= 10 else 2 if magnitude >= 1 else 3
    return f"{value:.{digits}f}"


COLUMNS = ("figure", "value", "unit", "goal", "verdict", "rounds and remarks")
RIGHT_ALIGNED = (1, 3)


def as_table(figures: Sequence[Figure]) -> str:
    rows = [COLUMNS] + [
        (
            figure.name,
            rounded(figure.value),
            figure.unit,
            figure.goal_text,
            figure.verdict,
            figure.note,
        )
        for figure in figures
    ]
    return aligned(rows, RIGHT_ALIGNED)


def aligned(rows: Sequence[Sequence[str]], right: Sequence[int]) -> str:
    """Format rows as a table; the first row is the header, columns in `right` are right-aligned."""
    widths = [max([len(row[column]) for row in rows]) for column in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [
            cell.rjust(width) if column in right else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    lines.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join(lines)


def write_json(path: str, conditions: dict[str, Any], figures: Sequence[Figure]) -> None:
    os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"conditions": conditions, "figures": [f.as_json() for f in figures]}, file, indent=1)
        file.write("\n")
