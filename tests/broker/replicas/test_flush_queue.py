"""Turns of flushes in one log directory: a bound, those that somebody waits for first, and no starvation."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from ottla.broker.replicas.flush_queue import BACKGROUND_FLUSHES_MAX, FLUSHES_MAX, FlushQueue


def run(scenario: Callable[[FlushQueue], Awaitable[None]]) -> None:
    async def main() -> None:
        await scenario(FlushQueue())

    asyncio.run(main())


def test_a_bounded_number_runs_and_the_others_follow_in_order() -> None:
    async def scenario(queue: FlushQueue) -> None:
        turns = [queue.acquire(number, background=False) for number in range(FLUSHES_MAX + 2)]
        assert [turn.done() for turn in turns] == [True] * FLUSHES_MAX + [False] * 2
        assert queue.running == FLUSHES_MAX and len(queue) == 2
        queue.release(turns[0].result())
        assert [turn.done() for turn in turns[FLUSHES_MAX:]] == [True, False]
        again = queue.acquire(0, background=False)  # a busy log waits behind the others
        queue.release(turns[1].result())
        assert turns[-1].done() and not again.done()

    run(scenario)


def test_flushes_that_nobody_waits_for_leave_room_and_go_last() -> None:
    async def scenario(queue: FlushQueue) -> None:
        closed = [queue.acquire(("closed", number), background=True) for number in range(8)]
        assert sum(turn.done() for turn in closed) == BACKGROUND_FLUSHES_MAX
        urgent = [queue.acquire(("urgent", number), background=False) for number in range(FLUSHES_MAX)]
        assert sum(turn.done() for turn in urgent) == FLUSHES_MAX - BACKGROUND_FLUSHES_MAX
        queue.release(closed[0].result())
        assert all(turn.done() for turn in urgent) and not closed[1].done()
        queue.release(urgent[0].result())
        assert closed[1].done() and not closed[2].done()

    run(scenario)


def test_a_waiting_flush_overtakes_once_somebody_waits_for_it() -> None:
    async def scenario(queue: FlushQueue) -> None:
        closed = [queue.acquire(number, background=True) for number in range(4)]
        queue.make_urgent(3)
        assert [turn.done() for turn in closed] == [True, False, False, True]
        queue.release(closed[3].result())
        assert not closed[1].done(), "the hurried flush ran in its own right"
        queue.make_urgent(7)  # unknown: it runs already, or has ended

    run(scenario)


def test_a_cancelled_wait_takes_no_turn() -> None:
    async def scenario(queue: FlushQueue) -> None:
        turns = [queue.acquire(number, background=False) for number in range(FLUSHES_MAX + 2)]
        turns[-2].cancel()
        queue.release(turns[0].result())
        assert turns[-1].done() and queue.running == FLUSHES_MAX

    run(scenario)
