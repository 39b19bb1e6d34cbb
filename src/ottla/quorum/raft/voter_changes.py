"""The leader's side of AddRaftVoter, RemoveRaftVoter and UpdateRaftVoter: one change at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from ottla.protocol.errors import ErrorCode
from ottla.protocol.message import Message
from ottla.protocol.messages.add_raft_voter_request import AddRaftVoterRequest
from ottla.protocol.messages.add_raft_voter_response import AddRaftVoterResponse
from ottla.protocol.messages.api_versions_request import ApiVersionsRequest
from ottla.protocol.messages.api_versions_response import ApiVersionsResponse
from ottla.protocol.messages.remove_raft_voter_request import RemoveRaftVoterRequest
from ottla.protocol.messages.remove_raft_voter_response import RemoveRaftVoterResponse
from ottla.protocol.messages.update_raft_voter_request import UpdateRaftVoterRequest
from ottla.quorum.raft.effects import Reply
from ottla.quorum.raft.peers import Sent
from ottla.quorum.raft.responses import update_voter_response
from ottla.quorum.raft.voters import Endpoint, Voter, VoterSet, endpoint_for

if TYPE_CHECKING:
    from ottla.quorum.raft.node import RaftNode
    from ottla.quorum.raft.replicas import Replicas

CAUGHT_UP_WITHIN_MS = 3_600_000
REASONS = {
    ErrorCode.REQUEST_TIMED_OUT: "the previous change is not committed yet",
    ErrorCode.UNSUPPORTED_VERSION: "kraft.version is 0: the voters are fixed by configuration",
    ErrorCode.NOT_LEADER_OR_FOLLOWER: "this node no longer leads the quorum",
}


class LeadingNode(Protocol):
    """The part of the leader that a change of the voters uses."""

    @property
    def is_established(self) -> bool:
        """Whether a record of the leader's own epoch is committed."""

    def append_voters(self, voters: VoterSet, now_ms: int) -> int: ...


class PendingChange:
    """A change whose requester waits. Its offset is None until the record is written."""

    __slots__ = ("ack_at_once", "deadline_ms", "offset", "request_id", "response_class", "token", "voter")

    def __init__(
        self,
        token: object,
        response_class: type[AddRaftVoterResponse | RemoveRaftVoterResponse],
        deadline_ms: int,
    ) -> None:
        self.token = token
        self.response_class = response_class
        self.deadline_ms = deadline_ms
        self.offset: int | None = None
        self.voter: Voter | None = None
        self.request_id = 0
        self.ack_at_once = False


class VoterChanges:
    """At most one change of the voters in flight."""

    __slots__ = ("_leader", "_node", "_pending", "_replicas")

    def __init__(self, node: RaftNode, leader: LeadingNode, replicas: Replicas) -> None:
        self._node = node
        self._leader = leader
        self._replicas = replicas
        self._pending: PendingChange | None = None

    @property
    def are_committed(self) -> bool:
        return self._node.history.voters_offset < self._node.high_watermark

    def _refusal(self) -> ErrorCode:
        """Return why no change can start now."""
        if self._pending is not None or not self._leader.is_established:
            return ErrorCode.REQUEST_TIMED_OUT
        if self._node.kraft_version < 1:
            return ErrorCode.UNSUPPORTED_VERSION
        if not self.are_committed:
            return ErrorCode.REQUEST_TIMED_OUT
        return ErrorCode.NONE

    # -- requests --------------------------------------------------------------------------------------------

    def on_add(self, token: object, request: AddRaftVoterRequest, now_ms: int) -> None:
        """Query the versions of the new voter first: its record contains them."""
        node = self._node
        endpoints = tuple(Endpoint(each.name, each.host, each.port) for each in request.listeners)
        target = endpoint_for(endpoints, node.endpoint_name) or endpoint_for(endpoints)
        refusal = self._refusal()
        if refusal:
            self._refuse(token, AddRaftVoterResponse, refusal, REASONS[refusal])
        elif target is None or request.voter_id < 0:
            self._refuse(token, AddRaftVoterResponse, ErrorCode.INVALID_REQUEST, "the voter has no listener")
        elif request.voter_id in node.voters.by_id:
            text = f"{request.voter_id} is already a voter"
            self._refuse(token, AddRaftVoterResponse, ErrorCode.DUPLICATE_VOTER, text)
        elif not node.peers.is_ready(request.voter_id, now_ms):
            text = f"{request.voter_id} has not fetched recently"
            self._refuse(token, AddRaftVoterResponse, ErrorCode.REQUEST_TIMED_OUT, text)
        else:
            wait_ms = min(max(1, request.timeout_ms), node.config.request_timeout_ms * 5)
            pending = PendingChange(token, AddRaftVoterResponse, now_ms + wait_ms)
            pending.voter = Voter(request.voter_id, request.voter_directory_id, endpoints)
            pending.ack_at_once = not request.ack_when_committed
            probe = ApiVersionsRequest(client_software_name="ottla", client_software_version="1")
            pending.request_id = node.send(request.voter_id, target, probe, now_ms)
            self._pending = pending

    def on_remove(self, token: object, request: RemoveRaftVoterRequest, now_ms: int) -> None:
        node = self._node
        refusal = self._refusal()
        if refusal:
            self._refuse(token, RemoveRaftVoterResponse, refusal, REASONS[refusal])
        elif not _has_exactly(node, request.voter_id, request.voter_directory_id):
            text = f"{request.voter_id} with this directory is not a voter"
            self._refuse(token, RemoveRaftVoterResponse, ErrorCode.VOTER_NOT_FOUND, text)
        elif len(node.voters) == 1:
            text = "the only voter cannot be removed"
            self._refuse(token, RemoveRaftVoterResponse, ErrorCode.INVALID_REQUEST, text)
        else:
            pending = PendingChange(token, RemoveRaftVoterResponse, now_ms + node.config.request_timeout_ms)
            pending.offset = self._leader.append_voters(node.voters.without(request.voter_id), now_ms)
            self._pending = pending

    def on_update(self, token: object, request: UpdateRaftVoterRequest, now_ms: int) -> None:
        node = self._node
        endpoints = tuple(Endpoint(each.name, each.host, each.port) for each in request.listeners)
        feature = request.kraft_version_feature
        error = self._refusal()
        if not error:
            in_range = feature.min_supported_version <= node.kraft_version <= feature.max_supported_version
            if not in_range or not endpoints:
                error = ErrorCode.INVALID_REQUEST
            elif not _has_exactly(node, request.voter_id, request.voter_directory_id):
                error = ErrorCode.VOTER_NOT_FOUND
        if not error:
            voter = Voter(
                request.voter_id,
                request.voter_directory_id,
                endpoints,
                feature.min_supported_version,
                feature.max_supported_version,
            )
            self._leader.append_voters(node.voters.with_voter(voter), now_ms)
        node.emit(Reply(token, update_voter_response(error, node.leader_info)))

    def _refuse(
        self,
        token: object,
        response_class: type[AddRaftVoterResponse | RemoveRaftVoterResponse],
        error: int,
        text: str,
    ) -> None:
        self._node.emit(Reply(token, response_class(error_code=error, error_message=text)))

    # -- progress --------------------------------------------------------------------------------------------

    def on_versions(self, sent: Sent, response: Message, now_ms: int) -> None:
        """Add the new voter if it has caught up with the log."""
        pending = self._pending
        if pending is None or pending.request_id != sent.request_id or pending.voter is None:
            return
        node = self._node
        voter = pending.voter
        if not isinstance(response, ApiVersionsResponse) or response.error_code:
            self._finish(ErrorCode.REQUEST_TIMED_OUT, f"{voter.node_id} did not report its versions")
            return
        ranges = {each.name: (each.min_version, each.max_version) for each in response.supported_features}
        low, high = ranges.get("kraft.version", (0, 0))
        replica = self._replicas.find(voter.node_id, voter.directory_id)
        if not low <= node.kraft_version <= high:
            text = f"{voter.node_id} supports kraft.version {low} to {high}, not {node.kraft_version}"
            self._finish(ErrorCode.INVALID_REQUEST, text)
        elif (
            replica is None
            or replica.caught_up_ms <= now_ms - CAUGHT_UP_WITHIN_MS
            or replica.caught_up_ms < 0
        ):
            self._finish(ErrorCode.REQUEST_TIMED_OUT, f"{voter.node_id} has not caught up with the leader")
        else:
            added = voter._replace(kraft_version_min=low, kraft_version_max=high)
            pending.offset = self._leader.append_voters(node.voters.with_voter(added), now_ms)
            if pending.ack_at_once:
                self._finish(ErrorCode.NONE, None)

    def on_failure(self, sent: Sent) -> bool:
        """Return whether it was the query to the new voter that failed."""
        pending = self._pending
        if pending is None or pending.request_id != sent.request_id:
            return False
        self._finish(ErrorCode.REQUEST_TIMED_OUT, f"{sent.node_id} could not be reached")
        return True

    def poll(self, now_ms: int) -> None:
        pending = self._pending
        if pending is None:
            return
        if pending.offset is not None and pending.offset < self._node.high_watermark:
            self._finish(ErrorCode.NONE, None)
        elif now_ms >= pending.deadline_ms:
            self._finish(ErrorCode.REQUEST_TIMED_OUT, "the change is not committed yet")

    @property
    def wake_ms(self) -> int | None:
        return None if self._pending is None else self._pending.deadline_ms

    def abandon(self, token: object) -> None:
        """Drop the change of a disconnected requester unless it is written."""
        if self._pending is not None and self._pending.token == token:
            self._pending = None

    def dismiss(self) -> None:
        if self._pending is not None:
            error = ErrorCode.NOT_LEADER_OR_FOLLOWER
            self._finish(error, REASONS[error])

    def _finish(self, error: int, text: str | None) -> None:
        pending = self._pending
        assert pending is not None, "no change is in flight"
        self._pending = None
        response = pending.response_class(error_code=error, error_message=text)
        self._node.emit(Reply(pending.token, response))


def _has_exactly(node: RaftNode, node_id: int, directory_id: bytes) -> bool:
    voter = node.voters.by_id.get(node_id)
    return voter is not None and voter.directory_id == directory_id
