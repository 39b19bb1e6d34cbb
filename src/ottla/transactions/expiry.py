"""Expire transactional ids that have been unused for long, in small steps: there may be very many."""

from __future__ import annotations

from collections import deque

from ottla.machines.outcome import Outcome
from ottla.transactions.context import ShardContext
from ottla.transactions.transaction import AT_REST

# At one step.
LOOKS_MAX = 5_000
TOMBSTONES_MAX = 1_000
PAUSE_MS = 10


class Expiry:
    __slots__ = ("_queue", "context", "due_ms")

    def __init__(self, context: ShardContext) -> None:
        self.context = context
        self.due_ms: int | None = None
        self._queue: deque[str] = deque()

    def start(self, now_ms: int) -> None:
        self.due_ms = now_ms + self.context.config.expiration_check_interval_ms

    def run(self, outcome: Outcome, now_ms: int) -> None:
        if self.due_ms is None or now_ms < self.due_ms:
            return
        queue = self._queue
        if not queue:
            queue.extend(self.context.transactions)
        oldest_ms = now_ms - self.context.config.expiration_ms
        looks = tombstones = 0
        while queue and looks < LOOKS_MAX and tombstones < TOMBSTONES_MAX:
            transaction = self.context.transactions.get(queue.popleft())
            looks += 1
            if (
                transaction is not None
                and transaction.state in AT_REST
                and transaction.last_update_ms <= oldest_ms
            ):
                self.context.remove(outcome, transaction.transactional_id)
                tombstones += 1
        if queue:
            self.due_ms = now_ms + PAUSE_MS
        else:
            self.start(now_ms)
