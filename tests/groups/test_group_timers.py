"""Deadlines: put off without touching the heap, due in order."""

from __future__ import annotations

from functools import partial
from random import Random

import pytest

from ottla.machines.outcome import Outcome
from ottla.machines.timers import Action, Timer, Timers


def test_a_timer_that_is_put_off_stays_where_it_is_in_the_heap() -> None:
    timers = Timers()
    seen: list[int] = []
    timer = timers.start(lambda _, now_ms: seen.append(now_ms), 10)
    for deadline_ms in range(11, 1_000):
        timers.arm(timer, deadline_ms)
    assert (len(timers), timers.next_wake_ms) == (1, 10)
    timers.run(Outcome(), 10)
    assert (seen, timers.next_wake_ms) == ([], 999)
    timers.run(Outcome(), 998)
    assert seen == []
    timers.run(Outcome(), 1_000)
    assert (seen, len(timers), timers.next_wake_ms, timer.is_set) == ([1_000], 0, None, False)


def test_a_timer_may_be_drawn_nearer_cleared_and_armed_again() -> None:
    timers = Timers()
    seen: list[int] = []
    timer = timers.start(lambda _, now_ms: seen.append(now_ms), 100)
    timers.arm(timer, 50)
    timers.run(Outcome(), 60)
    assert seen == [60]
    timers.run(Outcome(), 200)
    assert seen == [60]
    timers.arm(timer, 300)
    timer.clear()
    timers.run(Outcome(), 400)
    assert seen == [60]
    timers.arm(timer, 500)
    timer.discard()
    timers.run(Outcome(), 600)
    assert (seen, len(timers)) == ([60], 0)


def test_a_timer_may_arm_itself() -> None:
    timers = Timers()
    seen: list[int] = []

    def again(outcome: Outcome, now_ms: int) -> None:
        seen.append(now_ms)
        timers.arm(timer, now_ms + 10)

    timer = Timer(again)
    timers.arm(timer, 10)
    for now_ms in (10, 15, 20, 30):
        timers.run(Outcome(), now_ms)
    assert seen == [10, 20, 30]


def _note(seen: list[int], name: int, outcome: Outcome, now_ms: int) -> None:
    seen.append(name)


@pytest.mark.parametrize("by_ms", [3_600_000, -3_600_000])
def test_a_clock_that_is_set_changes_nothing_but_the_names_of_times(by_ms: int) -> None:
    timers = Timers()
    called: list[tuple[str, int]] = []

    def note(name: str) -> Action:
        return lambda outcome, now_ms: called.append((name, now_ms))

    put_off = timers.start(note("put off"), 100)
    put_off.deadline_ms = 150
    drawn_nearer = timers.start(note("drawn nearer"), 400)
    timers.arm(drawn_nearer, 120)
    timers.start(note("cleared"), 110).clear()
    timers.start(note("discarded"), 115).discard()
    idle = Timer(note("armed later"))
    timers.shift(by_ms)
    timers.arm(idle, by_ms + 130)
    for at_ms in range(0, 500, 10):
        timers.run(Outcome(), by_ms + at_ms)
    expected = [("drawn nearer", 120), ("armed later", 130), ("put off", 150)]
    assert called == [(name, by_ms + at_ms) for name, at_ms in expected]
    assert len(timers) == 0


def test_any_order_of_events_is_that_of_a_plain_list() -> None:
    random = Random(7)
    for _ in range(200):
        timers = Timers()
        due: dict[int, int] = {}
        seen: list[int] = []
        ring = {name: Timer(partial(_note, seen, name)) for name in range(6)}
        now_ms = 0
        for _ in range(60):
            name = random.randrange(6)
            action = random.randrange(4)
            if action < 2:
                due[name] = now_ms + random.randrange(1, 30)
                timers.arm(ring[name], due[name])
            elif action == 2:
                due.pop(name, None)
                ring[name].clear()
            else:
                now_ms += random.randrange(20)
                timers.run(Outcome(), now_ms)
                expected = sorted(name for name, at_ms in due.items() if at_ms <= now_ms)
                assert sorted(seen) == expected
                for each in expected:
                    del due[each]
                seen.clear()
                wake_ms = timers.next_wake_ms
                assert not due or (wake_ms is not None and wake_ms <= min(due.values()))
