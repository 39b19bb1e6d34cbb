"""Leader: answers the fetches of all replicas, and derives the high watermark from them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ottla.protocol.messages.kraft_version_record import KRaftVersionRecord
from ottla.protocol.messages.leader_change_message import LeaderChangeMessage
from ottla.protocol.messages.leader_change_message import Voter as ChangeVoter
from ottla.quorum.raft.effects import BecameLeader, LostLeadership
from ottla.quorum.raft.leader_fetches import LeaderFetches
from ottla.quorum.raft.node import Role
from ottla.quorum.raft.peers import Sent
from ottla.quorum.raft.replicas import UNKNOWN_OFFSET, Replicas
from ottla.quorum.raft.requests import begin_request
from ottla.quorum.raft.responses import Answer
from ottla.quorum.raft.voter_changes import VoterChanges
from ottla.quorum.raft.voters import BEFORE_THE_LOG, Endpoint, Voter, VoterSet
from ottla.records.control import QuorumMessage, quorum_batch

if TYPE_CHECKING:
    from ottla.quorum.raft.node import RaftNode


class Leader(Role):
    """Leads until it sees a newer epoch, or a majority has not fetched for too long."""

    name = "leader"
    __slots__ = (
        "_begin_due_ms",
        "_granting",
        "changes",
        "fetches",
        "is_established",
        "replicas",
        "start_ms",
        "start_offset",
    )

    def __init__(self, node: RaftNode, now_ms: int, granting: Sequence[int]) -> None:
        super().__init__(node)
        self.start_ms = now_ms
        self.start_offset = node.log.end_offset
        self.replicas = Replicas()
        self.fetches = LeaderFetches(node, self.replicas, self.update_high_watermark)
        self.changes = VoterChanges(node, self, self.replicas)
        # Whether a record of this epoch is committed, and with it all records of earlier epochs.
        self.is_established = False
        self._granting = tuple(granting)
        self._begin_due_ms: dict[int, int] = {}

    @property
    def leader_id(self) -> int:
        return self.node.config.node_id

    @property
    def leader_endpoint(self) -> Endpoint | None:
        listeners = self.node.config.listeners
        return listeners[0] if listeners else self.node.voters.endpoint_of(self.leader_id)

    # -- beginning and ending --------------------------------------------------------------------------------

    def enter(self, now_ms: int) -> None:
        node = self.node
        history = node.history
        version = 1 if history.kraft_version else 0
        by_id = node.voters.by_id
        messages: list[QuorumMessage] = [
            LeaderChangeMessage(
                version=version,
                leader_id=node.config.node_id,
                voters=[_change_voter(by_id[node_id], version) for node_id in sorted(by_id)],
                granting_voters=[
                    _change_voter(by_id[node_id], version) for node_id in self._granting if node_id in by_id
                ],
            )
        ]
        node.emit(BecameLeader(node.epoch, self.start_offset))
        if history.kraft_version and history.voters_offset == BEFORE_THE_LOG:
            # The voters are only in the snapshot written by formatting, which other nodes do not fetch.
            kraft_version, voters = history.kraft_version, node.voters
            messages += [KRaftVersionRecord(kraft_version=kraft_version), voters.to_record()]
            node.change_voters(self.start_offset + 1, kraft_version)
            node.change_voters(self.start_offset + 2, voters)
        node.append_control(quorum_batch(messages, now_ms, leader_epoch=node.epoch))

    def leave(self, now_ms: int) -> None:
        self.fetches.dismiss()
        self.changes.dismiss()
        self.node.emit(LostLeadership(self.node.epoch))

    def append_voters(self, voters: VoterSet, now_ms: int) -> int:
        """Append the new voters, which take effect at once; return the offset of their record."""
        node = self.node
        offset = node.log.end_offset
        node.change_voters(offset, voters)
        node.append_control(quorum_batch([voters.to_record()], now_ms, leader_epoch=node.epoch))
        return offset

    # -- time ------------------------------------------------------------------------------------------------

    def poll(self, now_ms: int) -> None:
        node = self.node
        if not node.log_is_stale:
            self.update_high_watermark()
        self.fetches.poll(now_ms)
        self.changes.poll(now_ms)
        is_removed = self.is_established and not node.is_voter and self.changes.are_committed
        give_up_ms = self.quorum_lost_ms
        if is_removed or (give_up_ms is not None and now_ms >= give_up_ms):
            node.transitions.become_resigned(self.successors(), now_ms)
            return
        self._announce_leader(now_ms)

    def wake_ms(self, now_ms: int) -> int | None:
        wakes = [self.quorum_lost_ms, self.fetches.wake_ms, self.changes.wake_ms]
        wakes += [due_ms for due_ms in self._begin_due_ms.values() if due_ms > now_ms]
        return min((wake_ms for wake_ms in wakes if wake_ms is not None), default=None)

    def _announce_leader(self, now_ms: int) -> None:
        """Announce the leader to voters that do not fetch, repeatedly."""
        node = self.node
        period_ms = max(1, node.config.fetch_timeout_ms // 2)
        self._begin_due_ms = {
            node_id: due_ms for node_id, due_ms in self._begin_due_ms.items() if node_id in node.voters.by_id
        }
        for voter in node.voters:
            node_id = voter.node_id
            if node_id == node.config.node_id or now_ms < self._begin_due_ms.get(node_id, now_ms):
                continue
            replica = self.replicas.of_voter(voter)
            if replica is not None and now_ms - replica.fetched_ms < period_ms:
                self._begin_due_ms[node_id] = replica.fetched_ms + period_ms
            elif node.peers.is_ready(node_id, now_ms):
                self._begin_due_ms[node_id] = now_ms + period_ms
                request = begin_request(node.config, node.epoch, voter)
                node.send(node_id, node.voters.endpoint_of(node_id), request, now_ms)

    def on_answer(self, sent: Sent, answer: Answer, now_ms: int) -> None:
        if answer.error:
            self.node.peers.failed(sent.node_id, now_ms)

    def on_failure(self, sent: Sent, now_ms: int, *, disconnected: bool) -> None:
        if not self.changes.on_failure(sent):
            self._begin_due_ms.pop(sent.node_id, None)

    @property
    def quorum_lost_ms(self) -> int | None:
        """When to resign unless a majority fetches before; None if this node is a majority."""
        voters = self.node.voters
        own = self.node.config.node_id
        needed = voters.majority - (1 if self.node.is_voter else 0)
        if needed <= 0:
            return None
        heard_ms = []
        for voter in voters:
            replica = self.replicas.of_voter(voter)
            if voter.node_id != own:
                heard_ms.append(self.start_ms if replica is None else max(self.start_ms, replica.fetched_ms))
        heard_ms.sort(reverse=True)
        return heard_ms[needed - 1] + self.node.config.fetch_timeout_ms * 3 // 2

    # -- the high watermark ----------------------------------------------------------------------------------

    @property
    def own_offset(self) -> int:
        """The offset up to which this node's log is durable."""
        return self.node.log.flushed_offset

    def update_high_watermark(self) -> None:
        """Commit what a majority has on disk, once that includes a record of this epoch: a record of an
        earlier epoch can still be replaced, even if a majority has it.
        """
        node = self.node
        offsets = [
            self.own_offset if voter.node_id == node.config.node_id else self._offset_of(voter)
            for voter in node.voters
        ]
        offsets.sort(reverse=True)
        offset = offsets[node.voters.majority - 1]
        if offset > self.start_offset:
            self.is_established = True
            node.raise_high_watermark(offset)

    def _offset_of(self, voter: Voter) -> int:
        replica = self.replicas.of_voter(voter)
        return UNKNOWN_OFFSET if replica is None else replica.end_offset

    def successors(self) -> list[Voter]:
        """Return the other voters, longest log first."""
        own = self.node.config.node_id
        others = [voter for voter in self.node.voters if voter.node_id != own]
        return sorted(others, key=lambda voter: (-self._offset_of(voter), voter.node_id))

    def grants(self, *, log_is_up_to_date: bool, pre_vote: bool, voted_for: bool | None) -> bool:
        return False


def _change_voter(voter: Voter, version: int) -> ChangeVoter:
    if version == 0:
        return ChangeVoter(voter_id=voter.node_id)
    return ChangeVoter(voter_id=voter.node_id, voter_directory_id=voter.directory_id)
