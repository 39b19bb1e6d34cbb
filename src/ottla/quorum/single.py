"""The quorum of one voter: `__cluster_metadata-0`, which this node leads alone.

What is appended is committed when it is on disk. `append` writes, `begin_sync` gives a job that may run in
another thread, `finish_sync` moves the high watermark; replies wait for that. Every start is a new epoch,
begun by a LeaderChange control batch, as Kafka's own quorum of one does it.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from ottla.protocol.message import Message
from ottla.protocol.messages.leader_change_message import LeaderChangeMessage, Voter
from ottla.quorum.errors import QuorumError
from ottla.quorum.metadata_log import DIRECTORY_NAME, MetadataLog
from ottla.quorum.quorum_state import QuorumState, read_quorum_state, write_quorum_state
from ottla.records.control import leader_change_batch
from ottla.storage.flush import FlushJob

__all__ = ["DIRECTORY_NAME", "SingleVoterQuorum"]

logger = logging.getLogger("ottla.quorum")

KRAFT_VERSION_MAX = 1


class SingleVoterQuorum(MetadataLog):
    """The metadata log of a node that needs no other to commit."""

    __slots__ = ()

    # -- leading ---------------------------------------------------------------------------------------------

    def begin_epoch(self, now_ms: int, bootstrap: Sequence[Message] = ()) -> list[tuple[int, Message]]:
        """Begins to lead; `bootstrap` goes into a log without records: (offset, record) of what did.

        Nothing of the directory has changed before, so whoever must refuse what was replayed leaves it as it
        was. Nothing is committed before the first sync.
        """
        assert self._replayed, "who leads must know the whole log"
        try:
            state = read_quorum_state(self._files, self.directory)
        except QuorumError as error:
            # A voter among others could vote twice then; the only one has nobody to vote for but itself.
            logger.warning("%s: the log tells the epoch", error)
            state = None
        self._check_voters(() if state is None else state.voters)
        last = [0 if state is None else state.leader_epoch, self.log.leader_epochs.latest_epoch or 0]
        last += [snapshot.epoch for snapshot in self._snapshots[-1:]]
        self.epoch = max(0, *last) + 1
        # Not synced: nobody else has seen this epoch, and with the file lost the log tells the last one.
        leader = QuorumState(
            leader_id=self.node_id,
            leader_epoch=self.epoch,
            voters=(self.node_id,),
            version=min(1, self.kraft_version),
        )
        write_quorum_state(self._files, self.directory, leader, durable=False)
        voter = Voter(voter_id=self.node_id)
        change = LeaderChangeMessage(leader_id=self.node_id, voters=[voter], granting_voters=[voter])
        batch = leader_change_batch(change, now_ms, leader_epoch=self.epoch)
        self.log.append_own(batch, self.epoch, now_ms)
        self._last_timestamp_ms = now_ms
        if self._has_records or not bootstrap:
            return []
        first, _ = self.append(bootstrap, now_ms)
        return list(enumerate(bootstrap, first))

    def _check_voters(self, known: Sequence[int]) -> None:
        if self.kraft_version > KRAFT_VERSION_MAX:
            supported = f"this version supports 0 to {KRAFT_VERSION_MAX}"
            raise QuorumError(f"{self.directory} has kraft.version={self.kraft_version}: {supported}")
        if self.kraft_version and self._voters is not None:
            known = [voter.voter_id for voter in self._voters.voters]
        if known and set(known) != {self.node_id}:
            voters = ", ".join(map(str, known))
            text = f"{self.directory} belongs to a quorum of {voters}, not of node.id={self.node_id} alone"
            raise QuorumError(text)

    # -- committing -----------------------------------------------------------------------------------------

    def begin_sync(self) -> FlushJob | None:
        """What has to reach the disk; None if everything is there and thus committed."""
        if self.high_watermark == self.log.log_end_offset:
            return None
        return self.log.begin_flush()

    def finish_sync(self, job: FlushJob, now_ms: int) -> int:
        """The high watermark after the job: records below it are committed. Raises if the disk failed."""
        self.log.finish_flush(job, now_ms)
        self.high_watermark = max(self.high_watermark, job.end_offset)
        return self.high_watermark

    def sync(self, now_ms: int) -> int:
        """Syncs and waits for it, as tests and the end of a process do."""
        job = self.begin_sync()
        if job is not None:
            job.run()
            self.finish_sync(job, now_ms)
        return self.high_watermark
