"""DescribeQuorum: the leader's view of all replicas."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.describe_quorum_request import DescribeQuorumRequest
from ottla.protocol.messages.describe_quorum_request import PartitionData as RequestedPartition
from ottla.protocol.messages.describe_quorum_response import (
    DescribeQuorumResponse,
    Listener,
    Node,
    PartitionData,
    ReplicaState,
    TopicData,
)
from ottla.quorum.raft.leader import Leader
from ottla.quorum.raft.replicas import Replica
from ottla.quorum.raft.requests import TOPIC, only_partition

if TYPE_CHECKING:
    from ottla.quorum.raft.node import RaftNode


def describe_quorum(node: RaftNode, request: DescribeQuorumRequest, now_ms: int) -> DescribeQuorumResponse:
    """Build the response; an error unless this node leads and the request is for the metadata partition."""
    role = node.role
    if not isinstance(role, Leader):
        return DescribeQuorumResponse(error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER, error_message=None)
    if only_partition(request.topics, "topic_name") is None:
        unknown = [_unknown_topic(topic.topic_name, topic.partitions) for topic in request.topics]
        return DescribeQuorumResponse(topics=unknown, error_message=None)
    voters = node.voters
    partition = PartitionData(
        error_message=None,
        leader_id=node.config.node_id,
        leader_epoch=node.epoch,
        high_watermark=node.high_watermark,
        current_voters=[
            _leader_state(node, now_ms)
            if voter.node_id == node.config.node_id
            else _state(role.replicas.of_voter(voter) or Replica(voter.node_id, voter.directory_id))
            for voter in sorted(voters)
        ],
        observers=[_state(replica) for replica in role.replicas.observers(voters, now_ms)],
    )
    nodes = [
        Node(
            node_id=voter.node_id,
            listeners=[Listener(name=each.name, host=each.host, port=each.port) for each in voter.endpoints],
        )
        for voter in sorted(voters)
    ]
    topic = TopicData(topic_name=TOPIC, partitions=[partition])
    return DescribeQuorumResponse(error_message=None, topics=[topic], nodes=nodes)


def add_to_timestamps(response: DescribeQuorumResponse, difference_ms: int) -> None:
    """Turn the monotonic times of a response into wall-clock times; -1 stays, it means never."""
    for topic in response.topics:
        for partition in topic.partitions:
            for replica in (*partition.current_voters, *partition.observers):
                if replica.last_fetch_timestamp >= 0:
                    replica.last_fetch_timestamp += difference_ms
                if replica.last_caught_up_timestamp >= 0:
                    replica.last_caught_up_timestamp += difference_ms


def _unknown_topic(name: str, partitions: list[RequestedPartition]) -> TopicData:
    error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return TopicData(
        topic_name=name,
        partitions=[
            PartitionData(
                partition_index=each.partition_index,
                error_code=error,
                error_message=None,
            )
            for each in partitions
        ],
    )


def _leader_state(node: RaftNode, now_ms: int) -> ReplicaState:
    voter = node.voters.by_id[node.config.node_id]
    return ReplicaState(
        replica_id=voter.node_id,
        replica_directory_id=voter.directory_id,
        log_end_offset=node.log.end_offset,
        last_fetch_timestamp=now_ms,
        last_caught_up_timestamp=now_ms,
    )


def _state(replica: Replica) -> ReplicaState:
    return ReplicaState(
        replica_id=replica.node_id,
        replica_directory_id=replica.directory_id,
        log_end_offset=replica.end_offset,
        last_fetch_timestamp=replica.fetched_ms,
        last_caught_up_timestamp=replica.caught_up_ms,
    )
