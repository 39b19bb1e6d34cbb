"""Transactions of our producer with brokers that misbehave: what was lost is not committed, and the next
transaction begins on firm ground."""

from __future__ import annotations

import asyncio

import pytest

from ottla.client import (
    ClientError,
    ClusterClient,
    Producer,
    ProducerFencedError,
    TransactionFailedError,
)
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages import (
    add_partitions_to_txn_response,
    api_versions_response,
    end_txn_response,
    find_coordinator_response,
    init_producer_id_response,
)
from ottla.records.batch import iter_headers


class Coordinator:
    """Makes a coordinator of a stub broker; `refusals` are the next error codes of an API."""

    def __init__(self, stub, version):
        self.stub = stub
        self.version = version
        self.epoch = -1
        self.refusals = {}
        self.log = []
        self._answer, self._versions = stub.answer, stub.api_versions
        stub.answer, stub.api_versions = self.answer, self.api_versions
        stub.add_topic("t", 2)

    def api_versions(self, error=0):
        found = self._versions(error)
        key = api_versions_response.FinalizedFeatureKey
        found.finalized_features = [key(name="transaction.version", max_version_level=self.version)]
        return found

    async def answer(self, name, request):
        mine = {
            "FindCoordinator": self.find,
            "InitProducerId": self.init,
            "AddPartitionsToTxn": self.add,
            "EndTxn": self.end,
        }
        if name in ("InitProducerId", "AddPartitionsToTxn", "EndTxn"):
            self.log.append(name)
        if name not in mine or self.stub.plans[name]:
            return await self._answer(name, request)
        codes = self.refusals.get(name)
        return mine[name](request, codes.pop(0) if codes else 0)

    def find(self, request, code):
        wire = find_coordinator_response
        assert request.key_type == 1
        row = wire.Coordinator(key="x", node_id=1, host="127.0.0.1", port=self.stub.port, error_code=code)
        return wire.FindCoordinatorResponse(coordinators=[row])

    def init(self, request, code):
        self.epoch += not code
        return init_producer_id_response.InitProducerIdResponse(
            producer_id=7, producer_epoch=self.epoch, error_code=code
        )

    def add(self, request, code):
        wire = add_partitions_to_txn_response
        return wire.AddPartitionsToTxnResponse(
            results_by_topic_v3_and_below=[
                wire.AddPartitionsToTxnTopicResult(
                    name=topic.name,
                    results_by_partition=[
                        wire.AddPartitionsToTxnPartitionResult(
                            partition_index=index, partition_error_code=code
                        )
                        for index in topic.partitions
                    ],
                )
                for topic in request.v3_and_below_topics
            ]
        )

    def end(self, request, code):
        if self.version < 2 or code:
            return end_txn_response.EndTxnResponse(error_code=code)
        self.epoch += 1
        return end_txn_response.EndTxnResponse(producer_id=7, producer_epoch=self.epoch)

    def epochs(self):
        """Of the batches of partition 0, with their first sequence numbers."""
        headers = [header for batch in self.stub.logs["t", 0] for _, header in iter_headers(batch)]
        assert all(header.is_transactional for header in headers)
        return [(header.producer_epoch, header.base_sequence) for header in headers]


BOTH = pytest.mark.parametrize("version", [1, 2])


def producer_of(stub, **options):
    cluster = ClusterClient(
        stub.bootstrap, retry_backoff_ms=5, retry_backoff_max_ms=20, retry_timeout_ms=2_000
    )
    return cluster, Producer(cluster, transactional_id="x", linger_ms=0, **options)


def run_with(with_stub, version, scenario, **options):
    async def whole(stub):
        coordinator = Coordinator(stub, version)
        # As a real log does: every epoch has sequence numbers of its own.
        plain = stub.append

        def append(topic, partition, data):
            ((_, header),) = iter_headers(data)
            if header.base_sequence == 0:
                stub.sequences.pop((topic, partition, header.producer_id), None)
            return plain(topic, partition, data)

        stub.append = append
        cluster, producer = producer_of(stub, **options)
        async with cluster, producer:
            await scenario(stub, coordinator, producer)

    with_stub(whole)


@BOTH
def test_versions_differ_in_who_adds_and_in_epochs(with_stub, version):
    async def scenario(stub, coordinator, producer):
        for _ in range(2):
            async with producer.transaction():
                await producer.send("t", b"x", partition=0)
        if version == 1:
            one = ["AddPartitionsToTxn", "EndTxn"]
            assert coordinator.log == ["InitProducerId", *one, *one]
            assert coordinator.epochs() == [(0, 0), (0, 1)]
        else:
            assert coordinator.log == ["InitProducerId", "EndTxn", "EndTxn"]
            assert coordinator.epochs() == [(0, 0), (1, 0)]

    run_with(with_stub, version, scenario)


@BOTH
def test_what_is_not_delivered_in_time_fails_the_transaction(with_stub, version):
    async def scenario(stub, coordinator, producer):
        async with producer.transaction():
            await producer.send("t", b"before", partition=0)
        stub.plans["Produce"].extend([lambda request: stub.produce(request, error=19)] * 1000)
        await producer.begin_transaction()
        await producer.send("t", b"lost", partition=0)
        await producer.send("t", b"with it", partition=1)
        with pytest.raises(TransactionFailedError, match="NOT_ENOUGH_REPLICAS") as caught:
            await producer.commit_transaction()
        assert caught.value.__cause__.code == ErrorCode.NOT_ENOUGH_REPLICAS
        with pytest.raises(TransactionFailedError):
            await producer.send("t", b"more", partition=0)
        stub.plans["Produce"].clear()
        coordinator.log.clear()
        await producer.abort_transaction()
        # Whether it arrived is not known: only a new epoch makes the next sequence number sure.
        assert coordinator.log == (["EndTxn", "InitProducerId"] if version == 1 else ["EndTxn"])
        async with producer.transaction():
            await producer.send("t", b"after", partition=0)
        assert coordinator.epochs()[-1] == (coordinator.epoch - (version == 2), 0)
        assert [record.value for record in stub.records("t")] == [b"before", b"after"]

    run_with(with_stub, version, scenario, delivery_timeout_ms=100)


@BOTH
@pytest.mark.parametrize("code", [ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH])
def test_who_is_fenced_stays_so(with_stub, version, code):
    async def scenario(stub, coordinator, producer):
        coordinator.refusals["EndTxn"] = [code]
        await producer.begin_transaction()
        await producer.send("t", b"x", partition=0)
        for step in (producer.commit_transaction, producer.abort_transaction, producer.begin_transaction):
            with pytest.raises(ProducerFencedError):
                await step()
        assert coordinator.log.count("EndTxn") == 1

    run_with(with_stub, version, scenario)


@BOTH
def test_answers_that_pass_are_asked_for_again(with_stub, version):
    async def scenario(stub, coordinator, producer):
        coordinator.refusals = {
            "FindCoordinator": [ErrorCode.COORDINATOR_NOT_AVAILABLE],
            "InitProducerId": [ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS],
            "AddPartitionsToTxn": [ErrorCode.CONCURRENT_TRANSACTIONS],
            "EndTxn": [ErrorCode.NOT_COORDINATOR, ErrorCode.CONCURRENT_TRANSACTIONS],
        }
        stub.plans["EndTxn"].append(stub.CLOSE)
        async with producer.transaction():
            await producer.send("t", b"x", partition=0)
        assert coordinator.log.count("EndTxn") == 4
        assert len(stub.records("t")) == 1

    run_with(with_stub, version, scenario)


@BOTH
def test_a_commit_without_an_answer_is_not_aborted_but_asked_for_again(with_stub, version):
    async def scenario(stub, coordinator, producer):
        await producer.begin_transaction()
        await producer.send("t", b"x", partition=0)
        stub.plans["EndTxn"].extend([stub.CLOSE] * 1000)
        producer.cluster.core.options = producer.cluster.options.changed(retry_timeout_ms=100)
        with pytest.raises(ClientError):
            await producer.commit_transaction()
        with pytest.raises(ClientError, match="may be committed already"):
            await producer.abort_transaction()
        stub.plans["EndTxn"].clear()
        await producer.commit_transaction()
        async with producer.transaction():
            await producer.send("t", b"next", partition=0)

    run_with(with_stub, version, scenario)


def test_an_abort_of_what_the_coordinator_never_heard_of(with_stub):
    async def scenario(stub, coordinator, producer):
        stub.plans["AddPartitionsToTxn"].extend([stub.CLOSE] * 1000)
        producer.cluster.core.options = producer.cluster.options.changed(retry_timeout_ms=100)
        await producer.begin_transaction()
        await producer.send("t", b"x", partition=0)
        with pytest.raises(TransactionFailedError):
            await producer.commit_transaction()
        stub.plans["AddPartitionsToTxn"].clear()
        coordinator.refusals["EndTxn"] = [ErrorCode.INVALID_TXN_STATE]
        await producer.abort_transaction()
        async with producer.transaction():
            await producer.send("t", b"next", partition=0)
        assert [record.value for record in stub.records("t")] == [b"next"]

    run_with(with_stub, 1, scenario, delivery_timeout_ms=300)


@BOTH
def test_a_refused_record_fails_all_of_it(with_stub, version):
    async def scenario(stub, coordinator, producer):
        stub.plans["Produce"].append(lambda request: stub.produce(request, error=ErrorCode.MESSAGE_TOO_LARGE))
        with pytest.raises(TransactionFailedError, match="MESSAGE_TOO_LARGE"):
            async with producer.transaction():
                delivery = await producer.send("t", b"large", partition=0)
        with pytest.raises(ClientError):
            await delivery
        async with producer.transaction():
            await producer.send("t", b"small", partition=0)
        assert [record.value for record in stub.records("t")] == [b"small"]

    run_with(with_stub, version, scenario)


@BOTH
def test_a_cancelled_transaction_is_aborted(with_stub, version):
    async def scenario(stub, coordinator, producer):
        async def endless():
            async with producer.transaction():
                await (await producer.send("t", b"x", partition=0))
                await asyncio.sleep(60)

        task = asyncio.create_task(endless())
        while not stub.records("t"):
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        ended = stub.asked("EndTxn")
        assert [request.committed for request in ended] == [False]
        async with producer.transaction():
            pass

    run_with(with_stub, version, scenario)


@BOTH
@pytest.mark.parametrize("end", ["commit", "abort"])
def test_nothing_more_is_sent_of_what_will_be_aborted(with_stub, version, end):
    async def scenario(stub, coordinator, producer):
        answering = asyncio.Event()

        async def slowly(request):
            await answering.wait()
            return stub.produce(request, error=ErrorCode.MESSAGE_TOO_LARGE)

        plain = stub.answer

        async def answer(name, request):
            return await (slowly(request) if name == "Produce" else plain(name, request))

        stub.answer = answer
        await producer.begin_transaction()
        for number in range(5):
            await producer.send("t", b"%d" % number, partition=0)
        while not stub.asked("Produce"):
            await asyncio.sleep(0.01)
        if end == "abort":
            ending = asyncio.create_task(producer.abort_transaction())
            await asyncio.sleep(0.01)
            answering.set()
            await ending
        else:
            answering.set()
            with pytest.raises(TransactionFailedError):
                await producer.commit_transaction()
            await producer.abort_transaction()
        assert len(stub.asked("Produce")) == 1
        assert producer._buffered_bytes == 0

    run_with(with_stub, version, scenario, batch_bytes=1)
