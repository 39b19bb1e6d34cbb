"""The checks of group histories find violations."""

from __future__ import annotations

import pytest

from tests.support.groups_e2e.reader import Event, Watched
from tests.support.groups_e2e.watch import assert_history


def told(name: str, *events: Event) -> Watched:
    member = Watched(name)
    member.events += events
    return member


GOOD = told("a", (1, "+", 0, 0), (2, "r", 0, 0), (3, "r", 0, 1), (4, "c", 0, 2), (5, "-", 0, 0))
LATE = told("a", (1, "+", 0, 0), (2, "r", 0, 0), (3, "r", 0, 1), (4, "c", 0, 2), (9, "x", 0, 0))
WRITTEN = {(0, 0), (0, 1), (0, 2)}


def test_a_good_history() -> None:
    assert_history([GOOD, told("b", (6, "+", 0, 0), (7, "r", 0, 2))], WRITTEN)
    away = LATE
    assert_history([away, told("b", (6, "+", 0, 0), (7, "r", 0, 2))], WRITTEN, slow=[away])
    uncommitted = told("a", (1, "+", 0, 0), (2, "r", 0, 0), (3, "c", 0, 1), (4, "r", 0, 1), (5, "-", 0, 0))
    again = told("b", (6, "+", 0, 0), (7, "r", 0, 1), (8, "r", 0, 2))
    assert_history([uncommitted, again], WRITTEN, again_max=1)
    with pytest.raises(AssertionError, match="read again"):
        assert_history([uncommitted, again], WRITTEN)


@pytest.mark.parametrize(
    ("first", "second", "complaint"),
    [
        (GOOD, told("b", (4, "+", 0, 0), (7, "r", 0, 2)), "two owners"),
        (LATE, told("b", (6, "+", 0, 0), (7, "r", 0, 2)), "two owners"),
        (GOOD, told("b", (6, "+", 0, 0), (7, "r", 0, 3)), "read by nobody"),
        (GOOD, told("b", (6, "+", 0, 0)), "not read"),
        (GOOD, told("b", (6, "+", 0, 0), (7, "r", 0, 1), (8, "r", 0, 2)), "was committed"),
        (GOOD, told("b", (6, "r", 0, 2)), "not its own"),
        (GOOD, told("b", (6, "+", 0, 0), (7, "r", 0, 2), (8, "r", 0, 2)), r"\[2, 2\]"),
        (GOOD, told("b", (6, "+", 0, 0), (7, "+", 0, 0), (8, "r", 0, 2)), "twice"),
    ],
)
def test_a_bad_history(first: Watched, second: Watched, complaint: str) -> None:
    with pytest.raises(AssertionError, match=complaint):
        assert_history([first, second], WRITTEN, again_max=5)
