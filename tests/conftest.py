"""Hypothesis profiles.

HYPOTHESIS_PROFILE=thorough make test    runs twenty times as many examples
"""

from __future__ import annotations

import gc
import os

from hypothesis import HealthCheck, settings

# Test machines are busy: a slow example is not a failure. A failure prints how to reproduce it.
settings.register_profile(
    "dev", deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow], max_examples=50
)
settings.register_profile("ci", settings.get_profile("dev"), max_examples=50)
settings.register_profile("thorough", settings.get_profile("dev"), max_examples=1000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci" if os.environ.get("CI") else "dev"))


def pytest_collection_finish() -> None:
    """Freeze imported objects: they stay to the end, so the garbage collector can skip them."""
    gc.collect()
    gc.freeze()
