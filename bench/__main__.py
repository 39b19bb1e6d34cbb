"""`python -m bench`: run the cases, print one table with the conditions, write JSON."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Sequence

from bench import cases
from bench.broker import Launch
from bench.conditions import as_text, conditions
from bench.figures import Figure, as_table, write_json
from bench.profiles import print_profiles
from bench.sizes import FULL, QUICK, SMOKE, Sizes

RESULTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "results")


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__, allow_abbrev=False)
    parser.add_argument("--quick", action="store_true", help="smaller sizes and fewer rounds: a few minutes")
    parser.add_argument(
        "--smoke", action="store_true", help="minimal sizes, for tests: the figures are meaningless"
    )
    parser.add_argument(
        "--only", metavar="NAME", action="append", help=f"one case, may be repeated: {', '.join(cases.NAMES)}"
    )
    parser.add_argument("--json", metavar="PATH", help="file for the figures (default: in bench/results/)")
    parser.add_argument(
        "--data", metavar="DIR", help="directory for the data of brokers (default: the temp dir)"
    )
    parser.add_argument("--profile", metavar="NAME", help="run one case with the broker under a profiler")
    parser.add_argument(
        "--profiler",
        choices=("trace", "sample"),
        default="sample",
        help="sample: shares of CPU time per line; trace: cProfile, with counts of calls (default: sample)",
    )
    return parser


def run_cases(names: Sequence[str], launch: Launch, sizes: Sizes) -> list[Figure]:
    figures: list[Figure] = []
    for name in names:
        began_s = time.monotonic()
        print(f"{name} ...", end="", file=sys.stderr, flush=True)
        figures += cases.case(name)(launch, sizes)
        print(f" {time.monotonic() - began_s:.1f} s", file=sys.stderr, flush=True)
    return figures


def profile(name: str, sampled: bool, data_root: str, sizes: Sizes) -> None:
    """Print one profile per broker that the case starts, in order of start."""
    with tempfile.TemporaryDirectory(prefix="ottla-profile-") as directory:
        figures = run_cases([name], Launch(data_root, directory, sampled), sizes)
        print(as_table(figures))
        print("(these figures include the profiler)")
        print_profiles(name, directory, sampled=sampled)


def main(argv: Sequence[str] | None = None) -> int:
    arguments = build_parser().parse_args(argv)
    sizes = SMOKE if arguments.smoke else QUICK if arguments.quick else FULL
    data_root = arguments.data or tempfile.gettempdir()
    try:
        names = cases.matching(arguments.only or cases.NAMES)
        profiled = cases.matching([arguments.profile]) if arguments.profile else []
    except KeyError as error:
        print(f"bench: unknown case {error}; the cases are {', '.join(cases.NAMES)}", file=sys.stderr)
        return 2
    if profiled:
        for name in profiled:
            profile(name, arguments.profiler == "sample", data_root, sizes)
        return 0
    found = conditions(data_root)
    figures = run_cases(names, Launch(data_root), sizes)
    found["load_after"] = [round(load, 2) for load in os.getloadavg()]
    found["sizes"] = sizes._asdict()
    path = arguments.json or os.path.join(RESULTS, time.strftime("%Y%m%d-%H%M%S.json"))
    write_json(path, found, figures)
    print(as_text(found))
    print()
    print(as_table(figures))
    print(f"\nwritten to {os.path.relpath(path)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
