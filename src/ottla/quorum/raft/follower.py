"""Follower: a voter or observer that fetches from the leader of the epoch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.fetch_request import FetchRequest
from ottla.protocol.messages.fetch_snapshot_request import FetchSnapshotRequest
from ottla.protocol.messages.update_raft_voter_request import UpdateRaftVoterRequest
from ottla.quorum.errors import QuorumError
from ottla.quorum.raft.effects import BeginSnapshot, InstallSnapshot, WriteSnapshot
from ottla.quorum.raft.fetched import check_fetched
from ottla.quorum.raft.node import Role
from ottla.quorum.raft.peers import Sent
from ottla.quorum.raft.requests import fetch_request, fetch_snapshot_request, update_voter_request
from ottla.quorum.raft.responses import Answer
from ottla.quorum.raft.voters import Endpoint
from ottla.quorum.snapshot import SnapshotId

if TYPE_CHECKING:
    from ottla.quorum.raft.node import RaftNode


class Follower(Role):
    """Sends one fetch at a time, after the previous records are on disk. A voter drops a silent leader."""

    name = "follower"
    __slots__ = (
        "_endpoint",
        "_has_left",
        "_leader_id",
        "_lost_ms",
        "_snapshot",
        "_snapshot_position",
        "_update_due_ms",
        "deadline_ms",
        "has_fetched",
    )

    def __init__(self, node: RaftNode, now_ms: int, leader_id: int, endpoint: Endpoint) -> None:
        super().__init__(node)
        self._leader_id = leader_id
        self._endpoint = endpoint
        self.deadline_ms = now_ms + node.config.fetch_timeout_ms
        # A node that has fetched knows that the leader is alive, and refuses pre-votes.
        self.has_fetched = False
        self._lost_ms: int | None = None
        self._has_left = False  # the leader has resigned, and will not lead this epoch again
        self._snapshot: SnapshotId | None = None
        self._snapshot_position = 0
        self._update_due_ms = now_ms

    @property
    def leader_id(self) -> int:
        return self._leader_id

    @property
    def leader_endpoint(self) -> Endpoint | None:
        return self._endpoint

    # -- time ------------------------------------------------------------------------------------------------

    def poll(self, now_ms: int) -> None:
        node = self.node
        if now_ms >= self._leader_deadline_ms:
            if node.may_stand:
                node.transitions.become_prospective(now_ms, self._leader_id, self._endpoint)
                return
            if not node.is_voter:
                node.probe(now_ms)
        is_changing = node.log_is_stale or node.installing is not None
        busy = is_changing or self._has_left or self._waits_for_disk
        if not busy and node.peers.is_ready(self._leader_id, now_ms):
            node.send(self._leader_id, self._endpoint, self._next_request(now_ms), now_ms)

    @property
    def _waits_for_disk(self) -> bool:
        """Whether records are unflushed: the leader counts everything below a fetch offset as durable."""
        return self.node.log.flushed_offset < self.node.log.end_offset

    @property
    def _leader_deadline_ms(self) -> int:
        return self.deadline_ms if self._lost_ms is None else min(self.deadline_ms, self._lost_ms)

    def wake_ms(self, now_ms: int) -> int | None:
        node = self.node
        wakes = []
        if node.may_stand or (not node.is_voter and self._leader_deadline_ms > now_ms):
            wakes.append(self._leader_deadline_ms)
        if node.probe_due_ms > now_ms >= self._leader_deadline_ms:
            wakes.append(node.probe_due_ms)
        return min(wakes, default=None)

    def leader_leaves(self, place: int | None, places: int, now_ms: int) -> None:
        """Handle the leader's resignation; `place` is the index of this node among `places` successors."""
        self.has_fetched = False
        self._has_left = True
        timeout_ms = self.node.config.election_timeout_ms
        if place is None:
            self.deadline_ms = now_ms + self.node.election_timeout_ms()
        elif place == 0:
            # Wait until the others have received it too: until then they refuse pre-votes.
            self.deadline_ms = now_ms + self.node.config.retry_backoff_ms
        else:
            spread_ms = max(1, timeout_ms // places)
            self.deadline_ms = now_ms + spread_ms * place + self.node.draw(spread_ms)

    def grants(self, *, log_is_up_to_date: bool, pre_vote: bool, voted_for: bool | None) -> bool:
        if pre_vote:
            return log_is_up_to_date and (not self.has_fetched or self._lost_ms is not None)
        return voted_for is True

    # -- requests --------------------------------------------------------------------------------------------

    def _next_request(self, now_ms: int) -> FetchRequest | FetchSnapshotRequest | UpdateRaftVoterRequest:
        node = self.node
        config = node.config
        if now_ms >= self._update_due_ms and node.is_listed_wrongly:
            self._update_due_ms = now_ms + config.fetch_timeout_ms
            return update_voter_request(config, node.epoch)
        if self._snapshot is not None:
            return fetch_snapshot_request(config, node.epoch, self._snapshot, self._snapshot_position)
        return fetch_request(
            config,
            node.epoch,
            offset=node.log.end_offset,
            last_epoch=node.log.last_epoch,
            high_watermark=node.high_watermark,
            max_wait_ms=config.fetch_max_wait_ms,
        )

    def on_failure(self, sent: Sent, now_ms: int, *, disconnected: bool) -> None:
        grace_ms = self.node.config.disconnect_grace_ms
        if (
            disconnected
            and grace_ms is not None
            and sent.node_id == self._leader_id
            and self._lost_ms is None
        ):
            # Add jitter: a single voter should start the election.
            self._lost_ms = now_ms + grace_ms + self.node.draw(max(1, grace_ms // 2))

    # -- responses -------------------------------------------------------------------------------------------

    def on_answer(self, sent: Sent, answer: Answer, now_ms: int) -> None:
        if isinstance(sent.request, UpdateRaftVoterRequest):
            return
        if sent.node_id != self._leader_id:
            # The response to an observer's probe; its leader information is already processed.
            return
        if answer.error:
            not_found = (ErrorCode.SNAPSHOT_NOT_FOUND, ErrorCode.POSITION_OUT_OF_RANGE)
            if answer.error in not_found and isinstance(sent.request, FetchSnapshotRequest):
                self._snapshot = None
            self.node.peers.failed(sent.node_id, now_ms)
            return
        if not self._has_left:  # a response may arrive after the resignation
            self.has_fetched = True
            self.node.is_starting = False
            self._lost_ms = None
            self.deadline_ms = now_ms + self.node.config.fetch_timeout_ms
        if isinstance(sent.request, FetchSnapshotRequest):
            self._take_chunk(answer.partition, sent.node_id, now_ms)
        else:
            self._take_fetched(sent.request, answer.partition, now_ms)

    def _take_fetched(self, request: Any, partition: Any, now_ms: int) -> None:
        node = self.node
        if request.topics[0].partitions[0].fetch_offset != node.log.end_offset:
            return
        diverging, snapshot_id = partition.diverging_epoch, partition.snapshot_id
        if diverging.epoch >= 0 and diverging.end_offset >= 0:
            self._cut(diverging.epoch, diverging.end_offset)
        elif snapshot_id.epoch >= 0 and snapshot_id.end_offset >= 0:
            self._begin_snapshot(SnapshotId(snapshot_id.end_offset, snapshot_id.epoch))
        else:
            self._append(partition, now_ms)

    def _cut(self, epoch: int, end_offset: int) -> None:
        log = self.node.log
        own_epoch, own_end = log.end_offset_for_epoch(epoch)
        offset = min(own_end, end_offset) if own_epoch == epoch else min(own_end, log.end_offset)
        if epoch == 0:
            offset = min(end_offset, log.end_offset)
        if offset < self.node.high_watermark:
            raise QuorumError(
                f"the leader {self._leader_id} of epoch {self.node.epoch} lacks what is committed here "
                f"from {offset} to {self.node.high_watermark}"
            )
        self.node.truncate(max(offset, log.start_offset))

    def _append(self, partition: Any, now_ms: int) -> None:
        node = self.node
        end_offset = node.log.end_offset
        if partition.records is not None and len(partition.records):
            batches = check_fetched(partition.records, end_offset, node.log.last_epoch, node.epoch)
            if batches is None:
                node.peers.failed(self._leader_id, now_ms)
                return
            end_offset = batches.end_offset
            node.append_fetched(batches)
        node.raise_high_watermark(min(partition.high_watermark, end_offset))

    # -- snapshots -------------------------------------------------------------------------------------------

    def _begin_snapshot(self, snapshot_id: SnapshotId) -> None:
        node = self.node
        if snapshot_id.end_offset < node.high_watermark:
            raise QuorumError(
                f"the leader {self._leader_id} sends {snapshot_id}, which is below the committed offset: "
                f"{node.high_watermark}"
            )
        self._snapshot = snapshot_id
        self._snapshot_position = 0
        node.emit(BeginSnapshot(snapshot_id))

    def _take_chunk(self, partition: Any, node_id: int, now_ms: int) -> None:
        snapshot_id = self._snapshot
        found = SnapshotId(partition.snapshot_id.end_offset, partition.snapshot_id.epoch)
        if snapshot_id is None or found != snapshot_id or partition.position != self._snapshot_position:
            return
        data = partition.unaligned_records
        nbytes = 0 if data is None else len(data)
        if nbytes == 0 or self._snapshot_position + nbytes > partition.size:
            self._snapshot = None
            self.node.peers.failed(node_id, now_ms)
            return
        self.node.emit(WriteSnapshot(snapshot_id, self._snapshot_position, data))
        self._snapshot_position += nbytes
        if self._snapshot_position == partition.size:
            self._snapshot = None
            self.node.installing = snapshot_id
            self.node.emit(InstallSnapshot(snapshot_id))
