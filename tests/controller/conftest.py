"""A controller with brokers, for the tests of its decisions."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.support.controller.harness import Harness


@pytest.fixture
def new_harness() -> Callable[..., Harness]:
    return Harness


@pytest.fixture
def cluster() -> Harness:
    """Three brokers."""
    harness = Harness()
    for broker_id in (1, 2, 3):
        harness.start_broker(broker_id)
    return harness
