"""Transactions under minutes of faults: run by `make test-soak`, skipped by `make test`."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

LONG = "OTTLA_LONG_TESTS"
HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if LONG in os.environ:
        return
    skip = pytest.mark.skip(reason=f"takes minutes: {LONG}=1 or make test-soak")
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(skip)
