"""What a decision of a shard comes to: records to append; replies and markers once they are committed."""

from __future__ import annotations

from typing import TypeAlias

from ottla.protocol.message import Message, Struct

# A key and its value; without a value it is a tombstone.
Record: TypeAlias = tuple[Message, Message | None]
# Names a request that waits. The shell chooses it; the shard only hands it back.
Token: TypeAlias = object
TopicPartition: TypeAlias = tuple[str, int]


class RequestContext:
    """Who asks, in which version of the API."""

    __slots__ = ("api_version", "client_host", "client_id", "token")

    def __init__(
        self, *, token: Token = None, api_version: int = 0, client_id: str = "", client_host: str = ""
    ) -> None:
        self.token = token
        self.api_version = api_version
        self.client_id = client_id
        self.client_host = client_host


class Markers:
    """The end of one transaction, to be written to each of its partitions. The epoch is that of the marker.

    `transaction_version` tells the leaders how strictly to compare epochs (see `partition.check_marker`).
    """

    __slots__ = (
        "committed",
        "coordinator_epoch",
        "partitions",
        "producer_epoch",
        "producer_id",
        "transaction_version",
        "transactional_id",
    )

    def __init__(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        *,
        committed: bool,
        coordinator_epoch: int,
        transaction_version: int,
        partitions: list[TopicPartition],
    ) -> None:
        self.transactional_id = transactional_id
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.committed = committed
        self.coordinator_epoch = coordinator_epoch
        self.transaction_version = transaction_version
        self.partitions = partitions

    def __repr__(self) -> str:
        result = "commit" if self.committed else "abort"
        return (
            f"Markers({result} {self.transactional_id!r}, producer {self.producer_id} "
            f"epoch {self.producer_epoch}, {self.partitions})"
        )


class NeedsProducerId(Struct):
    """In the place of a reply: nothing was decided. Ask again with a producer id that nobody has."""

    __slots__ = ()


NEEDS_PRODUCER_ID = NeedsProducerId()


class Outcome:
    """The records and what follows from them. Records go into one batch.

    `reply` answers the request that was decided. It, `replies` and `markers` are given when everything that
    the shard has appended so far is committed, also when this outcome has no records: it may have seen state
    which is not yet so. A marker that went out earlier could end a transaction that was never prepared.
    """

    __slots__ = ("markers", "producer", "records", "replies", "reply")

    def __init__(self, reply: Struct | None = None) -> None:
        self.records: list[Record] = []
        self.replies: list[tuple[Token, Message]] = []
        self.reply = reply
        self.markers: list[Markers] = []
        self.producer: tuple[int, int] | None = None  # these records are in nobody's transaction

    def __repr__(self) -> str:
        return f"Outcome(reply={self.reply!r}, records={self.records!r}, markers={self.markers!r})"
