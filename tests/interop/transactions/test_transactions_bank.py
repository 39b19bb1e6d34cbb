"""Transfers between accounts while brokers are killed: the sum stays the same for every reader."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from ottla.testing import Cluster
from ottla.testing.topics import topic_name_for
from tests.support.interop.bank import create_bank, run_bank

SECONDS = 5


@pytest.fixture(scope="module")
def bank_cluster() -> Iterator[Cluster]:
    with Cluster(brokers=3) as cluster:
        yield cluster


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["confluent", "ottla"])
def test_the_sum_of_all_accounts_stays(
    bank_cluster: Cluster, request: pytest.FixtureRequest, kind: str
) -> None:
    servers = bank_cluster.bootstrap_servers
    topic = topic_name_for(request.node.name)
    create_bank(servers, topic, 3)
    victims = iter([0, 1, 2] * 100)

    def disturb() -> None:
        victim = next(victims)
        bank_cluster.kill(victim)
        time.sleep(1)
        bank_cluster.start(victim)
        time.sleep(1)

    tellers, inspector = run_bank(kind, servers, topic, SECONDS, disturb, leaves=7)
    assert sum(len(teller.committed) for teller in tellers) >= 20
    assert inspector.looks >= 3
