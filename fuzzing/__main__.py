"""Fuzz a broker process with mutated recordings and unusual requests: `make fuzz`.

    python -m fuzzing --seconds 60 [--seed 7]     run rounds for this time
    python -m fuzzing --replay build/fuzz/FILE    replay a failed round, one connection at a time

If the broker fails a check, the exit code is 1 and the bytes of the round are saved to a file.
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
from fuzzing.target import BrokerUnhealthy, TargetBroker

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
CORPUS = os.path.join(ROOT, "tests", "hostile", "corpus", "frames.txt")
REPRODUCERS = os.path.join(ROOT, "build", "fuzz")
REPORT_EVERY_S = 10.0


def attack(seconds: float, seed: int) -> int:
    print(f"seed {seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="ottla-fuzz-") as directory:
        try:
            with TargetBroker(directory) as target, Fuzzer(target, load_frames(CORPUS), seed) as fuzzer:
                run_for(fuzzer, target, seconds)
        except FuzzFailure as failure:
            path = failure.save(REPRODUCERS)
            print(f"{failure}\n\nreplay: python -m fuzzing --replay {os.path.relpath(path)}")
            return 1
        except BrokerUnhealthy as error:
            print(f"seed {seed}: {error}")
            return 1
    return 0


def run_for(fuzzer: Fuzzer, target: TargetBroker, seconds: float) -> None:
    fuzzer.prepare()
    began_s = reported_s = time.monotonic()
    while (now_s := time.monotonic()) - began_s < seconds:
        fuzzer.round()
        if now_s - reported_s > REPORT_EVERY_S:
            reported_s = now_s
            print(f"{now_s - began_s:5.0f} s: {state(fuzzer, target)}", flush=True)
    print(f"at the end: {state(fuzzer, target)}; restarting", flush=True)
    fuzzer.finish()
    print("ok")


def state(fuzzer: Fuzzer, target: TargetBroker) -> str:
    return (
        f"{fuzzer.rounds} rounds, {fuzzer.cases} connections, {fuzzer.responses} responses, "
        f"{target.rss_bytes() >> 20} MB"
    )


def replay_file(path: str) -> int:
    cases = load_cases(path)
    with tempfile.TemporaryDirectory(prefix="ottla-fuzz-") as directory:
        try:
            with TargetBroker(directory) as target:
                culprit = replay(target, cases)
        except BrokerUnhealthy as error:
            print(error)
            return 1
    if culprit is None:
        print(f"{len(cases)} connections, no failure: it takes more than one connection")
        return 0
    print(f"failed after this connection, {'lingering' if culprit.lingers else 'closed at once'}:")
    for data in culprit.writes:
        print(" ", data.hex())
    return 1


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=None, help="default: random, printed")
    parser.add_argument("--replay", metavar="FILE", help="file of a failed round")
    options = parser.parse_args()
    if options.replay:
        return replay_file(options.replay)
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(1 << 32)
    return attack(options.seconds, seed)


if __name__ == "__main__":
    sys.exit(main())
