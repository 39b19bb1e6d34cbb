"""A broker to be treated badly: one per module, and it must be well after every test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fuzzing.peer import Peer
from fuzzing.target import Victim


@pytest.fixture(scope="module")
def victim_of_module(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Victim]:
    with Victim(str(tmp_path_factory.mktemp("victim"))) as victim:
        yield victim


@pytest.fixture
def victim(victim_of_module: Victim) -> Iterator[Victim]:
    victim_of_module.check()
    yield victim_of_module
    victim_of_module.check()


@pytest.fixture
def peer(victim: Victim) -> Iterator[Peer]:
    with Peer(victim.address) as peer:
        yield peer
