"""The requests that a Raft machine sends, all for the metadata partition."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ottla.protocol.messages import begin_quorum_epoch_request as begin
from ottla.protocol.messages import end_quorum_epoch_request as end
from ottla.protocol.messages import fetch_request as fetch
from ottla.protocol.messages import fetch_snapshot_request as fetch_snapshot
from ottla.protocol.messages import update_raft_voter_request as update
from ottla.protocol.messages import vote_request as vote
from ottla.protocol.uuids import METADATA_TOPIC_ID
from ottla.quorum.raft.config import KRAFT_VERSION_MAX, RaftConfig
from ottla.quorum.raft.voters import Voter
from ottla.quorum.snapshot import SnapshotId

TOPIC = "__cluster_metadata"


def vote_request(
    config: RaftConfig, epoch: int, voter: Voter, *, last_epoch: int, last_offset: int, pre_vote: bool
) -> vote.VoteRequest:
    partition = vote.PartitionData(
        replica_epoch=epoch,
        replica_id=config.node_id,
        replica_directory_id=config.directory_id,
        voter_directory_id=voter.directory_id,
        last_offset_epoch=last_epoch,
        last_offset=last_offset,
        pre_vote=pre_vote,
    )
    topic = vote.TopicData(topic_name=TOPIC, partitions=[partition])
    return vote.VoteRequest(cluster_id=config.cluster_id, voter_id=voter.node_id, topics=[topic])


def begin_request(config: RaftConfig, epoch: int, voter: Voter) -> begin.BeginQuorumEpochRequest:
    partition = begin.PartitionData(
        voter_directory_id=voter.directory_id, leader_id=config.node_id, leader_epoch=epoch
    )
    return begin.BeginQuorumEpochRequest(
        cluster_id=config.cluster_id,
        voter_id=voter.node_id,
        topics=[begin.TopicData(topic_name=TOPIC, partitions=[partition])],
        leader_endpoints=[
            begin.LeaderEndpoint(name=e.name, host=e.host, port=e.port) for e in config.listeners
        ],
    )


def end_request(config: RaftConfig, epoch: int, successors: Sequence[Voter]) -> end.EndQuorumEpochRequest:
    partition = end.PartitionData(
        leader_id=config.node_id,
        leader_epoch=epoch,
        preferred_successors=[voter.node_id for voter in successors],
        preferred_candidates=[
            end.ReplicaInfo(candidate_id=voter.node_id, candidate_directory_id=voter.directory_id)
            for voter in successors
        ],
    )
    return end.EndQuorumEpochRequest(
        cluster_id=config.cluster_id,
        topics=[end.TopicData(topic_name=TOPIC, partitions=[partition])],
        leader_endpoints=[
            end.LeaderEndpoint(name=e.name, host=e.host, port=e.port) for e in config.listeners
        ],
    )


def fetch_request(
    config: RaftConfig, epoch: int, *, offset: int, last_epoch: int, high_watermark: int, max_wait_ms: int
) -> fetch.FetchRequest:
    partition = fetch.FetchPartition(
        current_leader_epoch=epoch,
        fetch_offset=offset,
        last_fetched_epoch=last_epoch,
        partition_max_bytes=config.fetch_max_bytes,
        replica_directory_id=config.directory_id,
        high_watermark=high_watermark,
    )
    return fetch.FetchRequest(
        cluster_id=config.cluster_id,
        replica_state=fetch.ReplicaState(replica_id=config.node_id),
        max_wait_ms=max_wait_ms,
        max_bytes=config.fetch_max_bytes,
        topics=[fetch.FetchTopic(topic=TOPIC, topic_id=METADATA_TOPIC_ID, partitions=[partition])],
    )


def fetch_snapshot_request(
    config: RaftConfig, epoch: int, snapshot_id: SnapshotId, position: int
) -> fetch_snapshot.FetchSnapshotRequest:
    partition = fetch_snapshot.PartitionSnapshot(
        current_leader_epoch=epoch,
        snapshot_id=fetch_snapshot.SnapshotId(end_offset=snapshot_id.end_offset, epoch=snapshot_id.epoch),
        position=position,
        replica_directory_id=config.directory_id,
    )
    return fetch_snapshot.FetchSnapshotRequest(
        cluster_id=config.cluster_id,
        replica_id=config.node_id,
        max_bytes=config.snapshot_chunk_bytes,
        topics=[fetch_snapshot.TopicSnapshot(name=TOPIC, partitions=[partition])],
    )


def update_voter_request(config: RaftConfig, epoch: int) -> update.UpdateRaftVoterRequest:
    return update.UpdateRaftVoterRequest(
        cluster_id=config.cluster_id,
        current_leader_epoch=epoch,
        voter_id=config.node_id,
        voter_directory_id=config.directory_id,
        listeners=[update.Listener(name=e.name, host=e.host, port=e.port) for e in config.listeners],
        kraft_version_feature=update.KRaftVersionFeature(
            min_supported_version=0, max_supported_version=KRAFT_VERSION_MAX
        ),
    )


def only_partition(topics: Iterable[object], name: str) -> object | None:
    """Return the partition of a request or response if it is exactly the metadata partition, else None.
    `name` is the field with the topic name.
    """
    found = list(topics)
    if len(found) != 1:
        return None
    topic = found[0]
    by_id = getattr(topic, "topic_id", None) == METADATA_TOPIC_ID
    if not by_id and getattr(topic, name) != TOPIC:
        return None
    partitions = topic.partitions  # type: ignore[attr-defined]
    if len(partitions) != 1:
        return None
    partition: object = partitions[0]
    for field in ("partition_index", "partition", "index"):
        if getattr(partition, field, 0) != 0:
            return None
    return partition
