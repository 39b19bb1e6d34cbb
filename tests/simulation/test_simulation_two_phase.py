"""The checker of prepared transactions: an instance that takes over must find what was prepared before it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from ottla.protocol.messages.init_producer_id_response import InitProducerIdResponse
from simulator.history.transactions import TxnEntry, TxnLedger
from simulator.transactions.two_phase import Resource, TxnPreparer
from simulator.world import World

PAIR = (2, 8)


class FoundNothing(TxnPreparer):
    """Its InitProducerId reports no open transaction, after `meanwhile` has run."""

    meanwhile: Callable[[], None]

    async def init(self, *, keep_prepared: bool = False) -> InitProducerIdResponse:
        self.meanwhile()
        return InitProducerIdResponse(producer_id=2, producer_epoch=4)


def take_over(meanwhile: Callable[[Resource, TxnEntry], None], *, prepared_before: bool) -> list[str]:
    """Start an instance that finds nothing, and return the complaints."""
    world = World(1)
    ledger = TxnLedger(world, "accounts", 1)
    instance = FoundNothing(world, ledger, "prepared", 2, 60_000)
    entry = ledger.begin("prepared", "prepared.9", PAIR, 2)
    instance.resource = resource = Resource()
    if prepared_before:
        resource.prepared = entry
    instance.meanwhile = lambda: meanwhile(resource, entry)
    asyncio.run(instance.start())
    return ledger.prepared_lost


def nothing(resource: Resource, entry: TxnEntry) -> None:
    pass


def the_next_instance_prepares(resource: Resource, entry: TxnEntry) -> None:
    resource.owner = entry.instance
    assert resource.note(entry.instance, entry)


def the_next_instance_ends_it(resource: Resource, entry: TxnEntry) -> None:
    resource.owner = entry.instance
    resource.is_end_sent = True


def test_a_prepared_transaction_that_is_not_found_is_lost() -> None:
    assert len(take_over(nothing, prepared_before=True)) == 1


@pytest.mark.parametrize(
    ("meanwhile", "prepared_before"), [(the_next_instance_prepares, False), (the_next_instance_ends_it, True)]
)
def test_a_response_older_than_the_next_instance_proves_nothing(
    meanwhile: Callable[[Resource, TxnEntry], None], prepared_before: bool
) -> None:
    """Found as seed 80048 of `txn-kill`: InitProducerId was answered long after it was decided."""
    assert take_over(meanwhile, prepared_before=prepared_before) == []
