"""Results of a coordinator: immediate replies, or futures of replies."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeAlias, TypeVar

from ottla.broker.background import result_of

Result = TypeVar("Result")
# A reply, or a future of it where records must be committed first.
Reply: TypeAlias = Result | asyncio.Future[Result]
# Builds the response that reports an error.
Refuse: TypeAlias = Callable[[int], Result]


def merge_replies(replies: Sequence[Any], merge: Callable[[list[Any]], Result]) -> Reply[Result]:
    """Combine several replies; return a future if one of them is a future. It fails with the first of them
    that fails."""
    futures = [each for each in replies if isinstance(each, asyncio.Future)]
    if not futures:
        return merge(list(replies))
    merged: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
    left = len(futures)

    def one_done(done: asyncio.Future[Any]) -> None:
        nonlocal left
        left -= 1
        error = None if done.cancelled() else done.exception()
        if merged.done():
            return  # a part has failed, or the client has disconnected
        if done.cancelled():
            merged.cancel()
        elif error is not None:
            merged.set_exception(error)
        elif left == 0:
            try:
                merged.set_result(
                    merge([each.result() if isinstance(each, asyncio.Future) else each for each in replies])
                )
            except Exception as failure:
                merged.set_exception(failure)

    for future in futures:
        future.add_done_callback(one_done)
    return merged


def in_background(work: Coroutine[Any, Any, Result]) -> asyncio.Future[Result]:
    """Return a future of the result: unlike a coroutine it does not hold back the connection's next
    requests."""
    result: asyncio.Future[Result] = asyncio.get_running_loop().create_future()

    def finished(task: asyncio.Task[Result]) -> None:
        if result.done():
            if not task.cancelled():
                task.exception()  # the client has disconnected
        elif task.cancelled():
            result.cancel()
        elif (error := task.exception()) is not None:
            result.set_exception(error)
        else:
            result.set_result(task.result())

    result_of(work).add_done_callback(finished)
    return result
