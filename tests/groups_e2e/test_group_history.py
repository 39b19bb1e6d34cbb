"""The checks of group histories find violations."""

from __future__ import annotations

import pytest

from tests.support.groups_e2e.history import assert_history
from tests.support.groups_e2e.reader import Event, Watched


def member_with(name: str, *events: Event) -> Watched:
    member = Watched(name)
    member.events += events
    return member


GOOD = member_with("a", (1, "+", 0, 0), (2, "r", 0, 0), (3, "r", 0, 1), (4, "c", 0, 2), (5, "-", 0, 0))
LATE = member_with("a", (1, "+", 0, 0), (2, "r", 0, 0), (3, "r", 0, 1), (4, "c", 0, 2), (9, "x", 0, 0))
WRITTEN = {(0, 0), (0, 1), (0, 2)}


def test_valid_history() -> None:
    assert_history([GOOD, member_with("b", (6, "+", 0, 0), (7, "r", 0, 2))], WRITTEN)
    away = LATE
    assert_history([away, member_with("b", (6, "+", 0, 0), (7, "r", 0, 2))], WRITTEN, slow=[away])
    uncommitted = member_with(
        "a", (1, "+", 0, 0), (2, "r", 0, 0), (3, "c", 0, 1), (4, "r", 0, 1), (5, "-", 0, 0)
    )
    again = member_with("b", (6, "+", 0, 0), (7, "r", 0, 1), (8, "r", 0, 2))
    assert_history([uncommitted, again], WRITTEN, again_max=1)
    with pytest.raises(AssertionError, match="read twice"):
        assert_history([uncommitted, again], WRITTEN)


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        (GOOD, member_with("b", (4, "+", 0, 0), (7, "r", 0, 2)), "two owners"),
        (LATE, member_with("b", (6, "+", 0, 0), (7, "r", 0, 2)), "two owners"),
        (GOOD, member_with("b", (6, "+", 0, 0), (7, "r", 0, 3)), "has not been read"),
        (GOOD, member_with("b", (6, "+", 0, 0)), "not read"),
        (GOOD, member_with("b", (6, "+", 0, 0), (7, "r", 0, 1), (8, "r", 0, 2)), "was committed"),
        (GOOD, member_with("b", (6, "r", 0, 2)), "without owning it"),
        (GOOD, member_with("b", (6, "+", 0, 0), (7, "r", 0, 2), (8, "r", 0, 2)), r"\[2, 2\]"),
        (GOOD, member_with("b", (6, "+", 0, 0), (7, "+", 0, 0), (8, "r", 0, 2)), "twice"),
    ],
)
def test_invalid_history(first: Watched, second: Watched, message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        assert_history([first, second], WRITTEN, again_max=5)
