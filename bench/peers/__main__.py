"""`python -m bench.peers`: measure Ottla and Apache Kafka alternately; print a table, write JSON and a
report."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from typing import Any

from bench.conditions import as_text, conditions
from bench.peers.contest import FULL, QUICK, SMOKE, Effort, Scenario, Shapes, contest, rounds_of
from bench.peers.fleet import Peer
from bench.peers.jars import NoKafka, find_kafka
from bench.peers.report import write_report
from bench.peers.results import Part, write_parts
from bench.peers.scenarios import BY_NAME, SCENARIOS
from bench.peers.table import as_table
from bench.profiles import print_profiles

RESULTS = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "results")


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench.peers", description=__doc__, allow_abbrev=False)
    parser.add_argument(
        "--only", metavar="NAME", action="append", help=f"one scenario, may be repeated: {', '.join(BY_NAME)}"
    )
    parser.add_argument("--quick", action="store_true", help="shorter runs")
    parser.add_argument(
        "--smoke", action="store_true", help="minimal sizes, for tests: the figures are meaningless"
    )
    parser.add_argument("--thorough", action="store_true", help="every combination; takes hours")
    parser.add_argument("--rounds", type=int, help="number of rounds per peer")
    parser.add_argument("--alone", action="store_true", help="measure only Ottla, even if Kafka is available")
    parser.add_argument(
        "--profile", action="store_true", help="run only Ottla, under a profiler; writes nothing"
    )
    parser.add_argument(
        "--data", metavar="DIR", help="directory for the data of the servers (default: the temp dir)"
    )
    parser.add_argument("--json", metavar="PATH", help="file for the figures (default: in bench/results/)")
    parser.add_argument("--report", metavar="PATH", help="file for the report, e.g. docs/BENCHMARKS.md")
    return parser


def effort_of(arguments: argparse.Namespace) -> Effort:
    effort = SMOKE if arguments.smoke else QUICK if arguments.quick else FULL
    if arguments.rounds:
        effort = effort._replace(rounds=arguments.rounds)
    return effort._replace(shapes=Shapes.EVERY) if arguments.thorough else effort


def find_peers(data_root: str, *, alone: bool) -> tuple[list[Peer], str]:
    if alone:
        return [Peer("Ottla", data_root)], "not requested"
    try:
        kafka = find_kafka()
    except NoKafka as reason:
        print(
            f"bench: measuring only Ottla, because Apache Kafka is not available: {reason}", file=sys.stderr
        )
        return [Peer("Ottla", data_root)], f"not available: {reason}"
    peers = [Peer("Ottla", data_root, tools=kafka), Peer("Kafka", data_root, kafka, tools=kafka)]
    return peers, f"{kafka.version} from {kafka.origin}"


def play(scenario: Scenario, peers: Sequence[Peer], effort: Effort, part: Part) -> None:
    """Run a scenario and add its figures. A failure is reported and does not affect the others."""
    began_s = time.monotonic()
    load_before = _load()
    try:
        part.entries.extend(contest(scenario, peers, effort))
    except Exception as error:
        print(f"bench: {scenario.name} failed", file=sys.stderr)
        traceback.print_exc()
        part.conditions["failed"][scenario.name] = f"{type(error).__name__}: {error}".splitlines()[0]
        return
    took_s = round(time.monotonic() - began_s)
    part.conditions["scenarios"][scenario.name] = {
        "seconds": took_s,
        "rounds": rounds_of(scenario, effort),
        "warm_ups": 0 if scenario.play is None else scenario.warm_ups,
        "load_before": load_before,
        "load_after": _load(),
    }
    print(f"{scenario.name}: {took_s} s", file=sys.stderr, flush=True)


def _load() -> float:
    return round(os.getloadavg()[0], 2)


def profile(scenarios: Sequence[Scenario], data_root: str, effort: Effort) -> None:
    for scenario in scenarios:
        with tempfile.TemporaryDirectory(prefix="ottla-profile-") as directory:
            entries = contest(scenario, [Peer("Ottla", data_root, profiles=directory)], effort)
            print(as_table(entries))
            print("(these figures include the profiler)")
            print_profiles(scenario.name, directory, sampled=True)


def main(argv: Sequence[str] | None = None) -> int:
    arguments = build_parser().parse_args(argv)
    unknown = [name for name in arguments.only or () if name not in BY_NAME]
    if unknown:
        print(
            f"bench: unknown scenario {unknown[0]}; the scenarios are {', '.join(BY_NAME)}", file=sys.stderr
        )
        return 2
    data_root = arguments.data or tempfile.gettempdir()
    effort = effort_of(arguments)
    scenarios = [scenario for scenario in SCENARIOS if scenario.name in (arguments.only or BY_NAME)]
    if arguments.profile:
        profile(scenarios, data_root, effort)
        return 0
    peers, kafka = find_peers(data_root, alone=arguments.alone)
    found: dict[str, Any] = conditions(data_root) | {"kafka": kafka, "scenarios": {}, "failed": {}}
    found["data"] = found["data"].split(" ")[0]  # the path on this machine is not published
    found["effort"] = effort._asdict() | {"shapes": effort.shapes.value}
    part = Part(found, [])
    path = arguments.json or os.path.join(RESULTS, time.strftime("peers-%Y%m%d-%H%M%S.json"))
    for scenario in scenarios:
        play(scenario, peers, effort, part)
        write_parts(path, [part])
    if arguments.report:
        write_report(arguments.report, [part])
    print(as_text(found))
    print(f"kafka     {kafka}\n")
    print(as_table(part.entries))
    print(f"\nwritten to {os.path.relpath(path)}")
    return 1 if found["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
