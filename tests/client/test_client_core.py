"""The core without I/O: a scripted driver and a clock that the test moves."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest

from ottla.client import BrokerError, ClientOptions, ConnectionFailedError
from ottla.client.core.batches import ProducerId
from ottla.client.core.cluster import ClusterCore
from ottla.client.core.delivery import Delivery, DeliveryLimits
from ottla.client.core.negotiation import Negotiated
from ottla.client.core.retry import Clock
from ottla.client.core.steps import Call, Pause, request_for
from ottla.client.errors import ClientError
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages import metadata_response, produce_response

LIMITS = DeliveryLimits(
    batch_bytes=100, linger_ms=10, request_bytes_max=250, requests_per_leader_max=2, spread=False
)


class FakeClock:
    def __init__(self) -> None:
        self.now_s = 100.0
        self.clock = Clock(lambda: self.now_s, lambda: 0.0)


class FakePayload:
    """A payload that records how it was sealed, and its outcome."""

    def __init__(self, size_bytes: int = 100) -> None:
        self.size_bytes = size_bytes
        self.count = 1
        self.seals: list[tuple[ProducerId | None, int]] = []
        self.outcome: object = None

    def seal(self, producer: ProducerId | None, base_sequence: int, *, transactional: bool) -> bytes:
        self.seals.append((producer, base_sequence))
        return b"batch"

    def split(self) -> list[FakePayload]:
        raise AssertionError("not too large")

    def without_refused(self, row: object) -> None:
        return None

    def delivered(self, base_offset: int, log_append_time_ms: int) -> None:
        self.outcome = base_offset

    def failed(self, error: Exception) -> None:
        self.outcome = error


def core_with(clock: Clock, partitions: int = 1, leaders: tuple[int, ...] = (1,)) -> ClusterCore:
    """A core that knows topic "t", its partitions led by the nodes of `leaders` in turn."""
    wire = metadata_response
    core = ClusterCore(ClientOptions("seed:1", retry_backoff_ms=50), clock)
    core.view.update(
        wire.MetadataResponse(
            brokers=[wire.MetadataResponseBroker(node_id=n, host=f"h{n}", port=n) for n in leaders],
            topics=[
                wire.MetadataResponseTopic(
                    name="t",
                    topic_id=b"t" * 16,
                    partitions=[
                        wire.MetadataResponsePartition(
                            partition_index=p, leader_id=leaders[p % len(leaders)], leader_epoch=3
                        )
                        for p in range(partitions)
                    ],
                )
            ],
        )
    )
    return core


def delivery_with(core: ClusterCore, **options: Any) -> Delivery:
    given = {"acks": -1, "idempotent": True, "delivery_timeout_ms": 1_000, "producer": ProducerId(7, 0)}
    return Delivery(core, LIMITS, **{**given, **options})


def produce_call(job: Generator) -> Call:
    effect = next(job)
    assert isinstance(effect, Call)
    return effect


def answer(job: Generator, call: Call, code: int = 0, base_offset: int = 0) -> None:
    wire = produce_response
    rows = [
        wire.PartitionProduceResponse(index=row.index, error_code=code, base_offset=base_offset)
        for row in call.message.topic_data[0].partition_data
    ]
    response = wire.ProduceResponse(
        responses=[wire.TopicProduceResponse(topic_id=b"t" * 16, partition_responses=rows)]
    )
    with pytest.raises(StopIteration):
        job.send(response)


def fail(job: Generator, error: ClientError) -> None:
    with pytest.raises(StopIteration):
        job.throw(error)


def test_a_batch_lingers_unless_it_is_full_or_flushed():
    time = FakeClock()
    delivery = delivery_with(core_with(time.clock))
    delivery.add(delivery.queue("t", 0), FakePayload(size_bytes=10))
    assert delivery.jobs() == []
    assert delivery.next_due_s == pytest.approx(100.010)
    delivery.flushing = 1
    assert len(delivery.jobs()) == 1
    full = delivery_with(core_with(time.clock))
    full.add(full.queue("t", 0), FakePayload(size_bytes=100))
    assert len(full.jobs()) == 1


def test_a_partition_has_one_batch_in_flight_and_a_leader_two_requests():
    time = FakeClock()
    delivery = delivery_with(core_with(time.clock, partitions=8))
    for partition in range(8):
        for _ in range(2):
            delivery.add(delivery.queue("t", partition), FakePayload())
    jobs = delivery.jobs()
    calls = [produce_call(job) for job in jobs]
    # Two batches of 100 bytes fit in a request of 250.
    assert [len(call.message.topic_data[0].partition_data) for call in calls] == [2, 2]
    assert delivery.in_flight_bytes == 400
    assert delivery.jobs() == []
    answer(jobs[0], calls[0])
    assert len(delivery.jobs()) == 1


def test_an_unanswered_batch_is_resent_unchanged_after_a_pause():
    time = FakeClock()
    core = core_with(time.clock)
    delivery = delivery_with(core)
    payload = FakePayload()
    delivery.add(delivery.queue("t", 0), payload)
    (job,) = delivery.jobs()
    first = produce_call(job)
    fail(job, ConnectionFailedError("closed"))
    assert delivery.jobs() == []
    assert delivery.next_due_s == pytest.approx(100.050)
    assert core.view.topic("t", 1e9) is None, "the metadata of a lost leader must be refreshed"
    time.now_s += 0.05
    (finding,) = delivery.jobs()
    assert produce_call(finding).response is metadata_response.MetadataResponse
    finding.close()
    core.view.update(core_metadata(core))
    (job,) = delivery.jobs()
    second = produce_call(job)
    records = [call.message.topic_data[0].partition_data[0].records for call in (first, second)]
    assert records[0] is records[1] and len(payload.seals) == 1
    answer(job, second, base_offset=9)
    assert payload.outcome == 9 and delivery.is_empty


def core_metadata(core: ClusterCore) -> metadata_response.MetadataResponse:
    wire = metadata_response
    topic = core.view.topics["t"]
    return wire.MetadataResponse(
        topics=[
            wire.MetadataResponseTopic(
                name="t",
                topic_id=topic.id,
                partitions=[
                    wire.MetadataResponsePartition(
                        partition_index=row.partition, leader_id=row.leader, leader_epoch=row.leader_epoch
                    )
                    for row in topic.partitions.values()
                ],
            )
        ]
    )


def test_sequence_numbers_continue_over_batches_and_restart_with_a_new_producer_id():
    time = FakeClock()
    delivery = delivery_with(core_with(time.clock), producer=None)
    payloads = [FakePayload() for _ in range(3)]
    for payload in payloads:
        delivery.add(delivery.queue("t", 0), payload)
    delivery._producer = ProducerId(1, 0)
    for code in (0, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER):
        (job,) = delivery.jobs()
        answer(job, produce_call(job), code)
    time.now_s += 1
    (acquiring,) = delivery.jobs()
    assert delivery.jobs() == [], "one request for a producer id at a time"
    acquiring.close()
    delivery._producer = ProducerId(2, 0)
    for _ in range(2):
        (job,) = delivery.jobs()
        answer(job, produce_call(job))
    assert [payload.seals for payload in payloads] == [
        [(ProducerId(1, 0), 0)],
        [(ProducerId(1, 0), 1), (ProducerId(2, 0), 0)],
        [(ProducerId(2, 0), 1)],
    ]


def test_nothing_is_retried_after_its_delivery_time_out():
    time = FakeClock()
    delivery = delivery_with(core_with(time.clock))
    payload = FakePayload()
    delivery.add(delivery.queue("t", 0), payload)
    (job,) = delivery.jobs()
    call = produce_call(job)
    time.now_s += 2
    answer(job, call, ErrorCode.NOT_ENOUGH_REPLICAS)
    assert isinstance(payload.outcome, BrokerError)
    assert delivery.is_empty and delivery.queued_bytes == delivery.in_flight_bytes == 0


def test_retries_pause_twice_as_long_each_time_until_the_deadline():
    time = FakeClock()
    core = core_with(time.clock)
    attempts = 0

    def attempt() -> Generator[Any, Any, None]:
        nonlocal attempts
        attempts += 1
        raise ConnectionFailedError("down")
        yield

    steps = core.retrying(attempt, timeout_ms=300)
    pauses = []
    with pytest.raises(ConnectionFailedError):
        effect = next(steps)
        while True:
            assert isinstance(effect, Pause)
            pauses.append(round(effect.ms))
            time.now_s += effect.ms / 1000
            effect = steps.send(None)
    assert pauses == [50, 100, 150] and attempts == 4


def test_requests_are_built_for_the_versions_of_the_broker_that_gets_them():
    core = core_with(FakeClock().clock)
    call = next(core.refresh(None))
    assert isinstance(call, Call)
    peer = Negotiated("h", 1, "test")
    for version, topics in ((0, []), (1, None), (3, None), (9, None)):
        peer.broker_versions = {ApiKey.METADATA: (0, version)}
        request = request_for(call.message, peer)
        assert request.topics == topics
        request.encode(peer.version_for(ApiKey.METADATA))
