"""Batches of a producer that are not delivered yet: a queue per partition.

One batch of a partition is in flight at a time, so order survives every retry.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple, Protocol

from ottla.client.core.retry import Backoff
from ottla.protocol.messages.produce_response import PartitionProduceResponse
from ottla.records.batch import NO_SEQUENCE, Buffer, increment_sequence


class ProducerId(NamedTuple):
    """What brokers use to detect duplicates."""

    id: int
    epoch: int


class Payload(Protocol):
    """Records of one partition that are written together; supplied by a shell."""

    @property
    def count(self) -> int:
        """The number of records."""

    @property
    def size_bytes(self) -> int:
        """The size, or an upper bound of it while records are still added."""

    def seal(self, producer: ProducerId | None, base_sequence: int, *, transactional: bool) -> Buffer:
        """The record batch with this producer and sequence number in its header."""

    def split(self) -> Sequence[Payload]:
        """The same records as two payloads, for a topic with a lower size limit."""

    def without_refused(self, row: PartitionProduceResponse) -> Sequence[Payload] | None:
        """The payloads to send after a broker rejected some of the records; None: the whole batch fails.

        Raises a ClientError to fail it with another error than the broker's.
        """

    def delivered(self, base_offset: int, log_append_time_ms: int) -> None:
        """The leader has written it; offset -1 with acks=0."""

    def failed(self, error: Exception) -> None:
        """It will not be sent again."""


class Batch:
    """A payload with its delivery state."""

    __slots__ = ("attempts", "created_s", "data", "deadline_s", "payload", "producer")

    def __init__(self, payload: Payload, created_s: float, deadline_s: float) -> None:
        self.payload = payload
        self.created_s = created_s
        self.deadline_s = deadline_s
        self.attempts = 0
        # Once sealed it keeps producer and sequence number: a retry must repeat them.
        self.data: Buffer | None = None
        self.producer: ProducerId | None = None


class PartitionQueue:
    """The batches of one partition in order."""

    __slots__ = (
        "backoff",
        "batches",
        "found_leader",
        "in_flight",
        "next_sequence",
        "not_before_s",
        "partition",
        "producer",
        "topic",
    )

    def __init__(self, topic: str, partition: int, backoff: Backoff) -> None:
        self.topic = topic
        self.partition = partition
        self.batches: deque[Batch] = deque()
        self.in_flight = False
        # The leader that was just looked up, for the next request: metadata may expire at once.
        self.found_leader = -1
        self.not_before_s = 0.0
        self.backoff = backoff
        self.producer: ProducerId | None = None
        self.next_sequence = 0

    @property
    def key(self) -> tuple[str, int]:
        return self.topic, self.partition

    def seal_head(self, producer: ProducerId | None, *, transactional: bool) -> None:
        """Seal the first batch, unless it was sent before and may have been written."""
        batch = self.batches[0]
        if batch.data is not None:
            return
        sequence = NO_SEQUENCE
        if producer is not None:
            if producer != self.producer:
                self.producer, self.next_sequence = producer, 0
            sequence = self.next_sequence
        batch.data = batch.payload.seal(producer, sequence, transactional=transactional)
        batch.producer = producer

    def finish_head(self) -> Batch:
        """Remove the first batch after the leader has accepted it."""
        batch = self.batches.popleft()
        if batch.producer is not None and batch.producer == self.producer:
            self.next_sequence = increment_sequence(self.next_sequence, batch.payload.count)
        self.backoff.reset()
        self.not_before_s = 0.0
        return batch
