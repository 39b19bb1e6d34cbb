"""Transactions with failing brokers: lost batches are not committed, and the next transaction succeeds.

Tests with a `shell` run on the asyncio and the blocking client.
"""

from __future__ import annotations

import asyncio

import pytest

from ottla.client import (
    BrokerError,
    ClientError,
    ClusterClient,
    Producer,
    ProducerFencedError,
    TransactionFailedError,
)
from ottla.protocol.errors import ErrorCode
from tests.support.client.coordinator import TransactionCoordinator
from tests.support.client.stub import StubBroker

BOTH_VERSIONS = pytest.mark.parametrize("version", [1, 2])


def run_both(shell, with_stub, version, scenario, **options):
    """Run `scenario(stub, coordinator, writer)` with a transactional writer of the shell."""

    async def whole(stub):
        stub.add_topic("t", 2)
        coordinator = TransactionCoordinator(stub, version)
        writer = shell.writer(stub.bootstrap, transactional_id="x", linger_ms=0, **options)
        try:
            await scenario(stub, coordinator, writer)
        finally:
            await writer.close()

    with_stub(whole)


def shorten_retries(writer) -> None:
    writer.core.options = writer.core.options.changed(retry_timeout_ms=100)


async def transact(writer, *values: bytes, partition: int = 0) -> None:
    await writer.begin()
    await writer.write(values, partition=partition)
    await writer.commit()


def values_in(stub, partition: int = 0) -> list[bytes]:
    return [record.value for record in stub.records("t", partition)]


@BOTH_VERSIONS
def test_versions_differ_in_announced_partitions_and_in_epochs(shell, with_stub, version):
    async def scenario(stub, coordinator, writer):
        for _ in range(2):
            await transact(writer, b"x")
        if version == 1:
            one = ["AddPartitionsToTxn", "EndTxn"]
            assert coordinator.log == ["InitProducerId", *one, *one]
            assert coordinator.epochs() == [(0, 0), (0, 1)]
        else:
            assert coordinator.log == ["InitProducerId", "EndTxn", "EndTxn"]
            assert coordinator.epochs() == [(0, 0), (1, 0)]
        assert {request.transactional_id for request in stub.asked("Produce")} == {"x"}
        versions = {version for name, version, _ in stub.requests if name == "Produce"}
        assert all((number >= 12) == (version == 2) for number in versions)

    run_both(shell, with_stub, version, scenario)


@BOTH_VERSIONS
def test_an_empty_transaction_needs_no_request(shell, with_stub, version):
    async def scenario(stub, coordinator, writer):
        for end in (writer.commit, writer.abort):
            await writer.begin()
            await end()
        assert coordinator.log == ["InitProducerId"]

    run_both(shell, with_stub, version, scenario)


@BOTH_VERSIONS
def test_aborted_records_are_followed_by_a_clean_transaction(shell, with_stub, version):
    async def scenario(stub, coordinator, writer):
        await writer.begin()
        await writer.write([b"dropped"], partition=0)
        await writer.flush()
        await writer.abort()
        assert [request.committed for request in stub.asked("EndTxn")] == [False]
        await transact(writer, b"kept")
        assert [request.committed for request in stub.asked("EndTxn")] == [False, True]
        assert coordinator.epochs()[-1] == ((0, 1) if version == 1 else (1, 0))

    run_both(shell, with_stub, version, scenario)


@BOTH_VERSIONS
def test_what_is_not_delivered_in_time_fails_the_transaction(shell, with_stub, version):
    async def scenario(stub, coordinator, writer):
        await transact(writer, b"before")
        stub.plans["Produce"].extend([lambda request: stub.produce(request, error=19)] * 1000)
        await writer.begin()
        await writer.write([b"lost"], partition=0)
        await writer.write([b"with it"], partition=1)
        with pytest.raises(ClientError, match="NOT_ENOUGH_REPLICAS") as caught:
            await writer.commit()
        cause = caught.value if isinstance(caught.value, BrokerError) else caught.value.__cause__
        assert isinstance(cause, BrokerError) and cause.code == ErrorCode.NOT_ENOUGH_REPLICAS
        with pytest.raises(TransactionFailedError):
            await writer.write([b"more"], partition=0)
        stub.plans["Produce"].clear()
        coordinator.log.clear()
        await writer.abort()
        # It is unknown whether it was written: only a new epoch resets the sequence number.
        assert coordinator.log == (["EndTxn", "InitProducerId"] if version == 1 else ["EndTxn"])
        await transact(writer, b"after")
        assert coordinator.epochs()[-1] == (coordinator.epoch - (version == 2), 0)
        assert values_in(stub) == [b"before", b"after"]

    run_both(shell, with_stub, version, scenario, delivery_timeout_ms=100)


@BOTH_VERSIONS
def test_an_aborted_batch_that_may_have_been_written_keeps_its_sequence_number(shell, with_stub, version):
    """It waits for a retry. If its sequence number were reused, the next batch would count as a duplicate."""

    async def scenario(stub, coordinator, writer):
        def write_and_time_out(request):
            response = stub.produce(request)
            response.responses[0].partition_responses[0].error_code = ErrorCode.REQUEST_TIMED_OUT
            return response

        await transact(writer, b"before")
        stub.plans["Produce"].append(write_and_time_out)
        await writer.begin()
        await writer.write([b"aborted"], partition=0)
        await writer.send_and_receive(lambda: len(stub.asked("Produce")) == 2)
        coordinator.log.clear()
        await writer.abort()
        assert coordinator.log == (["EndTxn", "InitProducerId"] if version == 1 else ["EndTxn"])
        await transact(writer, b"after")
        assert coordinator.epochs()[-1] == (coordinator.epoch - (version == 2), 0)

    slow = {"retry_backoff_ms": 5_000, "retry_backoff_max_ms": 5_000}
    run_both(shell, with_stub, version, scenario, connection=slow)


@BOTH_VERSIONS
@pytest.mark.parametrize("code", [ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH])
def test_a_fenced_producer_stays_fenced(shell, with_stub, version, code):
    async def scenario(stub, coordinator, writer):
        coordinator.refusals["EndTxn"] = [code]
        await writer.begin()
        await writer.write([b"x"], partition=0)
        for step in (writer.commit, writer.abort, writer.begin):
            with pytest.raises(ProducerFencedError):
                await step()
        assert coordinator.log.count("EndTxn") == 1

    run_both(shell, with_stub, version, scenario)


@BOTH_VERSIONS
def test_retriable_answers_are_retried(shell, with_stub, version):
    async def scenario(stub, coordinator, writer):
        coordinator.refusals = {
            "FindCoordinator": [ErrorCode.COORDINATOR_NOT_AVAILABLE],
            "InitProducerId": [ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS],
            "AddPartitionsToTxn": [ErrorCode.CONCURRENT_TRANSACTIONS],
            "EndTxn": [ErrorCode.NOT_COORDINATOR, ErrorCode.CONCURRENT_TRANSACTIONS],
        }
        stub.plans["EndTxn"].append(stub.CLOSE)
        await transact(writer, b"x")
        assert coordinator.log.count("EndTxn") == 4
        assert len(stub.records("t")) == 1

    run_both(shell, with_stub, version, scenario)


@BOTH_VERSIONS
def test_a_commit_without_an_answer_is_not_aborted_but_repeated(shell, with_stub, version):
    async def scenario(stub, coordinator, writer):
        await writer.begin()
        await writer.write([b"x"], partition=0)
        stub.plans["EndTxn"].extend([stub.CLOSE] * 1000)
        shorten_retries(writer)
        with pytest.raises(ClientError):
            await writer.commit()
        with pytest.raises(ClientError, match="may be committed already"):
            await writer.abort()
        stub.plans["EndTxn"].clear()
        await writer.commit()
        await transact(writer, b"next")
        assert values_in(stub) == [b"x", b"next"]

    run_both(shell, with_stub, version, scenario)


def test_an_abort_unknown_to_the_coordinator(shell, with_stub):
    async def scenario(stub, coordinator, writer):
        stub.plans["AddPartitionsToTxn"].extend([stub.CLOSE] * 1000)
        shorten_retries(writer)
        await writer.begin()
        await writer.write([b"x"], partition=0)
        with pytest.raises(ClientError):
            await writer.commit()
        stub.plans["AddPartitionsToTxn"].clear()
        coordinator.refusals["EndTxn"] = [ErrorCode.INVALID_TXN_STATE]
        await writer.abort()
        await transact(writer, b"next")
        assert values_in(stub) == [b"next"]

    run_both(shell, with_stub, 1, scenario, delivery_timeout_ms=300)


@BOTH_VERSIONS
def test_a_refused_record_fails_the_whole_transaction(shell, with_stub, version):
    async def scenario(stub, coordinator, writer):
        stub.plans["Produce"].append(lambda request: stub.produce(request, error=ErrorCode.MESSAGE_TOO_LARGE))
        await writer.begin()
        await writer.write([b"large"], partition=0)
        with pytest.raises(ClientError, match="MESSAGE_TOO_LARGE"):
            await writer.commit()
        await writer.abort()
        await transact(writer, b"small")
        assert values_in(stub) == [b"small"]

    run_both(shell, with_stub, version, scenario)


@BOTH_VERSIONS
def test_a_batch_written_without_an_answer_is_in_the_transaction_once(shell, with_stub, version):
    async def scenario(stub, coordinator, writer):
        def write_then_close(request):
            stub.produce(request)
            return stub.CLOSE

        stub.plans["Produce"].extend([write_then_close, stub.produce, write_then_close])
        for number in range(3):
            await transact(writer, b"a%d" % number, b"b%d" % number)
        assert values_in(stub) == [b"a0", b"b0", b"a1", b"b1", b"a2", b"b2"]

    run_both(shell, with_stub, version, scenario)


@BOTH_VERSIONS
def test_the_coordinator_moves_during_a_transaction(shell, with_stub, version):
    async def scenario(stub, coordinator, writer):
        other = StubBroker(2)
        other.join(stub)
        await other.start()
        successor = TransactionCoordinator(other, version)
        await writer.begin()
        await writer.write([b"x"], partition=0)
        await writer.flush()
        successor.epoch = coordinator.epoch
        coordinator.has_moved = True
        stub.coordinators["x"] = 2
        await writer.commit()
        assert successor.log == ["EndTxn"]
        await transact(writer, b"next")
        assert values_in(stub) == [b"x", b"next"]

    run_both(shell, with_stub, version, scenario)


@pytest.mark.parametrize("step", ["write", "commit", "abort"])
def test_steps_without_a_transaction_are_refused(shell, with_stub, step):
    async def scenario(stub, coordinator, writer):
        with pytest.raises(ClientError, match=r"no transaction"):
            await (writer.write([b"x"]) if step == "write" else getattr(writer, step)())
        await writer.begin()
        with pytest.raises(ClientError, match="commit or abort it first"):
            await writer.begin()

    run_both(shell, with_stub, 2, scenario)


# The asyncio client only: cancellation, and requests in flight.


def run_producer(with_stub, version, scenario, **options):
    async def whole(stub):
        stub.add_topic("t", 2)
        coordinator = TransactionCoordinator(stub, version)
        cluster = ClusterClient(
            stub.bootstrap, retry_backoff_ms=5, retry_backoff_max_ms=20, retry_timeout_ms=2_000
        )
        async with cluster, Producer(cluster, transactional_id="x", linger_ms=0, **options) as producer:
            await scenario(stub, coordinator, producer)

    with_stub(whole)


@BOTH_VERSIONS
def test_a_failed_block_aborts_and_its_futures_fail(with_stub, version):
    async def scenario(stub, coordinator, producer):
        stub.plans["Produce"].append(lambda request: stub.produce(request, error=ErrorCode.MESSAGE_TOO_LARGE))
        with pytest.raises(TransactionFailedError, match="MESSAGE_TOO_LARGE"):
            async with producer.transaction():
                delivery = await producer.send("t", b"large", partition=0)
        with pytest.raises(ClientError):
            await delivery
        async with producer.transaction():
            await producer.send("t", b"small", partition=0)
        assert values_in(stub) == [b"small"]

    run_producer(with_stub, version, scenario)


@BOTH_VERSIONS
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

    run_producer(with_stub, version, scenario)


@BOTH_VERSIONS
@pytest.mark.parametrize("end", ["commit", "abort"])
def test_nothing_more_is_sent_of_a_transaction_that_will_be_aborted(with_stub, version, end):
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

    run_producer(with_stub, version, scenario, batch_bytes=1)
