"""The outcome for people: a table on the terminal, a page with charts, and JSON for machines."""

from __future__ import annotations

import json
import os
import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from bench.figures import aligned, rounded
from bench.peers.contest import Entry, Scenario

HEAD = ("figure", "Ottla", "Kafka", "unit", "times better", "spread", "goal", "verdict")
RIGHT_ALIGNED = (1, 2, 4)
BAR_MAX = 24
METHOD = """\
Both peers run on one machine as processes of their own, with the same properties file, fresh directories on
the same file system and the defaults of both for everything that the file does not name; Kafka has the JVM
options of its start script and no logging. Both are up during a scenario (except where starting is what is
measured); each has warm-up rounds that do not count, then they take turns, and the medians of the rounds
are shown with their spread. Load comes from librdkafka through confluent-kafka, and from
`bench/peers/blast.c` for small requests; it runs on the same cores, so rates say as much about the client
as about the server. What a server costs is its CPU time, by the kernel's books (`/proc`). "Times better" is
the ratio of the medians, turned so that above 1 Ottla is ahead.
"""


def as_table(entries: Sequence[Entry]) -> str:
    rows: list[tuple[str, ...]] = [HEAD]
    scenario = ""
    for entry in entries:
        if entry.scenario != scenario:
            scenario = entry.scenario
            rows.append((f"[{scenario}]", *[""] * (len(HEAD) - 1)))
        rows.append(_cells(entry))
    return aligned(rows, RIGHT_ALIGNED)


def _cells(entry: Entry) -> tuple[str, ...]:
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


def write_json(path: str, conditions: Mapping[str, Any], entries: Sequence[Entry]) -> None:
    os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"conditions": conditions, "entries": [e.as_json() for e in entries]}, file, indent=1)
        file.write("\n")


def write_report(
    path: str, conditions: Mapping[str, Any], entries: Sequence[Entry], scenarios: Sequence[Scenario]
) -> None:
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(_report(conditions, entries, scenarios)) + "\n")


def _report(
    conditions: Mapping[str, Any], entries: Sequence[Entry], scenarios: Sequence[Scenario]
) -> Iterator[str]:
    yield "# Ottla beside Apache Kafka"
    yield ""
    yield "Written by `make bench-peers`; do not edit."
    yield ""
    yield "## How it was measured"
    yield ""
    yield METHOD
    packages = ", ".join(f"{name} {number}" for name, number in conditions["packages"].items())
    yield f"- machine: {conditions['machine']}, {conditions['memory_gb']} GB, {conditions['system']}"
    yield f"- Ottla: {conditions['python']}, {packages}"
    yield f"- Apache Kafka: {conditions['kafka']}; librdkafka {conditions['librdkafka']}"
    yield f"- data: {conditions['data'].split(' ')[0]}; {conditions['effort']['rounds']} rounds each"
    yield f"- load average before {conditions['load_before']}, after {conditions.get('load_after', '?')}"
    yield ""
    yield from _losses(entries)
    for scenario in scenarios:
        mine = [entry for entry in entries if entry.scenario == scenario.name]
        if mine:
            yield f"## {scenario.title}"
            yield ""
            yield from _section(mine)
            yield ""
    yield "## Again"
    yield ""
    yield "    make bench-peers                     # everything; KAFKA_HOME or mvn gives Kafka"
    yield "    python -m bench.peers --only produce --rounds 5"


def _losses(entries: Sequence[Entry]) -> Iterator[str]:
    behind = [entry for entry in entries if entry.advantage is not None and entry.advantage < 1]
    ahead = sum([entry.advantage is not None and entry.advantage >= 1 for entry in entries])
    yield "## In short"
    yield ""
    yield f"Ottla is ahead in {ahead} figures and behind in {len(behind)}. Behind, the farthest first:"
    yield ""
    for entry in sorted(behind, key=lambda entry: entry.advantage or 0):
        short = " (short of its goal)" if entry.verdict == "BEHIND" else ""
        yield f"- {entry.scenario}, {entry.figure}: {rounded(entry.advantage or 0)} x{short}"
    yield ""


def _section(entries: Sequence[Entry]) -> Iterator[str]:
    yield "| figure | Ottla | Kafka | unit | times better | |"
    yield "| --- | ---: | ---: | --- | ---: | --- |"
    for entry in entries:
        figure, ours, theirs, unit, advantage, spread, *_ = _cells(entry)
        bar = _bar(entry.advantage)
        yield f"| {figure} | {ours} | {theirs} | {unit} | {advantage} | `{bar}` {spread} |"


def _bar(advantage: float | None) -> str:
    """A chart that any viewer shows: level in the middle, a doubling is four marks."""
    if advantage is None or advantage <= 0:
        return ""
    from math import log2

    marks = max(-BAR_MAX // 2, min(BAR_MAX // 2, round(4 * log2(advantage))))
    half = BAR_MAX // 2
    left = ("<" * -marks).rjust(half) if marks < 0 else " " * half
    right = (">" * marks).ljust(half) if marks > 0 else " " * half
    return f"{left}|{right}"
