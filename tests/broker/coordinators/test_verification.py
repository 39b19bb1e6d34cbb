"""Verification with a coordinator on another broker: shared, bounded requests, and a result for each
caller."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest

from ottla.broker.coordinators import verification
from ottla.broker.coordinators.verification import Verification, transaction_partitions
from ottla.broker.identity import NodeIdentity
from ottla.broker.net.peer import PeerLost
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.add_partitions_to_txn_response import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
)
from tests.support.broker.background import strict_tasks

HERE, THERE = 1, 2


class Peers:
    """The other broker: responds with the codes in `codes`, NONE for other ids."""

    def __init__(self) -> None:
        self.requests: list[list[str]] = []
        self.codes: dict[str, ErrorCode] = {}
        self.is_lost = False
        self.left_out: list[str] = []

    async def call(self, node_id, request, response_class, timeout_ms):
        assert node_id == THERE
        self.requests.append([each.transactional_id for each in request.transactions])
        await asyncio.sleep(0)
        if self.is_lost:
            raise PeerLost("gone", disconnected=True)
        return AddPartitionsToTxnResponse(
            results_by_transaction=[
                AddPartitionsToTxnResult(
                    transactional_id=each.transactional_id,
                    topic_results=[
                        AddPartitionsToTxnTopicResult(
                            name=topic.name,
                            results_by_partition=[
                                AddPartitionsToTxnPartitionResult(
                                    partition_index=index,
                                    partition_error_code=self.codes.get(each.transactional_id, 0),
                                )
                                for index in topic.partitions
                            ],
                        )
                        for topic in each.topics
                    ],
                )
                for each in request.transactions
                if each.transactional_id not in self.left_out
            ]
        )

    def close(self) -> None:
        pass


@pytest.fixture
def peers() -> Peers:
    return Peers()


@pytest.fixture
def verifying(peers: Peers) -> Verification:
    config = SimpleNamespace(get_int=lambda name: 100)
    shards = SimpleNamespace(leader_of=lambda name: THERE)
    return Verification(
        config,
        SimpleNamespace(),
        identity=NodeIdentity(HERE),
        transactions=SimpleNamespace(shards=shards),
        peers=peers,
        monotonic_ms=lambda: 0,
        tasks=strict_tasks(),
    )


def verify_all(verifying: Verification, names: list[str]) -> list[dict]:
    async def scenario():
        transactions = [
            transaction_partitions(name, 7, 0, [("t", number)], True) for number, name in enumerate(names)
        ]
        return await asyncio.gather(*(verifying.verify(each) for each in transactions))

    return asyncio.run(scenario())


def test_verifications_of_one_iteration_share_a_request(verifying, peers):
    peers.codes["b"] = ErrorCode.PRODUCER_FENCED
    assert verify_all(verifying, ["a", "b", "c"]) == [
        {("t", 0): ErrorCode.NONE},
        {("t", 1): ErrorCode.PRODUCER_FENCED},
        {("t", 2): ErrorCode.NONE},
    ]
    assert peers.requests == [["a", "b", "c"]]
    assert verifying._calls == {}


def test_requests_are_bounded_and_have_no_id_twice(verifying, peers, monkeypatch):
    monkeypatch.setattr(verification, "TRANSACTIONS_MAX", 2)
    answers = verify_all(verifying, ["a", "b", "c", "c", "d"])
    assert peers.requests == [["a", "b"], ["c"], ["c", "d"]]
    assert [list(each) for each in answers] == [[("t", number)] for number in range(5)]


def test_a_lost_broker_and_a_missing_result_are_reported(verifying, peers):
    peers.left_out = ["b"]
    answers = verify_all(verifying, ["a", "b"])
    assert [*answers[0].values(), *answers[1].values()] == [ErrorCode.NONE, ErrorCode.NETWORK_EXCEPTION]
    peers.is_lost = True
    answers = verify_all(verifying, ["a", "b"])
    assert {code for each in answers for code in each.values()} == {ErrorCode.NETWORK_EXCEPTION}


def test_nothing_is_verified_after_close(verifying, peers):
    verifying.close()
    (answer,) = verify_all(verifying, ["a"])
    assert list(answer.values()) == [ErrorCode.NETWORK_EXCEPTION]
    assert peers.requests == []
