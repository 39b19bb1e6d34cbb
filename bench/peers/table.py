"""The figures as a table."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from bench.figures import aligned, rounded
from bench.peers.contest import Entry

HEAD = ("figure", "Ottla", "Kafka", "unit", "times better", "spread", "goal", "verdict")
RIGHT_ALIGNED = (1, 2, 4)
LEVEL = 1.02  # a ratio closer to 1 counts as equal


def standing(entry: Entry) -> str:
    if entry.advantage is None:
        return "alone"
    return "ahead" if entry.advantage > LEVEL else "behind" if entry.advantage < 1 / LEVEL else "level"


def as_table(entries: Sequence[Entry]) -> str:
    rows: list[tuple[str, ...]] = [HEAD]
    scenario = ""
    for entry in entries:
        if entry.scenario != scenario:
            scenario = entry.scenario
            rows.append((f"[{scenario}]", *[""] * (len(HEAD) - 1)))
        rows.append(cells(entry))
    return aligned(rows, RIGHT_ALIGNED)


def cells(entry: Entry) -> tuple[str, ...]:
    advantage = entry.advantage
    return (
        entry.figure,
        rounded(statistics.median(entry.ours)),
        rounded(statistics.median(entry.theirs)) if entry.theirs else "-",
        entry.measure.unit,
        rounded(advantage) if advantage is not None else "",
        f"{_spread(entry.ours)} / {_spread(entry.theirs)}",
        f"{entry.measure.goal:g}" if entry.measure.goal is not None else "",
        entry.verdict,
    )


def _spread(values: Sequence[float]) -> str:
    return f"{rounded(min(values))}..{rounded(max(values))}" if values else "-"
