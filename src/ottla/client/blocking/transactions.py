"""Transactions for code without an event loop: begun in one process, ended in another.

    with ArrowWriter(cluster, "orders", transactional_id="load-7") as writer:
        writer.begin()
        writer.write(rows)
        handle = writer.prepare()           # everything is at the brokers; pass the handle to the driver
    ...
    end_transactions(cluster, [handle], commit=True)

A prepared transaction keeps the time-out that it began with, unless the brokers have two-phase commit
(KIP-939): there it has none. Ending is idempotent: it may be repeated until it succeeds.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ottla.client.blocking.cluster import SyncCluster
from ottla.client.core.cluster import TopicPartition
from ottla.client.core.transaction_api import TIMEOUT_MS, Ends, TransactionApi, TransactionHandle
from ottla.client.core.transaction_status import describe_all
from ottla.client.core.transaction_types import TransactionInfo
from ottla.client.errors import BrokerError


class SyncTransactions:
    """Requests to the coordinators of transactional ids; one for each SyncCluster is enough."""

    def __init__(self, cluster: SyncCluster) -> None:
        self.cluster = cluster
        self.api = TransactionApi(cluster.core)

    def init(self, transactional_id: str, timeout_ms: int = TIMEOUT_MS) -> TransactionHandle:
        """Take the id: older producers with it are fenced, and what they left open is aborted."""
        return self.cluster.run(self.api.init(transactional_id, timeout_ms)).handle

    def add_partitions(self, handle: TransactionHandle, partitions: Iterable[TopicPartition]) -> None:
        """Add partitions to the transaction before they are written, as protocol version 1 requires."""
        self.cluster.run(self.api.add_partitions(handle, partitions))

    def keep(self, handle: TransactionHandle) -> TransactionHandle:
        """Let the transaction wait for its end without a time-out, where brokers offer two-phase commit.

        Nothing may be written into it any more. Raises a BrokerError if it is no longer open.
        """
        return self.cluster.run(self.api.keep(handle))

    def end(
        self, handles: Sequence[TransactionHandle], *, commit: bool, timeout_ms: float | None = None
    ) -> Ends:
        """End them all; for each the handle of the next transaction, or the coordinator's refusal.

        Raises a retriable error that lasted too long: whether they are ended is unknown then, so repeat it.
        """
        return self.cluster.run(self.api.end_all(handles, commit=commit, timeout_ms=timeout_ms))

    def fence(self, transactional_id: str) -> None:
        """Abort whatever is open under this id; its producers cannot continue."""
        self.cluster.run(self.api.fence(transactional_id))

    def open_ids(self, prefix: str, *, all_brokers: bool = True) -> list[str]:
        """The transactional ids that begin with `prefix` and have an open transaction.

        Without `all_brokers`, those that cannot be reached are left out: their ids have, or will have,
        another coordinator.
        """
        return self.cluster.run(self.api.open_ids(prefix, all_brokers=all_brokers))

    def describe(self, transactional_ids: Sequence[str]) -> dict[str, TransactionInfo]:
        """The coordinators' states of these ids; unknown ids are left out."""
        found = self.cluster.run(describe_all(self.api, transactional_ids))
        return {name: info for name, info in found.items() if info is not None}


def end_transactions(cluster: SyncCluster, handles: Sequence[TransactionHandle], *, commit: bool) -> None:
    """Commit or abort transactions that `ArrowWriter.prepare` has left open, in any process.

    It may be repeated: transactions that are ended already in the same way are ignored. Raises the first
    refusal.
    """
    for result in SyncTransactions(cluster).end(handles, commit=commit).values():
        if isinstance(result, BrokerError):
            raise result
