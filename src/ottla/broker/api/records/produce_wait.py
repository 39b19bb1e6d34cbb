"""Produce responses that wait until their appends are committed."""

from __future__ import annotations

import asyncio
from functools import partial

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.produce_response import PartitionProduceResponse, ProduceResponse

Waiting = list[tuple[asyncio.Future[None], PartitionProduceResponse]]


def when_committed(
    response: ProduceResponse, waiting: Waiting, timeout_ms: int
) -> asyncio.Future[ProduceResponse]:
    """A future of the response: done when every append is committed or failed, or the time is up."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[ProduceResponse] = loop.create_future()
    left = len(waiting)

    def on_committed(response_part: PartitionProduceResponse, committed: asyncio.Future[None]) -> None:
        nonlocal left
        left -= 1
        if not committed.cancelled() and (error := committed.exception()) is not None:
            response_part.error_code = getattr(error, "code", ErrorCode.KAFKA_STORAGE_ERROR)
            response_part.base_offset = -1
        if left == 0 and not done.done():
            done.set_result(response)

    def on_timeout() -> None:
        for committed, response_part in waiting:
            if not committed.done():
                response_part.error_code = ErrorCode.REQUEST_TIMED_OUT
        if not done.done():
            done.set_result(response)

    timer = loop.call_later(max(0, timeout_ms) / 1000, on_timeout)
    done.add_done_callback(lambda _: timer.cancel())
    for committed, response_part in waiting:
        committed.add_done_callback(partial(on_committed, response_part))
    return done
