"""The markers of an ended transaction: the effect of a decision that the host sends to partition leaders."""

from __future__ import annotations

from typing import TypeAlias

from ottla.protocol.message import Struct

TopicPartition: TypeAlias = tuple[str, int]


class Markers:
    """The end of one transaction, to be written to each of its partitions. The epoch is that of the marker.

    Leaders compare epochs as strictly as `transaction_version` requires (see `partition.check_marker`).
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
    """Instead of a reply: nothing was decided. Decide again with an unused producer id."""

    __slots__ = ()


NEEDS_PRODUCER_ID = NeedsProducerId()
