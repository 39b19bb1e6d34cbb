"""Transactions with raw requests, in both versions of the protocol."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages import add_partitions_to_txn_request as add
from ottla.protocol.messages import txn_offset_commit_request as offsets
from ottla.protocol.messages import write_txn_markers_request as markers
from ottla.protocol.messages.add_offsets_to_txn_request import AddOffsetsToTxnRequest
from ottla.protocol.messages.api_versions_request import ApiVersionsRequest
from ottla.protocol.messages.describe_producers_request import DescribeProducersRequest, TopicRequest
from ottla.protocol.messages.describe_transactions_request import DescribeTransactionsRequest
from ottla.protocol.messages.end_txn_request import EndTxnRequest
from ottla.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from ottla.protocol.messages.init_producer_id_request import InitProducerIdRequest
from ottla.protocol.messages.list_transactions_request import ListTransactionsRequest
from ottla.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.testing import Cluster
from tests.support.interop.wire import Wire, batch_of
from tests.support.waiting import wait_until

V1_PRODUCE, V2_PRODUCE = 10, 12
READ_COMMITTED = 1


@pytest.fixture(scope="module")
def two_phase_cluster() -> Iterator[Cluster]:
    config = {"transaction.two.phase.commit.enable": True, "transaction.max.timeout.ms": 60_000}
    with Cluster(config=config) as cluster:
        yield cluster


class Txn:
    """The requests of one transactional id; `version` of the protocol: 1 or 2."""

    def __init__(self, wire: Wire, version: int = 1, name: str = "") -> None:
        self.wire = wire
        self.version = version
        self.name = name or f"txn-{uuid.uuid4().hex[:8]}"
        self.topic = f"topic-{uuid.uuid4().hex[:8]}"
        wire.create_topic(self.topic, 2)
        self.id = self.epoch = -1
        self.sequence = 0

    def init(self, **options: Any) -> ErrorCode:
        version = options.pop("version", 5)
        fields: dict[str, Any] = {"transaction_timeout_ms": 30_000, "producer_id": -1, "producer_epoch": -1}
        request = InitProducerIdRequest(transactional_id=self.name, **{**fields, **options})
        while True:
            self.answer = self.wire.ask(request, version)
            code = ErrorCode(self.answer.error_code)
            if code != ErrorCode.CONCURRENT_TRANSACTIONS:
                break
            time.sleep(0.01)
        if code == ErrorCode.NONE:
            self.id, self.epoch = self.answer.producer_id, self.answer.producer_epoch
            self.sequence = 0
        return code

    def add(self, *partitions: int) -> list[ErrorCode]:
        topics = [add.AddPartitionsToTxnTopic(name=self.topic, partitions=list(partitions))]
        request = add.AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.name,
            v3_and_below_producer_id=self.id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=topics,
        )
        (topic,) = self.wire.ask(request, 3).results_by_topic_v3_and_below
        return [ErrorCode(each.partition_error_code) for each in topic.results_by_partition]

    def produce(self, value: bytes, partition: int = 0, **options: Any) -> ErrorCode:
        version = options.pop("version", V1_PRODUCE if self.version == 1 else V2_PRODUCE)
        sequence = options.pop("sequence", self.sequence)
        batch = batch_of(
            value,
            producer_id=self.id,
            producer_epoch=options.pop("epoch", self.epoch),
            base_sequence=sequence,
            transactional=True,
        )
        name = options.pop("name", self.name)
        data = TopicProduceData(
            name=self.topic, partition_data=[PartitionProduceData(index=partition, records=batch)]
        )
        request = ProduceRequest(transactional_id=name, acks=-1, timeout_ms=5000, topic_data=[data])
        answer = self.wire.ask(request, version).responses[0].partition_responses[0]
        if not answer.error_code:
            self.sequence = sequence + 1
        return ErrorCode(answer.error_code)

    def end(self, committed: bool, **options: Any) -> ErrorCode:
        version = options.pop("version", 4 if self.version == 1 else 5)
        request = EndTxnRequest(
            transactional_id=self.name,
            producer_id=self.id,
            producer_epoch=options.pop("epoch", self.epoch),
            committed=committed,
        )
        answer = self.wire.ask(request, version)
        if version >= 5 and not answer.error_code:
            if answer.producer_epoch != self.epoch:
                self.sequence = 0
            self.id, self.epoch = answer.producer_id, answer.producer_epoch
        return ErrorCode(answer.error_code)

    def state(self) -> Any:
        (found,) = self.wire.ask(
            DescribeTransactionsRequest(transactional_ids=[self.name])
        ).transaction_states
        return found

    def until_complete(self) -> str:
        wait_until(
            lambda: self.state().transaction_state in ("CompleteCommit", "CompleteAbort"), self.state, 10
        )
        return str(self.state().transaction_state)

    def read(self) -> list[bytes | None]:
        """Return all records that are not aborted, up to the last stable offset."""
        data = self.wire.fetch(self.topic, isolation_level=READ_COMMITTED)
        found = self.wire.records(self.topic, isolation_level=READ_COMMITTED) if data.records else []
        assert not data.aborted_transactions
        return [record.value for record in found if record.key is None]


@pytest.fixture
def two_phase_wire(two_phase_cluster: Cluster) -> Iterator[Wire]:
    with Wire(two_phase_cluster.bootstrap_servers) as connection:
        connection.ask(FindCoordinatorRequest(key_type=1, coordinator_keys=["x"]))
        yield connection


@pytest.fixture(params=[1, 2])
def txn(wire: Wire, request: pytest.FixtureRequest) -> Txn:
    wire.ask(FindCoordinatorRequest(key_type=1, coordinator_keys=["x"]))
    return Txn(wire, request.param)


def begin(txn: Txn, value: bytes) -> None:
    """Write the first batch; in version 1, add the partition before."""
    if txn.version == 1:
        limit = time.monotonic() + 10
        while txn.add(0) == [ErrorCode.CONCURRENT_TRANSACTIONS]:
            assert time.monotonic() < limit
    assert txn.produce(value) == ErrorCode.NONE


def test_every_end_can_be_repeated(txn: Txn) -> None:
    assert txn.init() == ErrorCode.NONE
    begin(txn, b"one")
    epoch, sequence = txn.epoch, txn.sequence
    assert txn.end(True) == ErrorCode.NONE
    assert txn.until_complete() == "CompleteCommit"
    assert txn.end(True, epoch=epoch) == ErrorCode.NONE
    assert txn.end(False, epoch=epoch) == ErrorCode.INVALID_TXN_STATE
    if txn.version == 1:
        txn.sequence = sequence
    begin(txn, b"two")
    assert txn.end(True) == ErrorCode.NONE
    txn.until_complete()
    assert txn.read() == [b"one", b"two"]


def test_a_batch_without_a_transaction_is_rejected(txn: Txn) -> None:
    assert txn.init() == ErrorCode.NONE
    if txn.version == 1:
        assert txn.produce(b"x") == ErrorCode.INVALID_TXN_STATE
        assert txn.produce(b"x", version=11) == ErrorCode.TRANSACTION_ABORTABLE
    begin(txn, b"one")
    assert txn.end(True) == ErrorCode.NONE
    txn.until_complete()
    # Late: in version 1 it has the epoch of the next transaction, in version 2 it is fenced.
    late = txn.epoch if txn.version == 1 else txn.epoch - 1
    wanted = ErrorCode.INVALID_TXN_STATE if txn.version == 1 else ErrorCode.INVALID_PRODUCER_EPOCH
    assert txn.produce(b"late", epoch=late, sequence=1) == wanted
    assert txn.read() == [b"one"]
    assert txn.wire.list_offsets(txn.topic, -1, isolation_level=READ_COMMITTED).offset == 2


def test_other_producers_are_rejected(txn: Txn) -> None:
    assert txn.init() == ErrorCode.NONE
    version = V1_PRODUCE if txn.version == 1 else V2_PRODUCE
    assert txn.produce(b"x", name=None, version=version) == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert txn.produce(b"x", name="somebody else") == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert txn.produce(b"x", epoch=txn.epoch + 1) == ErrorCode.INVALID_PRODUCER_EPOCH
    begin(txn, b"one")
    old = txn.epoch
    assert txn.init() == ErrorCode.NONE
    assert txn.epoch == old + 2, "one to fence the old instance, one for the new"
    assert txn.produce(b"zombie", epoch=old, sequence=1) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert txn.end(True, epoch=old) == ErrorCode.PRODUCER_FENCED
    begin(txn, b"two")
    assert txn.end(True) == ErrorCode.NONE
    txn.until_complete()
    data = txn.wire.fetch(txn.topic, isolation_level=READ_COMMITTED)
    assert [(each.producer_id, each.first_offset) for each in data.aborted_transactions] == [(txn.id, 0)]


def test_open_transactions_limit_read_committed(txn: Txn) -> None:
    assert txn.init() == ErrorCode.NONE
    begin(txn, b"one")
    wire = txn.wire
    assert wire.produce(txn.topic, batch_of(b"plain")).error_code == 0
    data = wire.fetch(txn.topic, isolation_level=READ_COMMITTED)
    assert (data.last_stable_offset, data.high_watermark, len(data.records)) == (0, 2, 0)
    assert wire.list_offsets(txn.topic, -1, isolation_level=READ_COMMITTED).offset == 0
    assert wire.list_offsets(txn.topic, -1).offset == 2
    (described,) = (
        wire.ask(DescribeProducersRequest(topics=[TopicRequest(name=txn.topic, partition_indexes=[0])]))
        .topics[0]
        .partitions
    )
    (producer,) = described.active_producers
    assert (producer.producer_id, producer.producer_epoch) == (txn.id, txn.epoch)
    assert producer.current_txn_start_offset == 0
    assert txn.end(True) == ErrorCode.NONE
    txn.until_complete()
    assert txn.read() == [b"one", b"plain"]
    assert wire.list_offsets(txn.topic, -1, isolation_level=READ_COMMITTED).offset == 3


def test_markers_of_an_old_coordinator_are_rejected(txn: Txn) -> None:
    assert txn.init() == ErrorCode.NONE
    begin(txn, b"one")
    topics = [markers.WritableTxnMarkerTopic(name=txn.topic, partition_indexes=[0, 9])]

    def write(coordinator_epoch: int, committed: bool) -> list[ErrorCode]:
        marker = markers.WritableTxnMarker(
            producer_id=txn.id,
            producer_epoch=txn.epoch + 1,
            transaction_result=committed,
            topics=topics,
            coordinator_epoch=coordinator_epoch,
            transaction_version=txn.version,
        )
        (answer,) = txn.wire.ask(markers.WriteTxnMarkersRequest(markers=[marker])).markers
        return [ErrorCode(each.error_code) for each in answer.topics[0].partitions]

    assert write(5, False) == [ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert write(4, True)[0] == ErrorCode.TRANSACTION_COORDINATOR_FENCED
    data = txn.wire.fetch(txn.topic, isolation_level=READ_COMMITTED)
    assert [each.first_offset for each in data.aborted_transactions] == [0]
    assert txn.produce(b"late", sequence=1) == ErrorCode.INVALID_PRODUCER_EPOCH


def test_offsets_wait_for_the_end(txn: Txn) -> None:
    group = f"group-{uuid.uuid4().hex[:8]}"
    txn.wire.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=[group]))
    assert txn.init() == ErrorCode.NONE

    def commit(version: int, epoch: int) -> ErrorCode:
        part = offsets.TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=1)
        request = offsets.TxnOffsetCommitRequest(
            transactional_id=txn.name,
            group_id=group,
            producer_id=txn.id,
            producer_epoch=epoch,
            topics=[offsets.TxnOffsetCommitRequestTopic(name=txn.topic, partitions=[part])],
        )
        return ErrorCode(txn.wire.ask(request, version).topics[0].partitions[0].error_code)

    version = 3 if txn.version == 1 else 5
    if txn.version == 1:
        assert commit(3, txn.epoch) == ErrorCode.INVALID_TXN_STATE
        assert commit(4, txn.epoch) == ErrorCode.TRANSACTION_ABORTABLE
        request = AddOffsetsToTxnRequest(
            transactional_id=txn.name, producer_id=txn.id, producer_epoch=txn.epoch, group_id=group
        )
        assert txn.wire.ask(request).error_code == 0
    assert commit(version, txn.epoch) == ErrorCode.NONE
    assert commit(version, txn.epoch) == ErrorCode.NONE
    old = txn.epoch
    assert txn.init() == ErrorCode.NONE
    assert commit(version, old) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert txn.end(False) in (ErrorCode.NONE, ErrorCode.INVALID_TXN_STATE)


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        (None, 2),
        ("", 2),
        ("list:one", 1),
        ("list.*", 2),
        ("l[a-z]+:(one|two)", 2),
        ("[^/]*:two", 1),
        ("nothing", 0),
        ("(a+)+$", 0),
    ],
)
def test_transactions_are_listed(wire: Wire, pattern: str | None, found: int) -> None:
    wire.ask(FindCoordinatorRequest(key_type=1, coordinator_keys=["x"]))
    for name in ("list:one", "list:two"):
        Txn(wire, name=name).init()
    answer = wire.ask(
        ListTransactionsRequest(transactional_id_pattern=pattern, state_filters=["Empty", "Odd"])
    )
    assert answer.error_code == 0 and answer.unknown_state_filters == ["Odd"]
    names = [each.transactional_id for each in answer.transaction_states]
    assert len([name for name in names if name.startswith("list:")]) == found


def test_an_invalid_pattern(wire: Wire) -> None:
    wire.ask(FindCoordinatorRequest(key_type=1, coordinator_keys=["x"]))
    answer = wire.ask(ListTransactionsRequest(transactional_id_pattern="(("))
    assert answer.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION


def highest_version(wire: Wire, api_key: int) -> int:
    (found,) = [api for api in wire.ask(ApiVersionsRequest(), 0).api_keys if api.api_key == api_key]
    return int(found.max_version)


def test_two_phase_commit_is_off_unless_it_is_allowed(wire: Wire, two_phase_wire: Wire) -> None:
    assert highest_version(wire, 22) == 5
    assert highest_version(two_phase_wire, 22) == 6


@pytest.mark.parametrize("committed", [True, False])
def test_a_prepared_transaction_is_ended_by_the_next_instance(two_phase_wire: Wire, committed: bool) -> None:
    first = Txn(two_phase_wire, 2)
    assert first.init(version=6, enable2_pc=True) == ErrorCode.NONE
    begin(first, b"prepared")
    prepared = (first.id, first.epoch)
    # The first instance is gone. The next one finds the prepared transaction and ends it.
    second = first
    assert second.init(version=6, enable2_pc=True, keep_prepared_txn=True) == ErrorCode.NONE
    answer = second.answer
    assert (answer.ongoing_txn_producer_id, answer.ongoing_txn_producer_epoch) == prepared
    assert second.produce(b"more", sequence=0) != ErrorCode.NONE
    assert second.end(committed) == ErrorCode.NONE
    assert second.until_complete() == ("CompleteCommit" if committed else "CompleteAbort")
    begin(second, b"next")
    assert second.end(True) == ErrorCode.NONE
    second.until_complete()
    data = two_phase_wire.fetch(second.topic, isolation_level=READ_COMMITTED)
    assert bool(data.aborted_transactions) is not committed
