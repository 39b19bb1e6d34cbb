"""A short run of the fuzzer; `make fuzz` runs longer."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest

from fuzzing import mutations
from fuzzing.batches import CRC_POS, fix_crc, ordinary_batch
from fuzzing.fuzzer import Case, Fuzzer, FuzzFailure, load_cases
from fuzzing.recorder import RecordedFrame, load_frames
from fuzzing.target import TargetBroker

HERE = Path(__file__).parent
FRAMES = load_frames(str(HERE / "corpus" / "frames.txt"))
SECONDS = 3.0
ROUNDS_MIN = 3


@pytest.mark.parametrize("seed", [1, None], ids=["fixed seed", "any seed"])
def test_no_input_breaks_the_broker(seed: int | None, tmp_path: Path) -> None:
    if seed is None:
        seed = random.SystemRandom().randrange(1 << 32)
        print(f"again with: python -m fuzzing --seed {seed}")
    with TargetBroker(str(tmp_path)) as target, Fuzzer(target, FRAMES, seed) as fuzzer:
        try:
            fuzzer.prepare()
            began_s = time.monotonic()
            while fuzzer.rounds < ROUNDS_MIN or time.monotonic() - began_s < SECONDS:
                fuzzer.round()
        except FuzzFailure as failure:
            pytest.fail(f"{failure}\nkept: {failure.save('build/fuzz')}")
        fuzzer.finish()
    # If every input were rejected by the first checks, the fuzzer would test nothing else.
    assert fuzzer.responses > fuzzer.cases // 20


def test_the_corpus_has_what_clients_send() -> None:
    assert {frame.api_key for frame in FRAMES} >= {0, 1, 2, 3, 10, 18, 19, 20, 21, 22, 32, 33, 35, 37, 44, 60}
    assert sum(mutations.find_batch(frame.data) is not None for frame in FRAMES) >= 8


@pytest.mark.parametrize("mutation", mutations.MUTATIONS, ids=lambda mutation: mutation.__name__)
def test_every_mutation_changes_something_and_fails_on_nothing(mutation: mutations.Mutation) -> None:
    rng = random.Random(mutation.__name__)
    short = [RecordedFrame(0, 0, bytes(n)) for n in range(1, 12)]
    changed = 0
    for frame in [*FRAMES, *short]:
        changed += mutation(rng, bytearray(frame.data), FRAMES) != frame.data
    assert changed > len(FRAMES) // 2


def test_a_fixed_checksum_is_the_one_that_was_built() -> None:
    batch = ordinary_batch(1000)
    broken = bytearray(batch)
    broken[CRC_POS] ^= 1
    assert fix_crc(broken) == batch


def test_a_failure_can_be_loaded_again(tmp_path: Path) -> None:
    cases = [Case([b"\0\1", b""], lingers=True), Case([b"x"], lingers=False)]
    path = FuzzFailure("reason", 7, 3, cases).save(str(tmp_path))
    assert load_cases(path) == cases
