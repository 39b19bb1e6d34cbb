"""Replicas are distinct, spread evenly, in different racks where there are some."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.controller.image.parts import BrokerImage
from ottla.controller.refusal import Refusal
from ottla.controller.topics.placement import place_partitions
from ottla.protocol.messages.register_broker_record import RegisterBrokerRecord


def broker(broker_id: int, rack: str | None = None, fenced: bool = False) -> BrokerImage:
    return BrokerImage(
        RegisterBrokerRecord(broker_id=broker_id, rack=rack, fenced=fenced, log_dirs=[b"d" * 16])
    )


@given(st.integers(1, 9), st.integers(1, 60), st.data())
def test_even_without_racks(brokers: int, partitions: int, data: st.DataObject) -> None:
    factor = data.draw(st.integers(1, brokers))
    rng = random.Random(data.draw(st.integers()))
    replicas = place_partitions([broker(i) for i in range(brokers)], partitions, factor, rng.randrange)
    assert len(replicas) == partitions
    assert all(len(set(ids)) == len(ids) == factor for ids in replicas)
    leaders = Counter(ids[0] for ids in replicas)
    assert max(leaders.values()) - (min(leaders.values()) if len(leaders) == brokers else 0) <= 1
    counts = Counter(broker_id for ids in replicas for broker_id in ids)
    assert max(counts.values()) <= partitions * factor / brokers + factor


@given(st.integers(2, 4), st.integers(1, 3), st.integers(1, 30), st.data())
def test_racks_apart(racks: int, per_rack: int, partitions: int, data: st.DataObject) -> None:
    brokers = [broker(rack * 10 + i, f"rack{rack}") for rack in range(racks) for i in range(per_rack)]
    factor = data.draw(st.integers(1, len(brokers)))
    rng = random.Random(data.draw(st.integers()))
    for ids in place_partitions(brokers, partitions, factor, rng.randrange):
        assert len({broker_id // 10 for broker_id in ids}) == min(factor, racks)


def test_followers_of_one_leader_differ() -> None:
    replicas = place_partitions([broker(i) for i in range(5)], 20, 2, random.Random(1).randrange)
    followers = {follower for leader, follower in replicas if leader == 0}
    assert len(followers) == 4


def test_fenced_brokers_follow_but_do_not_lead() -> None:
    brokers = [broker(1), broker(2, fenced=True), broker(3)]
    replicas = place_partitions(brokers, 10, 3, random.Random(1).randrange)
    assert all(ids[2] == 2 for ids in replicas)
    with pytest.raises(Refusal, match="3 broker"):
        place_partitions(brokers, 1, 4, random.Random(1).randrange)
    with pytest.raises(Refusal, match="fenced"):
        place_partitions([broker(2, fenced=True)], 1, 1, random.Random(1).randrange)


def test_cordoned_brokers_get_nothing() -> None:
    full = broker(1)
    full.cordoned_log_dirs = full.log_dirs
    assert place_partitions([full, broker(2)], 3, 1, random.Random(1).randrange) == [[2]] * 3
