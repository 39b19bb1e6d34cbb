"""How properties are tried: a little by default, the same everywhere in CI, a lot by hand.

HYPOTHESIS_PROFILE=thorough make test    ten times as many examples
"""

from __future__ import annotations

import gc
import os

from hypothesis import HealthCheck, settings

# Machines that run tests are busy: a slow example is no failure. A failure prints how to repeat it.
settings.register_profile(
    "dev", deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow], max_examples=50
)
settings.register_profile("ci", settings.get_profile("dev"), max_examples=50)
settings.register_profile("thorough", settings.get_profile("dev"), max_examples=1000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci" if os.environ.get("CI") else "dev"))


def pytest_collection_finish() -> None:
    """What is there now stays to the end: no collection of garbage has to look at it again."""
    gc.collect()
    gc.freeze()
