"""A produce response that has to wait until its appends are committed."""

from __future__ import annotations

import asyncio
from functools import partial

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.produce_response import PartitionProduceResponse, ProduceResponse

Waiting = list[tuple[asyncio.Future[None], PartitionProduceResponse]]


def when_committed(
    response: ProduceResponse, waiting: Waiting, timeout_ms: int
) -> asyncio.Future[ProduceResponse]:
    """A future of the response that is done when every append is committed, failed or out of time."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[ProduceResponse] = loop.create_future()
    left = len(waiting)

    def one_settled(answer: PartitionProduceResponse, committed: asyncio.Future[None]) -> None:
        nonlocal left
        left -= 1
        if not committed.cancelled() and (error := committed.exception()) is not None:
            answer.error_code = getattr(error, "code", ErrorCode.KAFKA_STORAGE_ERROR)
            answer.base_offset = -1
        if left == 0 and not done.done():
            done.set_result(response)

    def time_is_up() -> None:
        for committed, answer in waiting:
            if not committed.done():
                answer.error_code = ErrorCode.REQUEST_TIMED_OUT
        if not done.done():
            done.set_result(response)

    timer = loop.call_later(max(0, timeout_ms) / 1000, time_is_up)
    done.add_done_callback(lambda _: timer.cancel())
    for committed, answer in waiting:
        committed.add_done_callback(partial(one_settled, answer))
    return done
