"""Replies of several shards become one reply."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from ottla.broker.coordinators.replies import merge_replies


def run(scenario: Callable[[asyncio.Future[int], asyncio.Future[int]], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        await asyncio.wait_for(scenario(loop.create_future(), loop.create_future()), 5)

    asyncio.run(main())


def test_replies_that_are_known_are_merged_at_once() -> None:
    assert merge_replies([1, 2], sum) == 3


def test_the_merged_reply_waits_for_all_futures() -> None:
    async def scenario(first: asyncio.Future[int], second: asyncio.Future[int]) -> None:
        merged = merge_replies([first, 3, second], list)
        second.set_result(2)
        await asyncio.sleep(0)
        assert not merged.done()
        first.set_result(1)
        assert await merged == [1, 3, 2]

    run(scenario)


def test_the_merged_reply_fails_with_the_first_part_that_fails() -> None:
    async def scenario(first: asyncio.Future[int], second: asyncio.Future[int]) -> None:
        merged = merge_replies([first, second], sum)
        first.set_exception(RuntimeError("first"))
        second.set_exception(RuntimeError("second"))
        with pytest.raises(RuntimeError, match="first"):
            await merged

    run(scenario)


def test_the_merged_reply_does_not_wait_for_other_parts_after_a_failure() -> None:
    async def scenario(first: asyncio.Future[int], never: asyncio.Future[int]) -> None:
        merged = merge_replies([never, first], sum)
        first.set_exception(RuntimeError("first"))
        with pytest.raises(RuntimeError, match="first"):
            await merged

    run(scenario)


def test_the_merged_reply_is_cancelled_with_a_part() -> None:
    async def scenario(first: asyncio.Future[int], second: asyncio.Future[int]) -> None:
        merged = merge_replies([first, second], sum)
        first.cancel()
        second.set_result(2)
        with pytest.raises(asyncio.CancelledError):
            await merged

    run(scenario)


def test_a_failure_of_the_merge_fails_the_merged_reply() -> None:
    async def scenario(first: asyncio.Future[int], second: asyncio.Future[int]) -> None:
        def merge(replies: list[int]) -> int:
            raise RuntimeError("merge")

        merged = merge_replies([first, second], merge)
        first.set_result(1)
        second.set_result(2)
        with pytest.raises(RuntimeError, match="merge"):
            await merged

    run(scenario)


def test_parts_that_fail_after_the_client_has_left_are_not_reported() -> None:
    reported: list[dict[str, Any]] = []

    async def scenario(first: asyncio.Future[int], second: asyncio.Future[int]) -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))
        merged = merge_replies([first, second], sum)
        merged.cancel()
        first.set_exception(RuntimeError("first"))
        second.set_result(2)
        await asyncio.sleep(0)

    run(scenario)
    assert not reported
