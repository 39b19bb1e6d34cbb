"""`python -m bench.peers`: Ottla and Apache Kafka in turns; prints a table, writes JSON and a report."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Sequence

from bench.conditions import as_text, conditions
from bench.peers.contest import FULL, QUICK, SMOKE, Effort, Entry, contest
from bench.peers.fleet import Peer
from bench.peers.jars import NoKafka, find_kafka
from bench.peers.report import as_table, write_json, write_report
from bench.peers.scenarios import BY_NAME, SCENARIOS

RESULTS = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "results")


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench.peers", description=__doc__, allow_abbrev=False)
    parser.add_argument(
        "--only", metavar="NAME", action="append", help=f"one scenario, may be repeated: {', '.join(BY_NAME)}"
    )
    parser.add_argument("--quick", action="store_true", help="less of everything")
    parser.add_argument("--smoke", action="store_true", help="tiny sizes: the figures mean nothing")
    parser.add_argument("--thorough", action="store_true", help="every combination: hours")
    parser.add_argument("--rounds", type=int, help="how often each peer has its turn")
    parser.add_argument("--alone", action="store_true", help="Ottla alone, even where Kafka can be had")
    parser.add_argument("--data", metavar="DIR", help="where servers keep their data (default: the temp dir)")
    parser.add_argument("--json", metavar="PATH", help="where to write the figures (default: bench/results/)")
    parser.add_argument("--report", metavar="PATH", help="write the report there, e.g. docs/BENCHMARKS.md")
    return parser


def effort_of(arguments: argparse.Namespace) -> Effort:
    effort = SMOKE if arguments.smoke else QUICK if arguments.quick else FULL
    if arguments.rounds:
        effort = effort._replace(rounds=arguments.rounds)
    return effort._replace(thorough=arguments.thorough)


def find_peers(data_root: str, *, alone: bool) -> tuple[list[Peer], str]:
    peers = [Peer("Ottla", data_root)]
    if alone:
        return peers, "not asked for"
    try:
        kafka = find_kafka()
    except NoKafka as reason:
        print(f"bench: Ottla alone, without Apache Kafka: {reason}", file=sys.stderr)
        return peers, str(reason)
    return [*peers, Peer("Kafka", data_root, kafka)], f"{kafka.version} from {kafka.origin}"


def main(argv: Sequence[str] | None = None) -> int:
    arguments = build_parser().parse_args(argv)
    unknown = [name for name in arguments.only or () if name not in BY_NAME]
    if unknown:
        print(f"bench: no scenario {unknown[0]}; there are {', '.join(BY_NAME)}", file=sys.stderr)
        return 2
    data_root = arguments.data or tempfile.gettempdir()
    effort = effort_of(arguments)
    peers, kafka = find_peers(data_root, alone=arguments.alone)
    found = conditions(data_root) | {"kafka": kafka, "effort": effort._asdict()}
    entries: list[Entry] = []
    for scenario in SCENARIOS:
        if scenario.name in (arguments.only or BY_NAME):
            began_s = time.monotonic()
            entries += contest(scenario, peers, effort)
            took_s = time.monotonic() - began_s
            print(f"{scenario.name}: {took_s:.0f} s", file=sys.stderr, flush=True)
    found["load_after"] = [round(load, 2) for load in os.getloadavg()]
    path = arguments.json or os.path.join(RESULTS, time.strftime("peers-%Y%m%d-%H%M%S.json"))
    write_json(path, found, entries)
    if arguments.report:
        write_report(arguments.report, found, entries, SCENARIOS)
    print(as_text(found))
    print(f"kafka     {kafka}\n")
    print(as_table(entries))
    print(f"\nwritten to {os.path.relpath(path)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
