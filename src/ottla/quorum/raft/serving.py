"""Requests of other nodes: the checks common to all roles, then the response of the role."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ottla.protocol.errors import ErrorCode
from ottla.protocol.message import Message
from ottla.protocol.messages.add_raft_voter_request import AddRaftVoterRequest
from ottla.protocol.messages.add_raft_voter_response import AddRaftVoterResponse
from ottla.protocol.messages.begin_quorum_epoch_request import BeginQuorumEpochRequest
from ottla.protocol.messages.begin_quorum_epoch_response import BeginQuorumEpochResponse
from ottla.protocol.messages.describe_quorum_request import DescribeQuorumRequest
from ottla.protocol.messages.end_quorum_epoch_request import EndQuorumEpochRequest
from ottla.protocol.messages.end_quorum_epoch_response import EndQuorumEpochResponse
from ottla.protocol.messages.fetch_request import FetchRequest
from ottla.protocol.messages.fetch_response import FetchResponse
from ottla.protocol.messages.fetch_snapshot_request import FetchSnapshotRequest
from ottla.protocol.messages.fetch_snapshot_response import FetchSnapshotResponse
from ottla.protocol.messages.remove_raft_voter_request import RemoveRaftVoterRequest
from ottla.protocol.messages.remove_raft_voter_response import RemoveRaftVoterResponse
from ottla.protocol.messages.update_raft_voter_request import UpdateRaftVoterRequest
from ottla.protocol.messages.vote_request import VoteRequest
from ottla.protocol.messages.vote_response import VoteResponse
from ottla.protocol.uuids import ZERO_UUID
from ottla.quorum.raft.describe import describe_quorum
from ottla.quorum.raft.effects import Reply
from ottla.quorum.raft.follower import Follower
from ottla.quorum.raft.leader import Leader
from ottla.quorum.raft.prospective import Prospective
from ottla.quorum.raft.requests import only_partition
from ottla.quorum.raft.responses import (
    begin_response,
    end_response,
    fetch_response,
    fetch_snapshot_response,
    update_voter_response,
    vote_response,
)
from ottla.quorum.raft.voters import Endpoint

if TYPE_CHECKING:
    from ottla.quorum.raft.node import RaftNode


def on_vote(node: RaftNode, token: object, request: VoteRequest, now_ms: int) -> None:
    partition: Any = only_partition(request.topics, "topic_name")
    top_error = _wrong_cluster_or_partition(node, request, partition)
    if top_error:
        node.emit(Reply(token, VoteResponse(error_code=top_error)))
        return
    epoch, last_epoch = partition.replica_epoch, partition.last_offset_epoch
    # A vote is requested in a new epoch, of which no log can have records yet.
    is_possible = last_epoch <= epoch if partition.pre_vote else last_epoch < epoch
    error = ErrorCode.NONE
    if not is_possible or last_epoch < 0 or partition.last_offset < 0 or partition.replica_id < 0:
        error = ErrorCode.INVALID_REQUEST
    elif epoch < node.epoch:
        error = ErrorCode.FENCED_LEADER_EPOCH
    granted = False
    if not error:
        if epoch > node.epoch:
            node.transitions.become_unattached(epoch, now_ms)
        if _is_for_another(node, request.voter_id, partition.voter_directory_id):
            error = ErrorCode.INVALID_VOTER_KEY
        else:
            granted = _grant(node, partition, now_ms)
    node.emit(Reply(token, vote_response(error, node.leader_info, granted=granted)))


def _grant(node: RaftNode, partition: Any, now_ms: int) -> bool:
    candidate = (partition.replica_id, partition.replica_directory_id)
    granted = node.config.can_vote and node.grants(
        candidate,
        last_epoch=partition.last_offset_epoch,
        last_offset=partition.last_offset,
        pre_vote=partition.pre_vote,
    )
    if granted and not partition.pre_vote:
        node.transitions.vote_for(candidate, now_ms)
    return granted


def on_begin_epoch(node: RaftNode, token: object, request: BeginQuorumEpochRequest, now_ms: int) -> None:
    partition: Any = only_partition(request.topics, "topic_name")
    top_error = _wrong_cluster_or_partition(node, request, partition)
    if top_error:
        node.emit(Reply(token, BeginQuorumEpochResponse(error_code=top_error)))
        return
    error = _leader_claim(node, partition, request.leader_endpoints, now_ms)
    role = node.role
    if not error and isinstance(role, Prospective) and role.leader_endpoint is not None:
        # The leader that this node had dropped is still alive.
        node.transitions.become_follower(node.epoch, role.leader_id, role.leader_endpoint, now_ms)
    if not error and _is_for_another(node, request.voter_id, partition.voter_directory_id):
        error = ErrorCode.INVALID_VOTER_KEY
    node.emit(Reply(token, begin_response(error, node.leader_info)))


def on_end_epoch(node: RaftNode, token: object, request: EndQuorumEpochRequest, now_ms: int) -> None:
    partition: Any = only_partition(request.topics, "topic_name")
    top_error = _wrong_cluster_or_partition(node, request, partition)
    if top_error:
        node.emit(Reply(token, EndQuorumEpochResponse(error_code=top_error)))
        return
    error = _leader_claim(node, partition, request.leader_endpoints, now_ms)
    role = node.role
    if not error and isinstance(role, Follower) and role.leader_id == partition.leader_id:
        names = [each.candidate_id for each in partition.preferred_candidates]
        names = names or list(partition.preferred_successors)
        own = node.config.node_id
        role.leader_leaves(names.index(own) if own in names else None, max(1, len(names)), now_ms)
    node.emit(Reply(token, end_response(error, node.leader_info)))


def _leader_claim(node: RaftNode, partition: Any, listeners: Any, now_ms: int) -> ErrorCode:
    """Handle the claim of a node that it leads (or led) an epoch; follow it if possible."""
    epoch, leader_id = partition.leader_epoch, partition.leader_id
    if epoch < node.epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if leader_id < 0 or leader_id == node.config.node_id:
        return ErrorCode.INVALID_REQUEST
    known_id = node.role.leader_id
    if epoch == node.epoch and known_id >= 0 and known_id != leader_id:
        # An epoch has one leader: the sender is faulty, or in another cluster.
        return ErrorCode.INVALID_REQUEST
    endpoints = [Endpoint(each.name, each.host, each.port) for each in listeners]
    node.transitions.learn_leader(leader_id, epoch, node.pick_endpoint(endpoints), now_ms)
    return ErrorCode.NONE


def on_fetch(node: RaftNode, token: object, request: FetchRequest, now_ms: int) -> None:
    partition: Any = only_partition(request.topics, "topic")
    top_error = _wrong_cluster_or_partition(node, request, partition)
    if top_error:
        node.emit(Reply(token, FetchResponse(error_code=top_error)))
        return
    error = _not_leader_in(node, partition.current_leader_epoch)
    role = node.role
    if error or not isinstance(role, Leader):
        node.emit(Reply(token, fetch_response(error, node.leader_info)[0]))
    else:
        role.fetches.on_fetch(token, request, partition, now_ms)


def on_fetch_snapshot(node: RaftNode, token: object, request: FetchSnapshotRequest, now_ms: int) -> None:
    partition: Any = only_partition(request.topics, "name")
    top_error = _wrong_cluster_or_partition(node, request, partition)
    if top_error:
        node.emit(Reply(token, FetchSnapshotResponse(error_code=top_error)))
        return
    error = _not_leader_in(node, partition.current_leader_epoch)
    role = node.role
    if error or not isinstance(role, Leader):
        node.emit(Reply(token, fetch_snapshot_response(error, node.leader_info)))
    else:
        role.fetches.on_fetch_snapshot(token, request, partition, now_ms)


def on_describe(node: RaftNode, token: object, request: DescribeQuorumRequest, now_ms: int) -> None:
    node.emit(Reply(token, describe_quorum(node, request, now_ms)))


def on_add_voter(node: RaftNode, token: object, request: AddRaftVoterRequest, now_ms: int) -> None:
    error = _not_leader_now(node, request)
    role = node.role
    if error or not isinstance(role, Leader):
        node.emit(Reply(token, AddRaftVoterResponse(error_code=error, error_message=None)))
    else:
        role.changes.on_add(token, request, now_ms)


def on_remove_voter(node: RaftNode, token: object, request: RemoveRaftVoterRequest, now_ms: int) -> None:
    error = _not_leader_now(node, request)
    role = node.role
    if error or not isinstance(role, Leader):
        node.emit(Reply(token, RemoveRaftVoterResponse(error_code=error, error_message=None)))
    else:
        role.changes.on_remove(token, request, now_ms)


def on_update_voter(node: RaftNode, token: object, request: UpdateRaftVoterRequest, now_ms: int) -> None:
    error = _wrong_cluster(node, request) or _not_leader_in(node, request.current_leader_epoch)
    role = node.role
    if error or not isinstance(role, Leader):
        node.emit(Reply(token, update_voter_response(error, node.leader_info)))
    else:
        role.changes.on_update(token, request, now_ms)


# -- checks --------------------------------------------------------------------------------------------------


def _wrong_cluster(node: RaftNode, request: Any) -> ErrorCode:
    """A request may omit the cluster id, but not name another cluster."""
    if request.cluster_id is not None and request.cluster_id != node.config.cluster_id:
        return ErrorCode.INCONSISTENT_CLUSTER_ID
    return ErrorCode.NONE


def _wrong_cluster_or_partition(node: RaftNode, request: Any, partition: object) -> ErrorCode:
    error = _wrong_cluster(node, request)
    return error if error or partition is not None else ErrorCode.INVALID_REQUEST


def _is_for_another(node: RaftNode, voter_id: int, directory_id: bytes) -> bool:
    config = node.config
    if voter_id < 0:
        return False
    return voter_id != config.node_id or directory_id not in (ZERO_UUID, config.directory_id)


def _not_leader_in(node: RaftNode, epoch: int) -> ErrorCode:
    if epoch < node.epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if epoch > node.epoch:
        return ErrorCode.UNKNOWN_LEADER_EPOCH
    if not isinstance(node.role, Leader):
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    return ErrorCode.NONE


def _not_leader_now(node: RaftNode, request: Message) -> ErrorCode:
    return _wrong_cluster(node, request) or _not_leader_in(node, node.epoch)


HANDLERS: dict[type[Message], Callable[[RaftNode, object, Any, int], None]] = {
    VoteRequest: on_vote,
    BeginQuorumEpochRequest: on_begin_epoch,
    EndQuorumEpochRequest: on_end_epoch,
    FetchRequest: on_fetch,
    FetchSnapshotRequest: on_fetch_snapshot,
    DescribeQuorumRequest: on_describe,
    AddRaftVoterRequest: on_add_voter,
    RemoveRaftVoterRequest: on_remove_voter,
    UpdateRaftVoterRequest: on_update_voter,
}
