"""Unused transactional ids expire; a producer that returns starts with a new producer id."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from ottla.client import Admin
from ottla.testing import Cluster
from ottla.testing.topics import topic_name_for
from tests.support.interop import transactions
from tests.support.interop.transactions import Failed, Fenced, read_committed
from tests.support.waiting import wait_until

FORGETFUL = {
    "transactional.id.expiration.ms": 1500,
    "transaction.remove.expired.transaction.cleanup.interval.ms": 200,
}


@pytest.fixture(scope="module")
def forgetful() -> Iterator[Cluster]:
    with Cluster(config=FORGETFUL) as cluster:
        yield cluster


def states(servers: str) -> dict[str, str]:
    async def ask() -> dict[str, str]:
        async with Admin(servers) as admin:
            return {row.transactional_id: row.state for row in await admin.list_transactions()}

    return asyncio.run(ask())


@pytest.mark.parametrize("kind", ["confluent", "ottla"])
def test_idle_ids_expire(forgetful: Cluster, request: pytest.FixtureRequest, kind: str) -> None:
    servers = forgetful.bootstrap_servers
    name = topic_name_for(request.node.name)
    forgetful.create_topic(name, 1)
    idle = transactions.KINDS[kind](servers, name)
    idle.begin()
    idle.send(name, [(0, "first")])
    idle.commit()
    busy = transactions.KINDS[kind](servers, f"{name}-busy")
    busy.begin()
    busy.send(name, [(0, "open")], wait=True)
    assert name in states(servers)
    wait_until(lambda: name not in states(servers), "the idle id expires", 20)
    assert states(servers)[f"{name}-busy"] == "Ongoing", "an id with an open transaction is not idle"
    busy.commit()
    with pytest.raises((Fenced, Failed)):
        idle.begin()
        idle.send(name, [(0, "late")], wait=True)
        idle.commit()
    heir = transactions.KINDS[kind](servers, name)
    heir.begin()
    heir.send(name, [(0, "second")])
    heir.commit()
    wait_until(
        lambda: read_committed(servers, name, 1) == ["first", "open", "second"],
        lambda: read_committed(servers, name, 1),
        10,
    )
    for producer in (idle, busy, heir):
        producer.close()
