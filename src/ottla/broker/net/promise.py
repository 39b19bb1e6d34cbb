"""An answer to come that does not wait for a turn of the loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

Result = TypeVar("Result")


class Promise(Generic[Result]):
    """What a connection wants of a future; but who waits is told at once, not in the next turn of the loop.

    So it is only for those who keep it when the loop itself has called them, from a timer say: amid the
    requests of one connection those of another would be taken.
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
        """It is kept or cancelled, nothing else."""

    def set_result(self, result: Result) -> None:
        self._result = result
        self._settle()

    def cancel(self) -> None:
        if not self.done():
            self._cancelled = True
            self._settle()

    def add_done_callback(self, callback: Callable[[Promise[Result]], Any]) -> None:
        assert self._callbacks is not None, "it is kept already"
        self._callbacks.append(callback)

    def _settle(self) -> None:
        callbacks, self._callbacks = self._callbacks, None
        assert callbacks is not None, "it is kept already"
        for callback in callbacks:
            callback(self)
