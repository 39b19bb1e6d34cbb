"""Sends markers to the leaders of their partitions: batched by broker, and retried until all have them.

At most one request is in flight to a broker. Markers that come meanwhile go with the next request: the busier
the coordinator, the larger the requests. Failed markers wait a while and go to the leader of that time. A
marker is never dropped for lack of a leader, only
- for a partition that has not existed for a while: metadata may lag;
- where a later epoch of the producer was seen: the transaction is over there;
- all of a transaction, if a leader knows a later coordinator: that one does the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from heapq import heappop, heappush

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.write_txn_markers_request import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from ottla.protocol.messages.write_txn_markers_response import WriteTxnMarkersResponse
from ottla.transactions.markers import Markers, TopicPartition

BACKOFF_MS = 20
BACKOFF_MAX_MS = 1_000
ABSENT_MS = 5_000
REQUEST_PARTITIONS_MAX = 5_000
# What `leader_of` says of a partition that exists and has no leader now.
NO_LEADER = -1


class _Job:
    """Markers of one transaction. `missing` has those not written yet, in flight or waiting."""

    __slots__ = ("absent_since_ms", "failures", "is_dropped", "markers", "missing", "owner")

    def __init__(self, owner: int, markers: Markers) -> None:
        self.owner = owner
        self.markers = markers
        self.missing: dict[TopicPartition, None] = dict.fromkeys(markers.partitions)
        self.absent_since_ms: dict[TopicPartition, int] = {}
        self.failures = 0
        self.is_dropped = False


class MarkerRequest:
    """A request to send; its result goes to `answered` or `failed`."""

    __slots__ = ("broker_id", "jobs", "message")

    def __init__(self, broker_id: int, jobs: dict[_Job, list[TopicPartition]]) -> None:
        self.broker_id = broker_id
        self.jobs = jobs
        self.message = WriteTxnMarkersRequest(
            markers=[_marker(job.markers, partitions) for job, partitions in jobs.items()]
        )


class MarkerQueue:
    """`leader_of` gives the broker that leads a partition, NO_LEADER, or None if there is no such partition.

    An owner is the shard: the number of its partition of __transaction_state.
    """

    __slots__ = ("_by_broker", "_delayed", "_done", "_jobs", "_leader_of", "_sequence", "_under_way")

    def __init__(self, leader_of: Callable[[str, int], int | None]) -> None:
        self._leader_of = leader_of
        self._jobs: dict[_Job, None] = {}
        self._by_broker: dict[int, dict[_Job, list[TopicPartition]]] = {}
        self._delayed: list[tuple[int, int, _Job, list[TopicPartition]]] = []
        self._under_way: dict[int, MarkerRequest] = {}
        self._done: list[tuple[int, Markers]] = []
        self._sequence = 0  # keeps jobs out of comparisons

    def __len__(self) -> int:
        """Transactions whose markers are not all written."""
        return len(self._jobs)

    # In.

    def add(self, owner: int, markers: Markers, now_ms: int) -> None:
        assert markers.partitions
        job = _Job(owner, markers)
        self._jobs[job] = None
        self._route(job, markers.partitions, now_ms)

    def drop(self, owner: int) -> None:
        """The shard has ended: its markers are dropped."""
        for job in [job for job in self._jobs if job.owner == owner]:
            self._remove(job)
        self._done = [each for each in self._done if each[0] != owner]

    def leaders_changed(self, now_ms: int) -> None:
        """Find the leaders of all markers that are not in flight again."""
        waiting, self._by_broker = self._by_broker, {}
        for jobs in waiting.values():
            for job, partitions in jobs.items():
                self._route(job, partitions, now_ms)
        delayed, self._delayed = self._delayed, []
        for _, _, job, partitions in delayed:
            self._route(job, partitions, now_ms)

    # Out.

    @property
    def next_wake_ms(self) -> int | None:
        return self._delayed[0][0] if self._delayed else None

    def take_done(self) -> list[tuple[int, Markers]]:
        """Owners, and their markers that all partitions have: for `TransactionShard.markers_written`."""
        done, self._done = self._done, []
        return done

    def take_requests(self, now_ms: int) -> list[MarkerRequest]:
        """Return what to send now; call it after every event, and at `next_wake_ms`."""
        while self._delayed and self._delayed[0][0] <= now_ms:
            _, _, job, partitions = heappop(self._delayed)
            self._route(job, partitions, now_ms)
        requests = []
        for broker_id in [*self._by_broker]:
            if broker_id not in self._under_way:
                request = self._request_to(broker_id)
                if request is not None:
                    self._under_way[broker_id] = request
                    requests.append(request)
        return requests

    def _request_to(self, broker_id: int) -> MarkerRequest | None:
        waiting = self._by_broker.pop(broker_id)
        chosen: dict[_Job, list[TopicPartition]] = {}
        left: dict[_Job, list[TopicPartition]] = {}
        producers: dict[int, None] = {}
        count = 0
        for job, partitions in waiting.items():
            if job.is_dropped:
                continue
            # Results are matched by producer id: a request has one transaction per producer.
            if job.markers.producer_id in producers or count >= REQUEST_PARTITIONS_MAX:
                left[job] = partitions
                continue
            producers[job.markers.producer_id] = None
            room = REQUEST_PARTITIONS_MAX - count
            chosen[job] = partitions[:room]
            count += len(chosen[job])
            if len(partitions) > room:
                left[job] = partitions[room:]
        if left:
            self._by_broker[broker_id] = left
        return MarkerRequest(broker_id, chosen) if chosen else None

    # Answers.

    def answered(self, request: MarkerRequest, response: WriteTxnMarkersResponse, now_ms: int) -> None:
        self._request_done(request)
        results = {
            (result.producer_id, topic.name, partition.partition_index): partition.error_code
            for result in response.markers
            for topic in result.topics
            for partition in topic.partitions
        }
        for job, partitions in request.jobs.items():
            again = []
            for topic, partition in partitions:
                code = results.get((job.markers.producer_id, topic, partition))
                if code == ErrorCode.TRANSACTION_COORDINATOR_FENCED:
                    self._remove(job)
                elif code in (ErrorCode.NONE, ErrorCode.INVALID_PRODUCER_EPOCH):
                    self._written(job, (topic, partition))
                else:
                    again.append((topic, partition))
            self._retry_later(job, again, now_ms)

    def failed(self, request: MarkerRequest, now_ms: int) -> None:
        """Retry the markers: without a valid response it is unknown whether they are written."""
        self._request_done(request)
        for job, partitions in request.jobs.items():
            self._retry_later(job, partitions, now_ms)

    # Inside.

    def _request_done(self, request: MarkerRequest) -> None:
        sent = self._under_way.pop(request.broker_id, None)
        assert sent is request, "answered twice"

    def _route(self, job: _Job, partitions: Sequence[TopicPartition], now_ms: int) -> None:
        if job.is_dropped:
            return
        leaderless = []
        for each in partitions:
            leader_id = self._leader_of(*each)
            if leader_id is None:
                since_ms = job.absent_since_ms.setdefault(each, now_ms)
                if now_ms - since_ms >= ABSENT_MS:
                    self._written(job, each)
                    continue
                leader_id = NO_LEADER
            elif job.absent_since_ms:
                job.absent_since_ms.pop(each, None)
            if leader_id == NO_LEADER:
                leaderless.append(each)
            else:
                self._by_broker.setdefault(leader_id, {}).setdefault(job, []).append(each)
        self._retry_later(job, leaderless, now_ms)

    def _retry_later(self, job: _Job, partitions: list[TopicPartition], now_ms: int) -> None:
        if not partitions or job.is_dropped:
            return
        delay_ms = min(BACKOFF_MS << min(job.failures, 10), BACKOFF_MAX_MS)
        job.failures += 1
        self._sequence += 1
        heappush(self._delayed, (now_ms + delay_ms, self._sequence, job, partitions))

    def _written(self, job: _Job, partition: TopicPartition) -> None:
        job.missing.pop(partition, None)
        if not job.missing and not job.is_dropped:
            self._remove(job)
            self._done.append((job.owner, job.markers))

    def _remove(self, job: _Job) -> None:
        job.is_dropped = True
        self._jobs.pop(job, None)


def _marker(markers: Markers, partitions: Sequence[TopicPartition]) -> WritableTxnMarker:
    topics: dict[str, list[int]] = {}
    for topic, partition in partitions:
        topics.setdefault(topic, []).append(partition)
    return WritableTxnMarker(
        producer_id=markers.producer_id,
        producer_epoch=markers.producer_epoch,
        transaction_result=markers.committed,
        topics=[
            WritableTxnMarkerTopic(name=name, partition_indexes=indexes) for name, indexes in topics.items()
        ],
        coordinator_epoch=markers.coordinator_epoch,
        transaction_version=markers.transaction_version,
    )
