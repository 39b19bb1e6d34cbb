"""Transactions on three brokers in virtual time: after any crash they end once, the same in all
partitions."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ottla.protocol.errors import ErrorCode
from ottla.protocol.message import Message
from ottla.protocol.messages.describe_transactions_request import DescribeTransactionsRequest
from ottla.protocol.messages.describe_transactions_response import DescribeTransactionsResponse
from ottla.protocol.messages.end_txn_request import EndTxnRequest
from ottla.protocol.messages.end_txn_response import EndTxnResponse
from ottla.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from ottla.protocol.messages.find_coordinator_response import FindCoordinatorResponse
from ottla.protocol.messages.init_producer_id_request import InitProducerIdRequest
from ottla.protocol.messages.init_producer_id_response import InitProducerIdResponse
from ottla.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.messages.produce_response import ProduceResponse
from ottla.records.build import build_batch
from tests.support.broker.replicated import TOPIC, Trio, play

ID = "teller"
COME_AGAIN = (
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
)


class Teller:
    """A client of transaction version 2 that follows the coordinator and the leaders."""

    def __init__(self, trio: Trio) -> None:
        self.trio = trio
        self.id = self.epoch = -1

    def _up(self) -> int:
        return next(node_id for node_id, node in self.trio.nodes.items() if node.serving)

    async def coordinator(self) -> int:
        asked = FindCoordinatorRequest(key_type=1, coordinator_keys=[ID])
        while True:
            answer = await self.trio.ask(self._up(), asked, FindCoordinatorResponse)
            (found,) = answer.coordinators
            if not found.error_code and self.trio.nodes[found.node_id].up:
                return found.node_id
            await asyncio.sleep(0.05)

    async def _ask(self, message: Message, response: Any) -> Any:
        while True:
            answer = await self.trio.ask(await self.coordinator(), message, response)
            if answer.error_code not in COME_AGAIN:
                return answer
            await asyncio.sleep(0.02)

    async def init(self, timeout_ms: int = 60_000) -> ErrorCode:
        asked = InitProducerIdRequest(
            transactional_id=ID, transaction_timeout_ms=timeout_ms, producer_id=-1, producer_epoch=-1
        )
        answer = await self._ask(asked, InitProducerIdResponse)
        self.id, self.epoch = answer.producer_id, answer.producer_epoch
        return ErrorCode(answer.error_code)

    async def end(self, committed: bool) -> ErrorCode:
        asked = EndTxnRequest(
            transactional_id=ID, producer_id=self.id, producer_epoch=self.epoch, committed=committed
        )
        answer = await self._ask(asked, EndTxnResponse)
        if not answer.error_code:
            self.id, self.epoch = answer.producer_id, answer.producer_epoch
        return ErrorCode(answer.error_code)

    async def produce(self, partition: int, value: bytes, sequence: int = 0) -> ErrorCode:
        trio = self.trio
        records = build_batch(
            [(trio.world.now_ms, None, value, ())],
            producer_id=self.id,
            producer_epoch=self.epoch,
            base_sequence=sequence,
            transactional=True,
        )
        data = PartitionProduceData(index=partition, records=bytes(records))
        topic = TopicProduceData(topic_id=trio.topic_id, partition_data=[data])
        request = ProduceRequest(transactional_id=ID, acks=-1, timeout_ms=5000, topic_data=[topic])
        while True:
            image = trio.broker(self._up()).metadata.image.topics_by_name[TOPIC]
            leader = image.partitions[partition].leader
            if leader in trio.nodes and trio.nodes[leader].up:
                answer = await trio.ask(leader, request, ProduceResponse)
                code = ErrorCode(answer.responses[0].partition_responses[0].error_code)
                if code not in COME_AGAIN:
                    return code
            await asyncio.sleep(0.02)

    async def state(self) -> str:
        asked = DescribeTransactionsRequest(transactional_ids=[ID])
        while True:
            answer = await self.trio.ask(await self.coordinator(), asked, DescribeTransactionsResponse)
            (found,) = answer.transaction_states
            if found.error_code not in COME_AGAIN:
                return str(found.transaction_state)
            await asyncio.sleep(0.02)

    async def until(self, state: str) -> None:
        for _ in range(500):
            if await self.state() == state:
                return
            await asyncio.sleep(0.05)
        raise AssertionError(await self.state())


def open_in(trio: Trio) -> list[int]:
    """Partitions whose leader has an open transaction."""
    found = []
    for index in range(2):
        for node in trio.nodes.values():
            partition = node.broker.partitions.by_name(TOPIC, index) if node.serving and node.broker else None
            if partition is not None and partition.is_leader and any(partition.log.producer_state.ongoing()):
                found.append(index)
    return found


async def begun(trio: Trio) -> Teller:
    await trio.create(partitions=2)
    teller = Teller(trio)
    assert await teller.init() == ErrorCode.NONE
    for partition in (0, 1):
        assert await teller.produce(partition, b"x") == ErrorCode.NONE
    assert open_in(trio) == [0, 1]
    return teller


@pytest.mark.parametrize("committed", [True, False])
@pytest.mark.parametrize("victim", ["coordinator", "leader"])
def test_an_acknowledged_end_is_carried_out(committed: bool, victim: str) -> None:
    async def scenario(trio: Trio) -> None:
        teller = await begun(trio)
        dying = await teller.coordinator() if victim == "coordinator" else trio.leader_id()
        assert await teller.end(committed) == ErrorCode.NONE
        trio.nodes[dying].kill()  # some markers may be in flight
        await teller.until("CompleteCommit" if committed else "CompleteAbort")
        assert open_in(trio) == []
        # The next transaction works, too.
        for partition in (0, 1):
            assert await teller.produce(partition, b"y") == ErrorCode.NONE
        assert await teller.end(True) == ErrorCode.NONE
        await teller.until("CompleteCommit")
        assert open_in(trio) == []

    for seed in range(3):
        play(scenario, seed=seed)


def test_the_next_coordinator_continues_an_open_transaction() -> None:
    async def scenario(trio: Trio) -> None:
        teller = await begun(trio)
        dying = await teller.coordinator()
        trio.nodes[dying].kill()
        assert await teller.produce(0, b"more", sequence=1) == ErrorCode.NONE
        assert await teller.end(True) == ErrorCode.NONE
        await teller.until("CompleteCommit")
        assert open_in(trio) == []

    play(scenario)


def test_the_next_coordinator_keeps_the_deadlines() -> None:
    async def scenario(trio: Trio) -> None:
        await trio.create(partitions=2)
        teller = Teller(trio)
        assert await teller.init(timeout_ms=5000) == ErrorCode.NONE
        assert await teller.produce(0, b"x") == ErrorCode.NONE
        trio.nodes[await teller.coordinator()].kill()
        await asyncio.sleep(3)
        assert await teller.state() == "Ongoing"
        await asyncio.sleep(3)
        await teller.until("CompleteAbort")
        assert open_in(trio) == []
        assert await teller.produce(0, b"late", sequence=1) == ErrorCode.INVALID_PRODUCER_EPOCH
        assert await teller.end(True) == ErrorCode.PRODUCER_FENCED

    play(scenario)


def test_markers_wait_for_a_leader() -> None:
    async def scenario(trio: Trio) -> None:
        await trio.create(replicas=(2,), partitions=2)
        teller = Teller(trio)
        assert await teller.init() == ErrorCode.NONE
        assert await teller.produce(0, b"x") == ErrorCode.NONE
        trio.nodes[2].kill()
        assert await teller.end(False) == ErrorCode.NONE
        await asyncio.sleep(20)
        assert await teller.state() == "PrepareAbort"
        await trio.nodes[2].start()
        await teller.until("CompleteAbort")
        assert open_in(trio) == []

    play(scenario)


def test_finished_transactions_leave_no_state() -> None:
    """Also on followers, which serve no read_committed consumers."""

    async def scenario(trio: Trio) -> None:
        teller = await begun(trio)
        for number in range(20):
            assert await teller.end(number % 2 == 0) == ErrorCode.NONE
            assert await teller.produce(0, b"x") == ErrorCode.NONE
        assert await teller.end(True) == ErrorCode.NONE
        await teller.until("CompleteCommit")
        await asyncio.sleep(2)  # followers get the high watermark
        for node in trio.nodes.values():
            assert node.broker is not None
            partition = node.broker.partitions.by_name(TOPIC, 0)
            assert partition is not None and partition.high_watermark == partition.log.log_end_offset
            state = partition.log.producer_state
            assert (len(state._ongoing), len(state._unreplicated)) == (0, 0), node
            assert len(state.entries) == 1

    play(scenario)
