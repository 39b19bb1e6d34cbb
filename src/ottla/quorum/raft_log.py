"""The metadata log as the Raft machine uses it: its view of the log, and the operations of effects."""

from __future__ import annotations

import logging
from bisect import bisect_right
from collections.abc import Iterator

from ottla.protocol.message import Message
from ottla.protocol.messages.kraft_version_record import KRaftVersionRecord
from ottla.protocol.messages.voters_record import VotersRecord
from ottla.quorum.errors import QuorumError
from ottla.quorum.framing import batch_messages
from ottla.quorum.metadata_log import MetadataLog
from ottla.quorum.quorum_state import QuorumState, read_quorum_state, write_quorum_state
from ottla.quorum.raft.voters import VoterHistory, VoterSet
from ottla.quorum.snapshot import (
    TEMPORARY_SUFFIX,
    SnapshotId,
    read_snapshot,
    snapshot_header_messages,
)
from ottla.records.control import parse_control_record
from ottla.records.record import iter_records
from ottla.storage.log.region import FileRegion

logger = logging.getLogger("ottla.quorum")


class RaftLog(MetadataLog):
    """A LogView (see raft.log_view) with the operations of the effects."""

    __slots__ = ()

    # -- what the machine sees

    @property
    def start_offset(self) -> int:
        return self.log.log_start_offset

    @property
    def end_offset(self) -> int:
        return self.log.log_end_offset

    @property
    def flushed_offset(self) -> int:
        return min(max(self.log.recovery_point, self.log.log_start_offset), self.log.log_end_offset)

    @property
    def last_epoch(self) -> int:
        latest = self.log.leader_epochs.latest_epoch
        snapshot = self.latest_snapshot
        return max(latest, 0 if snapshot is None else snapshot.epoch, 0)

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        entries = self.log.leader_epochs.entries()
        index = bisect_right(entries, (epoch, self.end_offset + 1)) - 1
        if index < 0:
            snapshot = self.earliest_snapshot
            if snapshot is not None and snapshot.epoch <= epoch:
                return snapshot.epoch, self.start_offset
            return epoch, self.start_offset
        end = entries[index + 1][1] if index + 1 < len(entries) else self.end_offset
        return entries[index][0], end

    @property
    def earliest_snapshot(self) -> SnapshotId | None:
        for snapshot in self._snapshots:
            if snapshot.end_offset == self.start_offset:
                return snapshot
        return None

    def snapshot_bytes(self, snapshot_id: SnapshotId) -> int | None:
        if snapshot_id not in self._snapshots:
            return None
        return max(0, self._files.size(f"{self.directory}/{snapshot_id.file_name}"))

    # -- writing

    def append_control(self, batch: bytearray, epoch: int, now_ms: int) -> None:
        self.log.append_internal(batch, epoch, now_ms)

    def append_fetched(self, records: bytes | bytearray | memoryview, now_ms: int) -> None:
        self.log.append_as_follower(records, now_ms)

    # -- epoch and vote

    def quorum_state(self, *, alone: bool = False) -> QuorumState | None:
        """Return the state of the last run.

        `alone`: the only voter can vote for itself alone, and the epoch is also in the log, so an unreadable
        file is not fatal.
        """
        try:
            return read_quorum_state(self._files, self.directory)
        except QuorumError as error:
            if not alone:
                raise
            logger.warning("%s: using the epoch of the log", error)
            return None

    def persist(self, state: QuorumState) -> None:
        """Durable on return; may be called in another thread."""
        write_quorum_state(self._files, self.directory, state)

    # -- reading

    def voter_history(self, static: VoterSet) -> VoterHistory:
        """Return the voters in the snapshot and the log, committed or not."""
        history = VoterHistory(static)
        snapshot = self.latest_snapshot
        start = self.start_offset
        if snapshot is not None:
            version, voters = _controls(snapshot_header_messages(self._files, self.directory, snapshot))
            history.restart(snapshot.end_offset, version, voters)
            start = max(start, snapshot.end_offset)
        for data, position, header in self._batches_from(start):
            if header.is_control:
                for record in iter_records(data, position, header):
                    message = parse_control_record(record).message
                    if isinstance(message, KRaftVersionRecord):
                        history.add(record.offset, message.kraft_version)
                    elif isinstance(message, VotersRecord):
                        history.add(record.offset, VoterSet.from_record(message))
        return history

    def committed(self, start: int, end: int) -> Iterator[tuple[int, list[Message]]]:
        """Yield (next offset, records) of each batch from `start` to `end`.

        Read each batch once: its size counts towards the next snapshot.
        """
        for data, position, header in self._batches_from(start):
            if header.base_offset >= end:
                return
            messages = [] if header.is_control else [m for _, m in batch_messages(data, position, header)]
            self._last_timestamp_ms = max(self._last_timestamp_ms, header.max_timestamp)
            self._applied_bytes += header.size_bytes
            yield header.next_offset, messages

    def snapshot_messages(self, snapshot_id: SnapshotId) -> Iterator[Message]:
        return read_snapshot(self._files, self.directory, snapshot_id)

    def records_from(self, offset: int, max_bytes: int) -> FileRegion:
        return self.log.read(offset, max_bytes)

    def snapshot_part(self, snapshot_id: SnapshotId, position: int, max_bytes: int) -> bytes:
        file = self._files.open(f"{self.directory}/{snapshot_id.file_name}")
        try:
            return file.read(position, max_bytes)
        finally:
            file.close()

    # -- installing a snapshot of the leader

    def begin_snapshot(self, snapshot_id: SnapshotId) -> None:
        self._files.remove(self._incoming(snapshot_id))

    def write_snapshot(self, snapshot_id: SnapshotId, position: int, data: bytes | memoryview) -> None:
        file = self._files.open(self._incoming(snapshot_id))
        assert file.size == position, (file.size, position)
        file.append(data)
        file.close()

    def install_snapshot(self, snapshot_id: SnapshotId) -> tuple[int, VoterSet | None]:
        """Check the file, rename it and start the log after it; return (kraft.version, voters) of its header.

        Raises QuorumError if it is corrupt: it must be fetched again.
        """
        path = f"{self.directory}/{snapshot_id.file_name}"
        file = self._files.open(self._incoming(snapshot_id))
        file.sync()
        file.close()
        self._files.rename(self._incoming(snapshot_id), path)
        try:
            for _ in read_snapshot(self._files, self.directory, snapshot_id):
                pass
        except QuorumError:
            self._files.remove(path)
            raise
        self._files.sync_dir(self.directory)
        for older in self._snapshots:
            self._files.remove(f"{self.directory}/{older.file_name}")
        self._snapshots = [snapshot_id]
        self._applied_bytes = self._snapshot_bytes = 0
        self.log.truncate_fully_and_start_at(snapshot_id.end_offset)
        return _controls(snapshot_header_messages(self._files, self.directory, snapshot_id))

    def _incoming(self, snapshot_id: SnapshotId) -> str:
        return f"{self.directory}/{snapshot_id.file_name}{TEMPORARY_SUFFIX}"


def _controls(messages: list[object]) -> tuple[int, VoterSet | None]:
    version, voters = 0, None
    for message in messages:
        if isinstance(message, KRaftVersionRecord):
            version = message.kraft_version
        elif isinstance(message, VotersRecord):
            voters = VoterSet.from_record(message)
    return version, voters
