"""The leader's side of Fetch and FetchSnapshot: checks, responses, and fetches that wait for records."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.fetch_request import FetchRequest
from ottla.protocol.messages.fetch_response import EpochEndOffset, FetchResponse
from ottla.protocol.messages.fetch_response import SnapshotId as WireSnapshotId
from ottla.protocol.messages.fetch_snapshot_request import FetchSnapshotRequest
from ottla.quorum.raft.effects import Reply, ReplyWithRecords, ReplyWithSnapshot
from ottla.quorum.raft.log_view import LogView
from ottla.quorum.raft.responses import fetch_response, fetch_snapshot_response
from ottla.quorum.snapshot import SnapshotId

if TYPE_CHECKING:
    from ottla.quorum.raft.node import RaftNode
    from ottla.quorum.raft.replicas import Replicas

BOOTSTRAP_SNAPSHOT = SnapshotId(0, 0)


class ParkedFetch:
    """A fetch that waits for new records or a new high watermark."""

    __slots__ = ("deadline_ms", "high_watermark", "max_bytes", "offset", "token")

    def __init__(
        self, token: object, offset: int, max_bytes: int, high_watermark: int, deadline_ms: int
    ) -> None:
        self.token = token
        self.offset = offset
        self.max_bytes = max_bytes
        self.high_watermark = high_watermark
        self.deadline_ms = deadline_ms


class LeaderFetches:
    """Answers the fetches of one epoch. `on_progress` is called when a replica's end offset has advanced."""

    __slots__ = ("_node", "_on_progress", "_parked", "_replicas")

    def __init__(self, node: RaftNode, replicas: Replicas, on_progress: Callable[[], None]) -> None:
        self._node = node
        self._replicas = replicas
        self._on_progress = on_progress
        self._parked: dict[object, ParkedFetch] = {}

    def on_fetch(self, token: object, request: FetchRequest, partition: Any, now_ms: int) -> None:
        """Handle a fetch of this epoch. If its offset is valid here, the sender has everything below it."""
        node = self._node
        log = node.log
        offset, last_epoch = partition.fetch_offset, partition.last_fetched_epoch
        if offset < 0 or last_epoch < 0 or last_epoch > partition.current_leader_epoch:
            response, _ = fetch_response(ErrorCode.INVALID_REQUEST, node.leader_info)
            node.emit(Reply(token, response))
            return
        misfit = find_misfit(log, offset, last_epoch)
        if misfit is not None:
            response, answer = self._response()
            if isinstance(misfit, SnapshotId):
                answer.snapshot_id = WireSnapshotId(end_offset=misfit.end_offset, epoch=misfit.epoch)
            else:
                answer.diverging_epoch = EpochEndOffset(epoch=misfit[0], end_offset=misfit[1])
            self._heard_of(request, partition.replica_directory_id, now_ms)
            node.emit(Reply(token, response))
            return
        node_id = replica_id(request)
        if node_id >= 0:
            replica = self._replicas.touch(node_id, partition.replica_directory_id, node.voters)
            replica.fetch(offset, log.end_offset, now_ms)
            self._on_progress()
        wait_ms = min(max(0, request.max_wait_ms), node.config.fetch_max_wait_ms)
        max_bytes = min(max(0, request.max_bytes), node.config.fetch_max_bytes)
        parked = ParkedFetch(token, offset, max_bytes, partition.high_watermark, now_ms + wait_ms)
        self._parked[token] = parked

    def _heard_of(self, request: FetchRequest, directory_id: bytes, now_ms: int) -> None:
        """Record that the replica is alive, although its end offset is unknown."""
        node_id = replica_id(request)
        if node_id >= 0:
            replica = self._replicas.touch(node_id, directory_id, self._node.voters)
            replica.fetched_ms = max(replica.fetched_ms, now_ms)

    def poll(self, now_ms: int) -> None:
        """Answer fetches that have data to return, or have reached their deadline."""
        node = self._node
        end_offset = node.log.end_offset
        for parked in list(self._parked.values()):
            has_records = end_offset > parked.offset
            is_behind = parked.high_watermark < node.high_watermark
            if not has_records and not is_behind and now_ms < parked.deadline_ms:
                continue
            del self._parked[parked.token]
            response, _ = self._response()
            if has_records:
                node.emit(ReplyWithRecords(parked.token, response, parked.offset, parked.max_bytes))
            else:
                node.emit(Reply(parked.token, response))

    @property
    def wake_ms(self) -> int | None:
        return min((parked.deadline_ms for parked in self._parked.values()), default=None)

    def abandon(self, token: object) -> None:
        self._parked.pop(token, None)

    def dismiss(self) -> None:
        """Refuse all waiting fetches: this node no longer leads."""
        for token in self._parked:
            response, _ = fetch_response(ErrorCode.NOT_LEADER_OR_FOLLOWER, self._node.leader_info)
            self._node.emit(Reply(token, response))
        self._parked.clear()

    def _response(self) -> tuple[FetchResponse, Any]:
        node = self._node
        return fetch_response(
            ErrorCode.NONE,
            node.leader_info,
            high_watermark=node.high_watermark,
            log_start_offset=node.log.start_offset,
        )

    def on_fetch_snapshot(
        self, token: object, request: FetchSnapshotRequest, partition: Any, now_ms: int
    ) -> None:
        node = self._node
        snapshot_id = SnapshotId(partition.snapshot_id.end_offset, partition.snapshot_id.epoch)
        # The snapshot written by formatting differs between nodes; its records are also in the log.
        size = None if snapshot_id == BOOTSTRAP_SNAPSHOT else node.log.snapshot_bytes(snapshot_id)
        error = ErrorCode.NONE
        if size is None:
            error = ErrorCode.SNAPSHOT_NOT_FOUND
        elif not 0 <= partition.position < size:
            error = ErrorCode.POSITION_OUT_OF_RANGE
        if error or size is None:
            node.emit(Reply(token, fetch_snapshot_response(error, node.leader_info)))
            return
        if request.replica_id >= 0:
            directory_id = partition.replica_directory_id
            replica = self._replicas.touch(request.replica_id, directory_id, node.voters)
            replica.fetched_ms = max(replica.fetched_ms, now_ms)
        position = partition.position
        response = fetch_snapshot_response(error, node.leader_info, snapshot_id, size=size, position=position)
        max_bytes = max(1, min(request.max_bytes, node.config.snapshot_chunk_bytes, size - position))
        node.emit(ReplyWithSnapshot(token, response, snapshot_id, position, max_bytes))


def replica_id(request: FetchRequest) -> int:
    """Return the id of the fetching node; later versions have it in another field."""
    return request.replica_state.replica_id if request.replica_id < 0 else request.replica_id


def find_misfit(log: LogView, offset: int, last_epoch: int) -> SnapshotId | tuple[int, int] | None:
    """Return None if a log that ends with `last_epoch` at `offset` is a prefix of this one.

    Otherwise return the snapshot to start from, or the last epoch that both may have and its end here.
    """
    if log.start_offset == 0 and offset == 0 and last_epoch == 0:
        return None
    earliest = log.earliest_snapshot
    if earliest is not None:
        is_below = offset < log.start_offset or last_epoch < earliest.epoch
        if is_below or (offset == log.start_offset and last_epoch != earliest.epoch):
            return log.latest_snapshot or earliest
    epoch, end_offset = log.end_offset_for_epoch(last_epoch)
    if epoch != last_epoch or end_offset < offset:
        return epoch, end_offset
    return None
