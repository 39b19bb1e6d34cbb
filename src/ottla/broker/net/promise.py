"""A future whose callbacks run at once, not in the next iteration of the event loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

Result = TypeVar("Result")


class Promise(Generic[Result]):
    """The part of a future that connections use; callbacks run inside `set_result`.

    Complete it only from a callback of the loop itself, such as a timer. Completed while one connection
    handles its requests, it would start the requests of another.
    """

    __slots__ = ("_callbacks", "_cancelled", "_result")

    def __init__(self) -> None:
        self._callbacks: list[Callable[[Promise[Result]], Any]] | None = []
        self._cancelled = False
        self._result: Result

    def done(self) -> bool:
        return self._callbacks is None

    def cancelled(self) -> bool:
        return self._cancelled

    def result(self) -> Result:
        return self._result

    def exception(self) -> None:
        """Return None: a promise is completed or cancelled, it never fails."""

    def set_result(self, result: Result) -> None:
        self._result = result
        self._settle()

    def cancel(self) -> None:
        if not self.done():
            self._cancelled = True
            self._settle()

    def add_done_callback(self, callback: Callable[[Promise[Result]], Any]) -> None:
        assert self._callbacks is not None, "the promise is already done"
        self._callbacks.append(callback)

    def _settle(self) -> None:
        callbacks, self._callbacks = self._callbacks, None
        assert callbacks is not None, "the promise is already done"
        for callback in callbacks:
            callback(self)
