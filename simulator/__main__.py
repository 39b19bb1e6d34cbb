"""Run scenarios with many seeds and print one line for each: `make simulate SEEDS=100`.

    python -m simulator --seeds 100 [--first 1] [--scenario power]    default: all scenarios
    python -m simulator --seeds 1 --first 7 --scenario power --trace  replay one seed and print every event

The exit code is 1 if a checker reported a violation.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from simulator.runner import SCENARIOS, Outcome, run_scenario

REPLAY = "python -m simulator --scenario {} --first {} --seeds 1 --trace"
HEAD = "scenario       seed  virtual s  real s   events  starts   acked    read  fingerprint       verdict"


def verdict(outcome: Outcome) -> str:
    if outcome.passed:
        return "known defects" if outcome.known else "ok"
    return "FAILED"


def line(outcome: Outcome) -> str:
    return (
        f"{outcome.scenario:<12} {outcome.seed:>6}  {outcome.virtual_s:>9.1f}  {outcome.real_s:>6.2f}  "
        f"{outcome.events:>7}  {outcome.starts:>6}  {outcome.acknowledged:>6}  {outcome.read:>6}  "
        f"{outcome.fingerprint}  {verdict(outcome)}"
    )


def outcomes(work: list[tuple[str, int]], jobs: int, *, trace: bool) -> Iterator[Outcome]:
    """Yield the outcomes in the order of `work`, whatever the number of processes."""
    if jobs <= 1 or trace or len(work) == 1:
        for name, seed in work:
            yield run_scenario(name, seed, show=print if trace else None)
        return
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        yield from pool.map(run_scenario, *zip(*work, strict=True), chunksize=2)


def simulate(scenarios: list[str], first: int, count: int, jobs: int, *, trace: bool) -> int:
    bad = 0
    began_s = time.monotonic()
    print(HEAD, flush=True)
    work = [(name, seed) for name in scenarios for seed in range(first, first + count)]
    for outcome in outcomes(work, jobs, trace=trace):
        print(line(outcome), flush=True)
        if not outcome.passed:
            bad += 1
            for complaint in outcome.complaints:
                print(f"    {complaint}")
            print(f"    replay: {REPLAY.format(outcome.scenario, outcome.seed)}", flush=True)
    took_s = time.monotonic() - began_s
    print(
        f"{len(work) - bad} of {len(work)} passed"
        + (f", {bad} FAILED" if bad else "")
        + f"; {len(work) * 60 / took_s:.0f} seeds per minute"
    )
    return 1 if bad else 0


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=10, help="number of seeds")
    parser.add_argument("--first", type=int, default=1, help="first seed")
    parser.add_argument("--scenario", choices=list(SCENARIOS), action="append", help="may be repeated")
    parser.add_argument(
        "--jobs", type=int, default=os.cpu_count() or 1, help="number of processes; --trace uses one"
    )
    parser.add_argument("--trace", action="store_true", help="print every event")
    options = parser.parse_args()
    scenarios = options.scenario or list(SCENARIOS)
    return simulate(scenarios, options.first, options.seeds, options.jobs, trace=options.trace)


if __name__ == "__main__":
    sys.exit(main())
