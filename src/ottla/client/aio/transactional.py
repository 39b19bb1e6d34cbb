"""What users of a producer call for transactions."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Self

from ottla.client.aio.cluster import ClusterUser
from ottla.client.aio.transactions import (
    ABORTING,
    COMMITTING,
    FAILED,
    LOST,
    OPEN,
    PREPARED,
    PreparedTransaction,
    Transactions,
)
from ottla.client.errors import ClientError, TransactionFailedError
from ottla.client.groups.offsets import MemberIdentity
from ottla.client.groups.types import CommittedOffset, TopicPartition

if TYPE_CHECKING:
    from ottla.client.groups.reading import GroupReading


class TransactionalSending(ClusterUser):
    """The producer's face towards transactions."""

    _transactions: Transactions | None

    async def flush(self) -> None:
        raise NotImplementedError

    async def _give_up_all(self, error: ClientError) -> None:
        raise NotImplementedError

    async def init_transactions(self, *, keep_prepared: bool = False) -> PreparedTransaction | None:
        """Take the transactional id: older producers with it are fenced, what they left open is aborted.

        The first transaction does it by itself. With `keep_prepared` (and two_phase_commit=True) one that was
        left open is kept and returned: `complete_transaction` ends it. After ProducerFencedError it
        takes the id back.
        """
        transactions = self._transactional()
        await transactions.init(keep_prepared=keep_prepared)
        return transactions.prepared

    async def begin_transaction(self) -> None:
        """From here on records are part of a transaction, seen by readers of committed data when it ends."""
        await self._transactional().begin()

    async def send_offsets_to_transaction(
        self,
        offsets: Mapping[TopicPartition, CommittedOffset | int],
        group: GroupReading | str,
    ) -> None:
        """Commit where a group stands with the transaction: reading and writing count together or not at all.

        `group` is the consumer that reads (made with auto_commit=False; its `consumed_offsets()` are what to
        commit), or just the name of its group, which lets a consumer commit that is not a member any more.
        Raises TransactionFailedError: abort, and read again from what is committed.
        """
        if isinstance(group, str):
            await self._transactional().add_offsets(group, offsets, MemberIdentity)
        elif group.group_id is None:
            raise ValueError("this consumer is in no group: make it with group_id=...")
        else:
            await self._transactional().add_offsets(group.group_id, offsets, group.member_identity)

    async def commit_transaction(self) -> None:
        """Deliver everything, then commit. Raises TransactionFailedError if it can only be aborted.

        Any other error leaves open whether it is committed: call it again, or make a new producer with the
        same id, which has to wait for the answer too.
        """
        transactions = self._transactional()
        if transactions.state not in (PREPARED, COMMITTING):
            transactions.check_open()
            await self.flush()
            transactions.check_open()
        await transactions.end(commit=True)

    async def abort_transaction(self) -> None:
        """Give up what is not delivered yet, and let nobody see the rest."""
        transactions = self._transactional()
        if transactions.state == LOST:
            transactions.check_open()
        if transactions.state not in (OPEN, FAILED, PREPARED, ABORTING):
            what = "may be committed already" if transactions.state == COMMITTING else transactions.state
            raise ClientError(f"there is no transaction to abort: it is {what}")
        await self._give_up_all(TransactionFailedError("the transaction was aborted"))
        await transactions.end(commit=False)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Self]:
        """`async with producer.transaction():` commits at the end, and aborts if an exception leaves it."""
        await self.begin_transaction()
        transactions = self._transactional()
        try:
            yield self
            await self.commit_transaction()
        except BaseException:
            if transactions.state in (OPEN, FAILED, PREPARED):
                await self.abort_transaction()
            raise

    # Two-phase commit (KIP-939).

    async def prepare_transaction(self) -> PreparedTransaction:
        """Deliver everything; what is returned names the transaction for `complete_transaction`.

        Write it down together with the other resource's change. After a crash, `init_transactions` with
        `keep_prepared` and `complete_transaction` bring this one to the same end.
        """
        transactions = self._transactional()
        if not transactions.two_phase_commit:
            raise ClientError("prepare_transaction: make the producer with two_phase_commit=True")
        transactions.check_open()
        await self.flush()
        return transactions.prepare()

    async def complete_transaction(self, prepared: PreparedTransaction | None) -> bool:
        """Commit the prepared transaction if it is this one, else abort it; whether it was committed."""
        transactions = self._transactional()
        if transactions.state != PREPARED:
            raise ClientError(f"there is no prepared transaction: it is {transactions.state}")
        is_same = prepared is not None and tuple(prepared) == transactions.prepared
        await transactions.end(commit=is_same)
        return is_same

    # Inside.

    def _transactional(self) -> Transactions:
        if self._transactions is None:
            raise ClientError("transactions need an id: make the producer with transactional_id=...")
        return self._transactions

    @property
    def _has_open_transaction(self) -> bool:
        return self._transactions is not None and self._transactions.state in (OPEN, FAILED)
