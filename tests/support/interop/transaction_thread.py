"""A thread that runs transactions one after the other and records their outcomes."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from tests.support.interop.transactions import Failed, Fenced, TxnProducer

INIT_ATTEMPTS = 40
STOP_SECONDS = 90

Name = TypeVar("Name", bound=Hashable)
COMMIT, ABORT, LEAVE = "commit", "abort", "leave"


class TransactionThread(threading.Thread, Generic[Name]):
    """Subclasses implement `transact` with `attempt`. A producer that is unusable is replaced."""

    def __init__(self, make: Callable[[], TxnProducer]) -> None:
        super().__init__(daemon=True)
        self._make = make
        self._stopped = threading.Event()
        self.begun = 0
        self.committed: list[Name] = []
        self.aborted: list[Name] = []
        self.unsure: list[Name] = []  # commits without a response
        self.failures: list[str] = []
        self.crash: BaseException | None = None

    def transact(self, producer: TxnProducer) -> bool:
        """Run one transaction; return whether the producer is still usable."""
        raise NotImplementedError

    def run(self) -> None:
        try:
            producer = self._producer()
            while not self._stopped.is_set():
                if not self.transact(producer):
                    producer.close()
                    producer = self._producer()
            producer.close()
        except BaseException as error:
            self.crash = error

    def _producer(self) -> TxnProducer:
        for _ in range(INIT_ATTEMPTS):
            try:
                return self._make()
            except (Failed, Fenced) as error:
                self.failures.append(f"init: {error!r}")
                time.sleep(0.2)
        raise AssertionError(f"no producer: {self.failures[-3:]}")

    def attempt(self, producer: TxnProducer, name: Name, write: Callable[[], None], end: str) -> bool:
        """Run one transaction and end it with `end`; LEAVE abandons it without ending it."""
        is_committing = False
        try:
            producer.begin()
            write()
            if end == COMMIT:
                is_committing = True
                producer.commit()
                self.committed.append(name)
                return True
            if end == ABORT:
                producer.abort()
            self.aborted.append(name)
            return end == ABORT
        except (Failed, Fenced) as error:
            self.failures.append(f"{name}: {error!r}")
            (self.unsure if is_committing else self.aborted).append(name)
            try:
                producer.abort()
                return True
            except (Failed, Fenced) as again:
                self.failures.append(f"{name} abort: {again!r}")
                return False

    def stop(self) -> None:
        self._stopped.set()
        self.join(STOP_SECONDS)
        assert not self.is_alive(), self.failures[-5:]
        assert self.crash is None, (self.crash, self.failures[-5:])
