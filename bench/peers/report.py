"""`python -m bench.peers.report A.json B.json --report docs/BENCHMARKS.md`: several runs as one page.

The page has charts beside it, and the figures it was made of: `benchmarks/*.svg`, `benchmarks/figures.json`.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from bench.figures import rounded
from bench.peers.behind import behind
from bench.peers.charts import Bar, bar_chart, strip_chart
from bench.peers.contest import Entry, Scenario
from bench.peers.results import Part, merged, read_parts, write_parts
from bench.peers.scenarios import SCENARIOS
from bench.peers.table import cells, standing

CHARTS = "benchmarks"
OVERVIEW = "overview"
FIGURES = "figures.json"
METHOD = """\
Both peers run on one machine as processes of their own, with the same properties file, fresh directories on
the same file system, and their own defaults for everything that the file does not name, durability included;
Kafka has the JVM options of its start script and no logging. Both are up during a scenario, except where
starting is what is measured. Each has warm-up rounds that do not count, Kafka more of them, since its JVM
compiles what runs often; then they take turns, A B A B A B. The tables show the medians of the rounds and, as
spread, the least and the most of each peer.

"Times better" is the ratio of the medians, turned so that above 1 Ottla is ahead. What a server costs is its
CPU time, its context switches and the bytes it has written to files, by the kernel's books (`/proc`), all
threads and, with three brokers, all brokers together. Load comes from librdkafka through confluent-kafka,
from `bench/peers/blast.c` for small requests, and as a second opinion from Kafka's own Java tools and from
kcat. It runs on the same cores, so a rate says as much about the client as about the server; and on a shared
machine no time means much by itself. The CPU time per byte or per request is the figure to trust.

Before something is written, as much page cache is filled and emptied as it will take, for both peers: a
virtual machine asks its host for memory then, and not while it is measured.
"""
AGAIN = """\
    make bench-peers                     # everything; KAFKA_HOME or mvn gives Kafka, without them Ottla alone
    make bench-quick                     # a look in three minutes; writes no report
    python -m bench.peers --only produce --rounds 5 --json part.json
    python -m bench.peers.report docs/benchmarks/figures.json part.json --report docs/BENCHMARKS.md

The last line puts the figures of one scenario in the place of those on this page. A scenario's servers can be
profiled with `python -m bench.peers --only small --profile`.
"""


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m bench.peers.report", description=__doc__, allow_abbrev=False
    )
    parser.add_argument("results", metavar="JSON", nargs="+", help="of runs; later ones replace earlier ones")
    parser.add_argument("--report", metavar="PATH", required=True, help="the page, e.g. docs/BENCHMARKS.md")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    arguments = build_parser().parse_args(argv)
    parts = [part for path in arguments.results for part in read_parts(path)]
    write_report(arguments.report, parts)
    return 0


def write_report(path: str, parts: Sequence[Part], scenarios: Sequence[Scenario] = SCENARIOS) -> None:
    """The page, its charts, and the figures of both."""
    parts = merged(parts)
    directory = os.path.join(os.path.dirname(os.path.abspath(path)), CHARTS)
    os.makedirs(directory, exist_ok=True)
    for name in os.listdir(directory):
        if name.endswith(".svg"):
            os.remove(os.path.join(directory, name))
    write_parts(os.path.join(directory, FIGURES), parts)
    for name, chart in _charts(parts, scenarios):
        with open(os.path.join(directory, f"{name}.svg"), "w", encoding="utf-8") as file:
            file.write(chart)
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(_page(parts, scenarios)))


def _all(parts: Sequence[Part]) -> list[Entry]:
    return [entry for part in parts for entry in part.entries]


def _of(scenario: Scenario, entries: Sequence[Entry]) -> list[Entry]:
    return [entry for entry in entries if entry.scenario == scenario.name]


# -- charts


def _charts(parts: Sequence[Part], scenarios: Sequence[Scenario]) -> Iterator[tuple[str, str]]:
    rows: list[tuple[str, list[float]]] = []
    for scenario in scenarios:
        mine = _charted(_of(scenario, _all(parts)))
        if mine:
            yield scenario.name, bar_chart([_bar(entry) for entry in mine])
            rows.append((scenario.name, [entry.advantage or 0 for entry in mine]))
    if rows:
        yield OVERVIEW, strip_chart(rows)


def _charted(entries: Sequence[Entry]) -> list[Entry]:
    return [entry for entry in entries if entry.advantage is not None and not entry.measure.aside]


def _bar(entry: Entry) -> Bar:
    assert entry.advantage is not None
    ratios = [*entry.advantages, entry.advantage]
    return Bar(entry.figure, entry.advantage, min(ratios), max(ratios), entry.measure.goal)


# -- the page


def _page(parts: Sequence[Part], scenarios: Sequence[Scenario]) -> Iterator[str]:
    entries = _all(parts)
    yield "# Ottla beside Apache Kafka\n"
    yield "Written by `make bench-peers`; do not edit.\n"
    yield from _in_short(entries, scenarios)
    yield "## What stays behind\n"
    yield from behind(entries)
    yield "## How it was measured\n"
    yield METHOD
    for part in parts:
        yield from _conditions(part.conditions)
    for scenario in scenarios:
        mine = _of(scenario, entries)
        if mine:
            yield f"## {scenario.title}\n"
            yield from _section(scenario, mine, parts)
    yield "## Again\n"
    yield AGAIN


def _in_short(entries: Sequence[Entry], scenarios: Sequence[Scenario]) -> Iterator[str]:
    yield "## In short\n"
    compared = _charted(entries)
    if not compared:
        yield "Only Ottla was measured.\n"
        return
    asides = [entry for entry in entries if entry.advantage is not None and entry.measure.aside]
    with_goal = [entry for entry in compared if entry.measure.goal is not None]
    reached = sum([entry.verdict == "ok" for entry in with_goal])
    yield f"Of {len(compared)} figures Ottla is {_counted(compared)}."
    yield f"Of {len(asides)} more (context switches, bytes written, memory) it is {_counted(asides)}."
    yield f"{len(with_goal)} have a goal, and {reached} reach it."
    yield f"\n![every figure as a dot, right of the line Ottla is ahead]({CHARTS}/{OVERVIEW}.svg)\n"
    yield "| scenario | ahead | level | behind | farthest ahead | farthest behind |"
    yield "| --- | ---: | ---: | ---: | --- | --- |"
    for scenario in scenarios:
        mine = sorted(_of(scenario, compared), key=lambda entry: entry.advantage or 0)
        if mine:
            most = _in_words(mine[-1]) if standing(mine[-1]) == "ahead" else "nothing"
            least = _in_words(mine[0]) if standing(mine[0]) == "behind" else "nothing"
            numbers = " | ".join(map(str, _counts(mine).values()))
            yield f"| {scenario.name} | {numbers} | {most} | {least} |"
    yield ""


def _counts(entries: Sequence[Entry]) -> dict[str, int]:
    standings = [standing(entry) for entry in entries]
    return {name: standings.count(name) for name in ("ahead", "level", "behind")}


def _counted(entries: Sequence[Entry]) -> str:
    counts = _counts(entries)
    return (
        f"ahead in {counts['ahead']}, level (within 2 %) in {counts['level']}, behind in {counts['behind']}"
    )


def _in_words(entry: Entry) -> str:
    return f"{entry.figure}: {rounded(entry.advantage or 0)} x"


def _conditions(found: dict[str, Any]) -> Iterator[str]:
    """Of one run, without what only its machine knows."""
    packages = ", ".join(f"{name} {number}" for name, number in found["packages"].items())
    kernel = "compiled kernel" if found["kernel_compiled"] else "pure Python"
    yield f"Run of {found['time'].replace('T', ' ')}: {', '.join(found['scenarios'])}\n"
    machine = f"{found['machine']}, {found['memory_gb']} GB, {found['system']}"
    yield f"- machine: {machine}; data on {found['data']}"
    yield f"- Ottla: {found['python']}, {kernel}, {packages}"
    yield f"- Apache Kafka: {found['kafka']}; librdkafka {found['librdkafka']}"
    for name, reason in found.get("failed", {}).items():
        yield f"- **{name} failed**: {reason}"
    yield ""


def _section(scenario: Scenario, entries: Sequence[Entry], parts: Sequence[Part]) -> Iterator[str]:
    if _charted(entries):
        yield f"![times better, by figure]({CHARTS}/{scenario.name}.svg)\n"
    for part in parts:
        about = part.conditions["scenarios"].get(scenario.name)
        if about:
            yield (
                f"{about['rounds']} rounds each after {about['warm_ups']} to warm Kafka up, "
                f"{about['seconds']} s in all; load average {about['load_before']} before, "
                f"{about['load_after']} after.\n"
            )
    yield from _table([entry for entry in entries if not entry.measure.aside])
    asides = [entry for entry in entries if entry.measure.aside]
    if asides:
        yield "<details><summary>also counted</summary>\n"
        yield from _table(asides)
        yield "</details>\n"


def _table(entries: Sequence[Entry]) -> Iterator[str]:
    yield "| figure | Ottla | Kafka | unit | times better | spread, Ottla / Kafka | goal |"
    yield "| --- | ---: | ---: | --- | ---: | --- | --- |"
    for entry in entries:
        figure, ours, theirs, unit, advantage, spread, goal, verdict = cells(entry)
        wanted = f"{goal}: {'reached' if verdict == 'ok' else '**missed**'}" if verdict else ""
        yield f"| {figure} | {ours} | {theirs} | {unit} | {advantage} | {spread} | {wanted} |"
    yield ""


if __name__ == "__main__":
    sys.exit(main())
