"""A broker for hostile input: one for each module, checked before and after every test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fuzzing.peer import Peer
from fuzzing.target import TargetBroker


@pytest.fixture(scope="module")
def target_of_module(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TargetBroker]:
    with TargetBroker(str(tmp_path_factory.mktemp("victim"))) as target:
        yield target


@pytest.fixture
def target(target_of_module: TargetBroker) -> Iterator[TargetBroker]:
    target_of_module.check()
    yield target_of_module
    target_of_module.check()


@pytest.fixture
def peer(target: TargetBroker) -> Iterator[Peer]:
    with Peer(target.address) as peer:
        yield peer
