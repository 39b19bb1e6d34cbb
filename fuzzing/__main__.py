"""Attacks a broker of its own with mutated recordings and strange requests: `make fuzz`.

    python -m fuzzing --seconds 60 [--seed 7]     rounds until the time is over
    python -m fuzzing --replay build/fuzz/FILE    plays a failed round again, one connection at a time

Exit code 1 and a file with the bytes of the round if the broker was ever not well.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
import time

from fuzzing.fuzzer import Fuzzer, FuzzFailure, load_cases, replay
from fuzzing.recorder import load_frames
from fuzzing.target import Unwell, Victim

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
CORPUS = os.path.join(ROOT, "tests", "hostile", "corpus", "frames.txt")
REPRODUCERS = os.path.join(ROOT, "build", "fuzz")
REPORT_EVERY_S = 10.0


def attack(seconds: float, seed: int) -> int:
    print(f"seed {seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="ottla-fuzz-") as directory:
        try:
            with Victim(directory) as victim, Fuzzer(victim, load_frames(CORPUS), seed) as fuzzer:
                run_for(fuzzer, victim, seconds)
        except FuzzFailure as failure:
            path = failure.save(REPRODUCERS)
            print(f"{failure}\n\nkept: python -m fuzzing --replay {os.path.relpath(path)}")
            return 1
        except Unwell as error:
            print(f"seed {seed}: {error}")
            return 1
    return 0


def run_for(fuzzer: Fuzzer, victim: Victim, seconds: float) -> None:
    fuzzer.prepare()
    began_s = reported_s = time.monotonic()
    while (now_s := time.monotonic()) - began_s < seconds:
        fuzzer.round()
        if now_s - reported_s > REPORT_EVERY_S:
            reported_s = now_s
            print(f"{now_s - began_s:5.0f} s: {state(fuzzer, victim)}", flush=True)
    print(f"at the end: {state(fuzzer, victim)}; restarting", flush=True)
    fuzzer.finish()
    print("well")


def state(fuzzer: Fuzzer, victim: Victim) -> str:
    return (
        f"{fuzzer.rounds} rounds, {fuzzer.cases} connections, {fuzzer.answered} answered, "
        f"{victim.rss_bytes() >> 20} MB"
    )


def play_again(path: str) -> int:
    cases = load_cases(path)
    with tempfile.TemporaryDirectory(prefix="ottla-fuzz-") as directory:
        try:
            with Victim(directory) as victim:
                guilty = replay(victim, cases)
        except Unwell as error:
            print(error)
            return 1
    if guilty is None:
        print(f"{len(cases)} connections, the broker stayed well: it takes more than one of them")
        return 0
    print(f"guilty, {'lingering' if guilty.lingers else 'closed at once'}:")
    for data in guilty.writes:
        print(" ", data.hex())
    return 1


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=None, help="drawn and printed if not given")
    parser.add_argument("--replay", metavar="FILE", help="a file that a failed run has left")
    options = parser.parse_args()
    if options.replay:
        return play_again(options.replay)
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(1 << 32)
    return attack(options.seconds, seed)


if __name__ == "__main__":
    sys.exit(main())
