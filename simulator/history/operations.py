"""Operations of clients. They end with `ok` (it took effect), `fail` (it did not) or `info` (unknown)."""

from __future__ import annotations

from typing import Any, NamedTuple

from simulator.runtime.trace import Trace

PRODUCE = "produce"  # idempotent, acks=all: must not be lost
PRODUCE_UNRELIABLE = "produce-unreliable"  # acks=1: may be lost until it is read

OPEN = "open"
OK = "ok"
FAIL = "fail"
INFO = "info"


class PartitionName(NamedTuple):
    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class Operation:
    """One operation of a client, retries included: `value` is the argument, `result` the response."""

    __slots__ = (
        "_trace",
        "client",
        "completed_ns",
        "invoked_ns",
        "kind",
        "outcome",
        "result",
        "target",
        "value",
    )

    def __init__(
        self, trace: Trace, client: str, kind: str, target: PartitionName | str, value: tuple[str, ...]
    ) -> None:
        self.client = client
        self.kind = kind
        self.target = target
        self.value = value
        self.outcome = OPEN
        self.result: Any = None
        self.invoked_ns = trace.now_ns()
        self.completed_ns = -1
        self._trace = trace

    def ok(self, result: Any = None) -> None:
        self._end(OK, result)

    def fail(self, result: Any = None) -> None:
        self._end(FAIL, result)

    def info(self, result: Any = None) -> None:
        self._end(INFO, result)

    def _end(self, outcome: str, result: Any) -> None:
        assert self.outcome == OPEN, f"{self} has already ended"
        self.outcome = outcome
        self.result = result
        self.completed_ns = self._trace.now_ns()
        self._trace(outcome, self.client, f"{self.kind} {self.target} {','.join(self.value)} {result}")

    def __repr__(self) -> str:
        return f"{self.client} {self.kind} {self.target} {','.join(self.value)}: {self.outcome} {self.result}"


class LeaderSeen(NamedTuple):
    partition: PartitionName
    epoch: int
    leader: int
