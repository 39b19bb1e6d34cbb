"""TxnOffsetCommit: offsets of a group that take effect with a transaction."""

from __future__ import annotations

from collections.abc import Mapping

from ottla.client.core.batches import ProducerId
from ottla.client.core.cluster import TopicPartition
from ottla.client.core.group_offsets import MemberIdentity
from ottla.client.core.group_types import CommittedOffset
from ottla.client.core.group_wire import commit_topics
from ottla.client.core.negotiation import Negotiated
from ottla.protocol.message import Message
from ottla.protocol.messages import txn_offset_commit_request
from ottla.protocol.versions import TXN_OFFSET_COMMIT_MEMBER_SINCE, TXN_OFFSET_COMMIT_TOPIC_IDS_SINCE

# Topics have names, as in OffsetCommit: a producer need not know the topics that its input came from.
NAMES_UNTIL = TXN_OFFSET_COMMIT_TOPIC_IDS_SINCE - 1


def txn_offset_commit(
    peer: Negotiated,
    transactional_id: str,
    producer: ProducerId,
    group_id: str,
    offsets: Mapping[TopicPartition, CommittedOffset | int],
    identity: MemberIdentity,
    at_most: int | None,
) -> Message:
    """The request in a version that the broker knows."""
    wire = txn_offset_commit_request
    request = wire.TxnOffsetCommitRequest(
        transactional_id=transactional_id,
        group_id=group_id,
        producer_id=producer.id,
        producer_epoch=producer.epoch,
        topics=[
            wire.TxnOffsetCommitRequestTopic(
                name=topic.name,
                partitions=[
                    wire.TxnOffsetCommitRequestPartition(
                        partition_index=row.partition_index,
                        committed_offset=row.committed_offset,
                        committed_leader_epoch=row.committed_leader_epoch,
                        committed_metadata=row.committed_metadata,
                    )
                    for row in topic.partitions
                ],
            )
            for topic in commit_topics(offsets)
        ],
    )
    if peer.version_for(request.API_KEY, at_most) >= TXN_OFFSET_COMMIT_MEMBER_SINCE:
        request.generation_id_or_member_epoch = identity.epoch
        request.member_id = identity.member_id
        request.group_instance_id = identity.instance_id
    return request
