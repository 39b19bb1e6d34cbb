"""What leaders ask coordinators elsewhere: together, within bounds, and every asker hears its own answer."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest

from ottla.broker.coordinators import verification
from ottla.broker.coordinators.verification import Verification, question
from ottla.broker.net.peer import PeerLost
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.add_partitions_to_txn_response import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
)

HERE, THERE = 1, 2


class Links:
    """The other broker: answers what `codes` says of an id, NONE for the others."""

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
def links() -> Links:
    return Links()


@pytest.fixture
def asking(links: Links) -> Verification:
    topic = SimpleNamespace(partitions={0: SimpleNamespace(leader=THERE)})
    broker = SimpleNamespace(
        node_id=HERE,
        clock=lambda: 0,
        config=SimpleNamespace(get_int=lambda name: 100, get=lambda name: None),
        image=SimpleNamespace(topics_by_name={"state": topic}, brokers={}),
        transactions=SimpleNamespace(TOPIC="state", index_of=lambda name: 0),
    )
    made = Verification(broker)
    made._links = links
    return made


def ask_all(asking: Verification, names: list[str]) -> list[dict]:
    async def scenario():
        questions = [question(name, 7, 0, [("t", number)], True) for number, name in enumerate(names)]
        return await asyncio.gather(*(asking.ask(each) for each in questions))

    return asyncio.run(scenario())


def test_what_is_asked_at_once_goes_in_one_request(asking, links):
    links.codes["b"] = ErrorCode.PRODUCER_FENCED
    assert ask_all(asking, ["a", "b", "c"]) == [
        {("t", 0): ErrorCode.NONE},
        {("t", 1): ErrorCode.PRODUCER_FENCED},
        {("t", 2): ErrorCode.NONE},
    ]
    assert links.requests == [["a", "b", "c"]]
    assert asking._calls == {}


def test_requests_are_bounded_and_have_no_id_twice(asking, links, monkeypatch):
    monkeypatch.setattr(verification, "TRANSACTIONS_MAX", 2)
    answers = ask_all(asking, ["a", "b", "c", "c", "d"])
    assert links.requests == [["a", "b"], ["c"], ["c", "d"]]
    assert [list(each) for each in answers] == [[("t", number)] for number in range(5)]


def test_a_lost_broker_and_a_missing_answer_are_told_to_those_concerned(asking, links):
    links.left_out = ["b"]
    answers = ask_all(asking, ["a", "b"])
    assert [*answers[0].values(), *answers[1].values()] == [ErrorCode.NONE, ErrorCode.NETWORK_EXCEPTION]
    links.is_lost = True
    answers = ask_all(asking, ["a", "b"])
    assert {code for each in answers for code in each.values()} == {ErrorCode.NETWORK_EXCEPTION}


def test_after_the_end_nobody_is_asked(asking, links):
    asking.close()
    (answer,) = ask_all(asking, ["a"])
    assert list(answer.values()) == [ErrorCode.NETWORK_EXCEPTION]
    assert links.requests == []
