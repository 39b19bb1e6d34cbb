"""The responses that a Raft machine sends, and the common part of the responses that it receives."""

from __future__ import annotations

from typing import Any, NamedTuple

from ottla.protocol.errors import ErrorCode
from ottla.protocol.message import Message
from ottla.protocol.messages import begin_quorum_epoch_response as begin
from ottla.protocol.messages import end_quorum_epoch_response as end
from ottla.protocol.messages import fetch_response as fetch
from ottla.protocol.messages import fetch_snapshot_response as fetch_snapshot
from ottla.protocol.messages import update_raft_voter_response as update
from ottla.protocol.messages import vote_response as vote
from ottla.protocol.uuids import METADATA_TOPIC_ID
from ottla.quorum.raft.requests import TOPIC, only_partition
from ottla.quorum.raft.voters import Endpoint
from ottla.quorum.snapshot import SnapshotId


class LeaderInfo(NamedTuple):
    """The leader, as every response reports it."""

    leader_id: int
    epoch: int
    endpoint: Endpoint | None


def vote_response(error: int, leader: LeaderInfo, *, granted: bool = False) -> vote.VoteResponse:
    partition = vote.PartitionData(
        error_code=error, leader_id=leader.leader_id, leader_epoch=leader.epoch, vote_granted=granted
    )
    response = vote.VoteResponse(topics=[vote.TopicData(topic_name=TOPIC, partitions=[partition])])
    if leader.endpoint is not None:
        _, host, port = leader.endpoint
        response.node_endpoints = [vote.NodeEndpoint(node_id=leader.leader_id, host=host, port=port)]
    return response


def begin_response(error: int, leader: LeaderInfo) -> begin.BeginQuorumEpochResponse:
    partition = begin.PartitionData(error_code=error, leader_id=leader.leader_id, leader_epoch=leader.epoch)
    response = begin.BeginQuorumEpochResponse(
        topics=[begin.TopicData(topic_name=TOPIC, partitions=[partition])]
    )
    if leader.endpoint is not None:
        _, host, port = leader.endpoint
        response.node_endpoints = [begin.NodeEndpoint(node_id=leader.leader_id, host=host, port=port)]
    return response


def end_response(error: int, leader: LeaderInfo) -> end.EndQuorumEpochResponse:
    partition = end.PartitionData(error_code=error, leader_id=leader.leader_id, leader_epoch=leader.epoch)
    response = end.EndQuorumEpochResponse(topics=[end.TopicData(topic_name=TOPIC, partitions=[partition])])
    if leader.endpoint is not None:
        _, host, port = leader.endpoint
        response.node_endpoints = [end.NodeEndpoint(node_id=leader.leader_id, host=host, port=port)]
    return response


def fetch_response(
    error: int, leader: LeaderInfo, *, high_watermark: int = -1, log_start_offset: int = -1
) -> tuple[fetch.FetchResponse, fetch.PartitionData]:
    """Return the response and its only partition, which the caller fills in."""
    partition = fetch.PartitionData(
        error_code=error,
        high_watermark=high_watermark,
        log_start_offset=log_start_offset,
        current_leader=fetch.LeaderIdAndEpoch(leader_id=leader.leader_id, leader_epoch=leader.epoch),
        aborted_transactions=[],
        records=b"",
    )
    topic = fetch.FetchableTopicResponse(topic=TOPIC, topic_id=METADATA_TOPIC_ID, partitions=[partition])
    response = fetch.FetchResponse(responses=[topic])
    if leader.endpoint is not None:
        _, host, port = leader.endpoint
        response.node_endpoints = [fetch.NodeEndpoint(node_id=leader.leader_id, host=host, port=port)]
    return response, partition


def fetch_snapshot_response(
    error: int, leader: LeaderInfo, snapshot_id: SnapshotId | None = None, *, size: int = 0, position: int = 0
) -> fetch_snapshot.FetchSnapshotResponse:
    found = snapshot_id or SnapshotId(0, 0)
    partition = fetch_snapshot.PartitionSnapshot(
        error_code=error,
        snapshot_id=fetch_snapshot.SnapshotId(end_offset=found.end_offset, epoch=found.epoch),
        current_leader=fetch_snapshot.LeaderIdAndEpoch(leader_id=leader.leader_id, leader_epoch=leader.epoch),
        size=size,
        position=position,
        unaligned_records=b"",
    )
    topic = fetch_snapshot.TopicSnapshot(name=TOPIC, partitions=[partition])
    response = fetch_snapshot.FetchSnapshotResponse(topics=[topic])
    if leader.endpoint is not None:
        _, host, port = leader.endpoint
        response.node_endpoints = [
            fetch_snapshot.NodeEndpoint(node_id=leader.leader_id, host=host, port=port)
        ]
    return response


def update_voter_response(error: int, leader: LeaderInfo) -> update.UpdateRaftVoterResponse:
    host, port = ("", 0) if leader.endpoint is None else leader.endpoint[1:]
    current = update.CurrentLeader(
        leader_id=leader.leader_id, leader_epoch=leader.epoch, host=host, port=port
    )
    return update.UpdateRaftVoterResponse(error_code=error, current_leader=current)


class Answer(NamedTuple):
    """The response of a peer: its error, its view of the leader, and its partition."""

    error: int
    leader: LeaderInfo
    partition: Any


def read_answer(response: Message, endpoint_name: str) -> Answer | None:
    """Read a response; None if it is not for the metadata partition."""
    if isinstance(response, update.UpdateRaftVoterResponse):
        current = response.current_leader
        endpoint = Endpoint(endpoint_name, current.host, current.port) if current.host else None
        return Answer(
            response.error_code, LeaderInfo(current.leader_id, current.leader_epoch, endpoint), response
        )
    no_leader = LeaderInfo(-1, -1, None)
    top_error = getattr(response, "error_code", ErrorCode.NONE)
    if top_error:
        return Answer(top_error, no_leader, None)
    if isinstance(response, fetch.FetchResponse):
        partition: Any = only_partition(response.responses, "topic")
    elif isinstance(
        response,
        vote.VoteResponse
        | begin.BeginQuorumEpochResponse
        | end.EndQuorumEpochResponse
        | fetch_snapshot.FetchSnapshotResponse,
    ):
        name = "name" if isinstance(response, fetch_snapshot.FetchSnapshotResponse) else "topic_name"
        partition = only_partition(response.topics, name)
    else:
        return None
    if partition is None:
        return None
    source = getattr(partition, "current_leader", partition)
    endpoint = None
    for node in response.node_endpoints:
        if node.node_id == source.leader_id:
            endpoint = Endpoint(endpoint_name, node.host, node.port)
    return Answer(
        partition.error_code, LeaderInfo(source.leader_id, source.leader_epoch, endpoint), partition
    )
