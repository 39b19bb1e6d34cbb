"""Why a figure is behind, kept by hand: what was found by profiling, with the figures of the profile.

The report prints a reason under the figures that it explains; for a figure that is not behind it prints none,
so a reason may stay here until nobody needs it. The first that fits counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import NamedTuple


class Reason(NamedTuple):
    scenario: str  # its name, or a pattern such as "produce*"
    figure: str  # its name, or a pattern such as "*: CPU"
    why: str  # one sentence or more
    profile: str = ""  # the lines that show it, as the profiler printed them, and how to get them again


REASONS: tuple[Reason, ...] = ()


def reason_of(scenario: str, figure: str, reasons: Sequence[Reason] = REASONS) -> Reason | None:
    for reason in reasons:
        if fnmatchcase(scenario, reason.scenario) and fnmatchcase(figure, reason.figure):
            return reason
    return None
