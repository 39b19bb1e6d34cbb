"""A response that is sent when all of its appends are committed."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from ottla.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from ottla.broker.replicas.partition import Partition

Response = TypeVar("Response")


class PendingCommits(Generic[Response]):
    """The appends of one request that are not committed yet."""

    __slots__ = ("_future", "_left", "_response")

    def __init__(self, response: Response) -> None:
        self._response = response
        self._left: dict[_PendingCommit, None] = {}
        self._future: asyncio.Future[Response] | None = None

    def __bool__(self) -> bool:
        return bool(self._left)

    def add(self, partition: Partition, end_offset: int, result: Any, *, local: bool = False) -> None:
        """Wait for `Partition.when_committed`. A failure is reported in `result`, the part of the response
        for the partition: its `error_code` and, if it has one, its `base_offset`."""
        pending = _PendingCommit(self, result)
        if partition.when_committed(end_offset, pending, local=local):
            self._left[pending] = None

    def future(self, timeout_ms: int | None = None) -> asyncio.Future[Response]:
        """A future of the response; appends that take longer than the timeout report REQUEST_TIMED_OUT."""
        loop = asyncio.get_running_loop()
        future = self._future = loop.create_future()
        if not self._left:
            future.set_result(self._response)
        elif timeout_ms is not None:
            timer = loop.call_later(max(0, timeout_ms) / 1000, self._on_timeout)
            future.add_done_callback(lambda _: timer.cancel())
        return future

    @property
    def is_done(self) -> bool:
        return self._future is not None and self._future.done()

    def settled(self, pending: _PendingCommit) -> None:
        """One append is committed, or has failed."""
        del self._left[pending]
        if not self._left and self._future is not None:
            self._future.set_result(self._response)

    def _on_timeout(self) -> None:
        if not self.is_done:
            for pending in self._left:
                pending.result.error_code = ErrorCode.REQUEST_TIMED_OUT
            assert self._future is not None
            self._future.set_result(self._response)


class _PendingCommit:
    """The `CommitWaiter` of one append."""

    __slots__ = ("_group", "result")

    def __init__(self, group: PendingCommits[Any], result: Any) -> None:
        self._group = group
        self.result = result

    def done(self) -> bool:
        return self._group.is_done

    def set_result(self, _: None, /) -> None:
        self._group.settled(self)

    def set_exception(self, error: BaseException, /) -> None:
        result = self.result
        result.error_code = getattr(error, "code", ErrorCode.KAFKA_STORAGE_ERROR)
        if hasattr(result, "base_offset"):
            result.base_offset = -1
        self._group.settled(self)
