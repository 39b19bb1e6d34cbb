"""The transactional ids of a worker: reused for later batches, so that coordinators need not keep many."""

from __future__ import annotations

import itertools
import os
import threading
import uuid

from ottla.client import SyncTransactions
from ottla.client.errors import ClientError, UnsupportedApiError
from pyspark_ottla.sink.exactly_once.marker import transaction_prefix
from pyspark_ottla.sink.exactly_once.task_id import TaskId

COMMITTED = ("PrepareCommit", "CompleteCommit")
QUERIES_MAX = 1000


class _QueryIds:
    """The ids of one run of a query."""

    def __init__(self, task: TaskId) -> None:
        self.run = task.run
        self.batch = self.first_batch = task.batch
        self.in_use: list[str] = []
        self.idle: list[str] = []

    def enter(self, batch: int) -> None:
        """Release the ids of the batch before, unless it was the first."""
        if batch != self.batch:
            if self.batch != self.first_batch:
                self.idle += self.in_use
            self.batch, self.in_use = batch, []


class WorkerIds:
    """The ids of one process."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self._name = uuid.uuid4().hex[:12]
        self._numbers = itertools.count()
        self._by_query: dict[str, _QueryIds] = {}
        self._lock = threading.Lock()

    def next_id(self, transactions: SyncTransactions, task: TaskId) -> str:
        """Return an id that no other attempt of the batch uses, and that no driver may still abort.

        A driver aborts what it finds open by its id, and the request may arrive late. It never aborts what it
        has committed, so an id is reused only if its last transaction was committed. Another driver of the
        query may have listed the transactions of the first batch of a run, so those ids are never reused.
        """
        with self._lock:
            ids = self._ids_of(task)
            ids.enter(task.batch)
            chosen = None
            while ids.idle and chosen is None:
                candidate = ids.idle.pop()
                if _was_committed(transactions, candidate):
                    chosen = candidate
            if chosen is None:
                chosen = f"{transaction_prefix(task.key, task.run)}{self._name}/{next(self._numbers)}"
            ids.in_use.append(chosen)
            return chosen

    def _ids_of(self, task: TaskId) -> _QueryIds:
        ids = self._by_query.get(task.key)
        if ids is None or ids.run != task.run:
            if len(self._by_query) >= QUERIES_MAX:
                self._by_query.clear()
            ids = self._by_query[task.key] = _QueryIds(task)
        return ids


def _was_committed(transactions: SyncTransactions, name: str) -> bool:
    try:
        found = transactions.describe([name]).get(name)
    except UnsupportedApiError:
        return True  # otherwise every task would need a new id
    except ClientError:
        return False
    return found is not None and found.state in COMMITTED


_workers: list[WorkerIds] = []


def worker_ids() -> WorkerIds:
    """Return the ids of this process; a forked child has its own."""
    if not _workers or _workers[-1].pid != os.getpid():
        _workers[:] = [WorkerIds()]
    return _workers[-1]
