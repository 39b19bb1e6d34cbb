"""An ISR change that a leader proposes to the controller, and the AlterPartition request of many."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ottla.protocol.messages.alter_partition_request import AlterPartitionRequest


class IsrChange:
    """Proposed at one (leader epoch, partition epoch): the controller applies it there or not at all."""

    __slots__ = ("broker_epochs", "expands", "isr", "leader_epoch", "partition_epoch")

    def __init__(
        self,
        leader_epoch: int,
        partition_epoch: int,
        isr: tuple[int, ...],
        broker_epochs: dict[int, int],
        expands: bool,
    ) -> None:
        self.leader_epoch = leader_epoch
        self.partition_epoch = partition_epoch
        self.isr = isr
        # Of the followers, from their fetches; -1 if unknown. The leader's epoch is not included.
        self.broker_epochs = broker_epochs
        self.expands = expands

    def __repr__(self) -> str:
        kind = "expand" if self.expands else "shrink"
        return f"IsrChange({kind} to {self.isr} at {self.leader_epoch}/{self.partition_epoch})"


def alter_partition_request(
    broker_id: int, broker_epoch: int, changes: Iterable[tuple[bytes, int, IsrChange]]
) -> AlterPartitionRequest:
    """One request (version 3) for the changes of many partitions: (topic id, partition, change).

    The broker epoch is that of the sender now, also for a change that is sent again.
    """
    from ottla.protocol.messages.alter_partition_request import (
        AlterPartitionRequest,
        BrokerState,
        PartitionData,
        TopicData,
    )

    topics: dict[bytes, TopicData] = {}
    for topic_id, index, change in changes:
        topic = topics.get(topic_id)
        if topic is None:
            topic = topics[topic_id] = TopicData(topic_id=topic_id)
        isr = [
            BrokerState(
                broker_id=node_id,
                broker_epoch=broker_epoch if node_id == broker_id else change.broker_epochs.get(node_id, -1),
            )
            for node_id in change.isr
        ]
        topic.partitions.append(
            PartitionData(
                partition_index=index,
                leader_epoch=change.leader_epoch,
                new_isr_with_epochs=isr,
                leader_recovery_state=0,  # a leader that changes its ISR has recovered
                partition_epoch=change.partition_epoch,
            )
        )
    return AlterPartitionRequest(broker_id=broker_id, broker_epoch=broker_epoch, topics=list(topics.values()))
