"""A producer that takes part in a two-phase commit, and the external resource that decides.

The resource records a transaction as prepared when all of its records are acknowledged, and decides its
outcome. From then on the brokers must keep it until an instance that requests the prepared transaction ends
it as decided. An instance registers with the resource first, which then rejects writes of earlier
instances.
"""

from __future__ import annotations

import asyncio

from simulator.history.transactions import ABORTED, COMMITTED, TxnEntry
from simulator.transactions.client import NO_PAIR, Fenced, MustAbort
from simulator.transactions.writers import TxnWriter

PREPARED_S = (0.0, 8.0)  # longer than the timeout of a transaction that is not prepared
HURRIED_CHANCE = 0.6


class Resource:
    """The durable state of the external resource."""

    def __init__(self) -> None:
        self.owner = ""
        self.prepared: TxnEntry | None = None
        self.is_end_sent = False  # an instance has sent the decision to the coordinator

    def note(self, instance: str, entry: TxnEntry) -> bool:
        if self.owner != instance:
            return False
        assert self.prepared is None
        self.prepared = entry
        self.is_end_sent = False
        return True


class TxnPreparer(TxnWriter):
    two_phase = True
    gives_up = False
    resource: Resource

    async def start(self) -> None:
        """Take over, and end the transaction of the previous instance as the resource has decided."""
        resource = self.resource
        resource.owner = self.instance
        before = resource.prepared
        answer = await self.init(keep_prepared=True)
        ongoing = (answer.ongoing_txn_producer_id, answer.ongoing_txn_producer_epoch)
        entry = resource.prepared
        # The response may be older than what the next instance has prepared since: only a transaction that
        # was prepared when the request was sent, and still is, must be in it.
        is_due = entry is before and not resource.is_end_sent
        if entry is not None and is_due and ongoing != entry.pair:
            self.ledger.prepared_lost.append(f"{entry} was prepared, {self.instance} finds {ongoing}")
        if entry is not None and ongoing == entry.pair:
            self._decide(entry)
            await self._finish(entry)
        elif ongoing != NO_PAIR:
            leftover = self.begin()  # not prepared: abort it
            self._may_be_added = True
            await self.end(leftover, commit=False)
        if resource.owner == self.instance:
            resource.prepared = None

    async def transact(self) -> None:
        entry = self.begin()
        try:
            await self.fill(entry)
        except MustAbort as error:
            self.ledger.trace(self.instance, f"must abort {entry.name}: {error}")
            await self.end(entry, commit=False)
            return
        if not self.resource.note(self.instance, entry):
            await self.end(entry, commit=False)
            raise Fenced("another instance has taken over")
        self.ledger.trace(self.instance, f"has prepared {entry.name}")
        if self.rng.random() > HURRIED_CHANCE:
            await asyncio.sleep(self.rng.uniform(*PREPARED_S))
        if self.resource.prepared is not entry:
            raise Fenced("another instance has ended the prepared transaction")
        self._decide(entry)
        await self._finish(entry)
        if self.resource.prepared is entry:
            self.resource.prepared = None

    def _decide(self, entry: TxnEntry) -> None:
        if not entry.decision:
            entry.decision = COMMITTED if self.rng.random() < 0.7 else ABORTED
            self.ledger.trace(self.instance, f"{entry.name} is to be {entry.decision}")

    async def _finish(self, entry: TxnEntry) -> None:
        self.resource.is_end_sent = True
        attempt = self.ledger.attempt(entry, self.instance)
        self._may_be_added = True
        await self.end(attempt, commit=entry.decision == COMMITTED)
