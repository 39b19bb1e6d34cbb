"""Markers on their way: batched by broker, one request at a time, again until all partitions have them."""

from __future__ import annotations

from random import Random

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.write_txn_markers_response import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersResponse,
)
from ottla.transactions import marker_queue
from ottla.transactions.marker_queue import ABSENT_MS, NO_LEADER, MarkerQueue, MarkerRequest
from ottla.transactions.markers import Markers, TopicPartition

OWNER = 3


def markers(producer_id: int, *partitions: TopicPartition, committed: bool = True) -> Markers:
    return Markers(
        f"t{producer_id}",
        producer_id,
        1,
        committed=committed,
        coordinator_epoch=4,
        transaction_version=2,
        partitions=[*partitions],
    )


def shown(request: MarkerRequest) -> list[tuple[int, list[tuple[str, list[int]]]]]:
    message = type(request.message).decode(2, request.message.encode(2))
    return [
        (each.producer_id, [(topic.name, topic.partition_indexes) for topic in each.topics])
        for each in message.markers
    ]


def answer(
    request: MarkerRequest, codes: dict[tuple[int, str, int], ErrorCode] | None = None
) -> WriteTxnMarkersResponse:
    return WriteTxnMarkersResponse(
        markers=[
            WritableTxnMarkerResult(
                producer_id=each.producer_id,
                topics=[
                    WritableTxnMarkerTopicResult(
                        name=topic.name,
                        partitions=[
                            WritableTxnMarkerPartitionResult(
                                partition_index=index,
                                error_code=(codes or {}).get((each.producer_id, topic.name, index), 0),
                            )
                            for index in topic.partition_indexes
                        ],
                    )
                    for topic in each.topics
                ],
            )
            for each in request.message.markers
        ]
    )


class Leaders:
    def __init__(self, **leaders: int | None) -> None:
        self.by_topic = leaders

    def __call__(self, topic: str, partition: int) -> int | None:
        return self.by_topic.get(topic)


def done(queue: MarkerQueue) -> list[int]:
    return [each.producer_id for _, each in queue.take_done()]


def test_markers_go_to_each_leader_and_are_done_when_all_have_them() -> None:
    queue = MarkerQueue(Leaders(a=1, b=2))
    queue.add(OWNER, markers(10, ("a", 0), ("b", 0), ("a", 1)), 0)
    first, second = queue.take_requests(0)
    assert (first.broker_id, shown(first)) == (1, [(10, [("a", [0, 1])])])
    assert (second.broker_id, shown(second)) == (2, [(10, [("b", [0])])])
    marker = second.message.markers[0]
    assert (marker.producer_epoch, marker.transaction_result) == (1, True)
    assert (marker.coordinator_epoch, marker.transaction_version) == (4, 2)
    queue.answered(first, answer(first), 5)
    assert done(queue) == []
    queue.answered(second, answer(second), 6)
    assert done(queue) == [10]
    assert (len(queue), queue.take_requests(7), queue.next_wake_ms) == (0, [], None)


def test_markers_that_come_during_a_request_are_batched() -> None:
    queue = MarkerQueue(Leaders(a=1))
    for producer_id in range(4):
        queue.add(OWNER, markers(producer_id, ("a", producer_id)), 0)
        if producer_id == 0:
            (first,) = queue.take_requests(0)
    assert queue.take_requests(0) == []
    queue.answered(first, answer(first), 1)
    (second,) = queue.take_requests(1)
    assert [producer_id for producer_id, _ in shown(second)] == [1, 2, 3]


def test_a_moved_leader_and_a_lost_connection_are_tried_again_later_and_elsewhere() -> None:
    leaders = Leaders(a=1)
    queue = MarkerQueue(leaders)
    queue.add(OWNER, markers(10, ("a", 0), ("a", 1)), 0)
    (request,) = queue.take_requests(0)
    queue.answered(request, answer(request, {(10, "a", 1): ErrorCode.NOT_LEADER_OR_FOLLOWER}), 100)
    leaders.by_topic["a"] = 2
    assert queue.take_requests(100) == []
    assert queue.next_wake_ms == 120
    (request,) = queue.take_requests(120)
    assert (request.broker_id, shown(request)) == (2, [(10, [("a", [1])])])
    # It has failures: each wait is longer, up to a second.
    waits = []
    now_ms = 120
    for _ in range(8):
        queue.failed(request, now_ms)
        wake_ms = queue.next_wake_ms
        assert wake_ms is not None
        waits.append(wake_ms - now_ms)
        now_ms = wake_ms
        (request,) = queue.take_requests(now_ms)
    assert waits == [40, 80, 160, 320, 640, 1000, 1000, 1000]
    queue.answered(request, answer(request), now_ms)
    assert done(queue) == [10]


def test_an_answer_that_leaves_something_out_is_not_taken_for_success() -> None:
    queue = MarkerQueue(Leaders(a=1))
    queue.add(OWNER, markers(10, ("a", 0)), 0)
    (request,) = queue.take_requests(0)
    queue.answered(request, WriteTxnMarkersResponse(), 0)
    assert (done(queue), len(queue)) == ([], 1)


def test_a_partition_without_a_leader_is_waited_for() -> None:
    leaders = Leaders(a=NO_LEADER)
    queue = MarkerQueue(leaders)
    queue.add(OWNER, markers(10, ("a", 0)), 0)
    assert queue.take_requests(0) == []
    for now_ms in range(0, 100_000, 500):
        assert queue.take_requests(now_ms) == []
    leaders.by_topic["a"] = 5
    queue.leaders_changed(100_000)
    (request,) = queue.take_requests(100_000)
    assert request.broker_id == 5


def test_markers_for_a_dead_broker_follow_the_leader() -> None:
    leaders = Leaders(a=1)
    queue = MarkerQueue(leaders)
    queue.add(OWNER, markers(10, ("a", 0)), 0)
    (stuck,) = queue.take_requests(0)
    queue.add(OWNER, markers(11, ("a", 1)), 0)
    assert queue.take_requests(0) == []
    leaders.by_topic["a"] = 2
    queue.leaders_changed(10)
    (request,) = queue.take_requests(10)
    assert (request.broker_id, shown(request)) == (2, [(11, [("a", [1])])])
    queue.failed(stuck, 30_000)
    queue.answered(request, answer(request), 30_000)
    (request,) = queue.take_requests(30_020)
    assert (request.broker_id, shown(request)) == (2, [(10, [("a", [0])])])


def test_a_partition_that_does_not_exist_is_left_out_but_not_at_once() -> None:
    leaders = Leaders(a=1, gone=None)
    queue = MarkerQueue(leaders)
    queue.add(OWNER, markers(10, ("gone", 0), ("a", 0)), 0)
    queue.add(OWNER, markers(11, ("late", 0)), 0)
    (request,) = queue.take_requests(0)
    queue.answered(request, answer(request), 0)
    now_ms = 0
    requests = []
    while (wake_ms := queue.next_wake_ms) is not None and wake_ms < ABSENT_MS:
        now_ms = wake_ms
        requests += queue.take_requests(now_ms)
        if now_ms > ABSENT_MS // 2:
            leaders.by_topic["late"] = 1  # metadata lagged
    assert done(queue) == []
    (request,) = requests
    assert shown(request) == [(11, [("late", [0])])]
    queue.answered(request, answer(request), now_ms)
    assert done(queue) == [11]
    queue.take_requests(ABSENT_MS + 1_000)
    assert done(queue) == [10]


def test_a_later_coordinator_does_the_rest() -> None:
    queue = MarkerQueue(Leaders(a=1, b=2))
    queue.add(OWNER, markers(10, ("a", 0), ("b", 0)), 0)
    queue.add(OWNER, markers(11, ("a", 0)), 0)
    first, second = queue.take_requests(0)
    queue.answered(first, answer(first, {(10, "a", 0): ErrorCode.TRANSACTION_COORDINATOR_FENCED}), 0)
    queue.failed(second, 0)
    assert done(queue) == [11]
    assert (len(queue), queue.take_requests(60_000)) == (0, [])


def test_where_a_later_epoch_was_seen_the_transaction_is_over() -> None:
    queue = MarkerQueue(Leaders(a=1))
    queue.add(OWNER, markers(10, ("a", 0)), 0)
    (request,) = queue.take_requests(0)
    queue.answered(request, answer(request, {(10, "a", 0): ErrorCode.INVALID_PRODUCER_EPOCH}), 0)
    assert done(queue) == [10]


def test_a_dropped_owner_hears_nothing_and_may_come_again() -> None:
    queue = MarkerQueue(Leaders(a=1, b=NO_LEADER))
    queue.add(OWNER, markers(10, ("a", 0)), 0)
    queue.add(9, markers(20, ("a", 0)), 0)
    (request,) = queue.take_requests(0)
    queue.add(OWNER, markers(11, ("a", 0)), 0)
    queue.add(OWNER, markers(12, ("b", 0)), 0)
    queue.drop(OWNER)
    # The same transaction from the new coordinator while the old marker is in flight.
    queue.add(OWNER, markers(10, ("a", 0)), 0)
    queue.answered(request, answer(request), 0)
    assert done(queue) == [20]
    (request,) = queue.take_requests(60_000)
    assert shown(request) == [(10, [("a", [0])])]
    queue.answered(request, answer(request), 60_000)
    queue.drop(OWNER)
    assert done(queue) == []
    assert len(queue) == 0


def test_one_producer_has_one_marker_in_a_request() -> None:
    queue = MarkerQueue(Leaders(a=1))
    queue.add(1, markers(10, ("a", 0), committed=True), 0)
    queue.add(2, markers(10, ("a", 0), committed=False), 0)
    (request,) = queue.take_requests(0)
    assert len(request.message.markers) == 1
    queue.answered(request, answer(request), 0)
    (request,) = queue.take_requests(0)
    assert [each.transaction_result for each in request.message.markers] == [False]


def test_requests_have_a_largest_size() -> None:
    most = marker_queue.REQUEST_PARTITIONS_MAX
    queue = MarkerQueue(Leaders(a=1))
    queue.add(OWNER, markers(10, *(("a", index) for index in range(most + 1))), 0)
    queue.add(OWNER, markers(11, ("a", 0)), 0)
    (request,) = queue.take_requests(0)
    assert [(each, len(topics[0][1])) for each, topics in shown(request)] == [(10, most)]
    queue.answered(request, answer(request), 0)
    (request,) = queue.take_requests(0)
    assert shown(request) == [(10, [("a", [most])]), (11, [("a", [0])])]
    queue.answered(request, answer(request), 0)
    assert done(queue) == [10, 11]


class Brokers:
    """Leaders that move, responses that are lost. `written` is what is in the logs."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.leaders: dict[TopicPartition, int] = {("t", index): 1 for index in range(6)}
        self.queue = MarkerQueue(lambda topic, index: self.leaders[topic, index])
        self.written: dict[tuple[int, TopicPartition], None] = {}
        self.wanted: dict[int, Markers] = {}
        self.finished: list[int] = []
        self.under_way: list[MarkerRequest] = []
        self.now_ms = 0

    def disturb(self, step: int) -> None:
        random = self.random
        if random.random() < 0.4:
            self.wanted[step] = markers(step, *random.sample([*self.leaders], random.randrange(1, 5)))
            self.queue.add(OWNER, self.wanted[step], self.now_ms)
        if random.random() < 0.2:
            self.leaders[random.choice([*self.leaders])] = random.choice([1, 2, 3, NO_LEADER])
            if random.random() < 0.5:
                self.queue.leaders_changed(self.now_ms)

    def deliver(self, losses: float) -> None:
        self.under_way += self.queue.take_requests(self.now_ms)
        assert len({each.broker_id for each in self.under_way}) == len(self.under_way)
        for request in [*self.under_way]:
            if self.random.random() < losses:
                continue
            self.under_way.remove(request)
            codes = {}
            for each in request.message.markers:
                for index in each.topics[0].partition_indexes:
                    if self.leaders["t", index] == request.broker_id:
                        self.written[each.producer_id, ("t", index)] = None
                    else:
                        codes[each.producer_id, "t", index] = ErrorCode.NOT_LEADER_OR_FOLLOWER
            if self.random.random() < losses:
                self.queue.failed(request, self.now_ms)
            else:
                self.queue.answered(request, answer(request, codes), self.now_ms)

    def check(self) -> None:
        for producer_id in done(self.queue):
            self.finished.append(producer_id)
            for each in self.wanted[producer_id].partitions:
                assert (producer_id, each) in self.written


def test_after_any_failures_all_partitions_have_their_marker() -> None:
    for seed in range(150):
        brokers = Brokers(seed)
        for step in range(120):
            brokers.now_ms += brokers.random.choice([0, 10, 100, 2_000])
            if step < 80:
                brokers.disturb(step)
            else:
                brokers.leaders.update(dict.fromkeys(brokers.leaders, 2))
            brokers.deliver(0.3 if step < 80 else 0.0)
            brokers.check()
        assert sorted(brokers.finished) == sorted(brokers.wanted), seed
        assert len(brokers.queue) == 0
