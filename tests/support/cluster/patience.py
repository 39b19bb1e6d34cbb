"""Marker for tests that take minutes: run by `make test-cluster-long`, skipped by `make test`."""

from __future__ import annotations

import os

import pytest

LONG = "OTTLA_LONG_TESTS"

takes_long = pytest.mark.skipif(
    LONG not in os.environ, reason=f"takes long: {LONG}=1 or make test-cluster-long"
)
