"""`__cluster_metadata-0` on disk: its log, its snapshots, and their retention.

`raft` decides which node may append and what is committed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from typing import Self

from ottla.protocol.message import Message
from ottla.protocol.messages.kraft_version_record import KRaftVersionRecord
from ottla.protocol.messages.voters_record import VotersRecord
from ottla.protocol.uuids import METADATA_TOPIC_ID
from ottla.quorum.errors import QuorumError
from ottla.quorum.framing import batch_messages, frame_batches
from ottla.quorum.settings import MetadataLogSettings
from ottla.quorum.snapshot import (
    SnapshotId,
    SnapshotJob,
    list_snapshots,
    read_snapshot,
    snapshot_batches,
    snapshot_timestamp_ms,
)
from ottla.records.batch import BatchHeader, crc_ok, iter_headers
from ottla.storage.errors import DiskFull
from ottla.storage.files import Files
from ottla.storage.log import PartitionLog, open_log
from ottla.storage.log_dir import LogDir

logger = logging.getLogger("ottla.quorum")

DIRECTORY_NAME = "__cluster_metadata-0"
_READ_BYTES = 1 << 20
# A snapshot rolls the active segment, so that the segment can be deleted; a smaller segment is not rolled.
_ROLL_BYTES_MIN = 1 << 20


class MetadataLog:
    """The metadata log of a node. Only its jobs may run in other threads."""

    __slots__ = (
        "_applied_bytes",
        "_files",
        "_last_timestamp_ms",
        "_settings",
        "_snapshot_bytes",
        "_snapshot_due_ms",
        "_snapshot_running",
        "_snapshots",
        "directory",
        "epoch",
        "log",
        "node_id",
    )

    def __init__(self, files: Files, log: PartitionLog, settings: MetadataLogSettings, node_id: int) -> None:
        self._files = files
        self._settings = settings
        self.log = log
        self.directory = log.directory
        self.node_id = node_id
        self.epoch = 0
        self._snapshots: list[SnapshotId] = []
        self._applied_bytes = 0  # since the newest snapshot
        self._snapshot_bytes = 0  # covered by the snapshot that is being written
        self._snapshot_due_ms = 0
        self._snapshot_running = False
        self._last_timestamp_ms = -1

    @classmethod
    def open(
        cls,
        files: Files,
        log_dir: str | LogDir,
        settings: MetadataLogSettings,
        *,
        node_id: int,
        now_ms: int,
        clean: bool = False,
        recovery_point: int | None = None,
    ) -> Self:
        """Open or create the log in `log_dir`. The caller replays it, then leads or follows."""
        place = LogDir(log_dir) if isinstance(log_dir, str) else log_dir
        directory = f"{place.path}/{DIRECTORY_NAME}"
        log = open_log(
            files,
            directory,
            settings.log_config(),
            now_ms=now_ms,
            clean=clean,
            recovery_point=recovery_point,
            log_dir=place,
        )
        found = cls(files, log, settings, node_id)
        log.set_topic_id(METADATA_TOPIC_ID)
        found._find_snapshots(now_ms)
        return found

    # -- opening ---------------------------------------------------------------------------------------------

    def _find_snapshots(self, now_ms: int) -> None:
        self._snapshots = list_snapshots(self._files, self.directory)
        while self._snapshots:
            try:
                read_snapshot(self._files, self.directory, self._snapshots[-1])
                break
            except QuorumError as error:
                # Keep the file for inspection; an older snapshot and the log after it may be complete.
                logger.error("%s: using the previous snapshot", error)
                self._snapshots.pop()
        latest = self.latest_snapshot
        log = self.log
        if latest is not None and latest.end_offset > log.log_end_offset:
            # The snapshot is complete and newer than the log, so the log continues after it.
            logger.warning("%s ends at %d, before its snapshot", self.directory, log.log_end_offset)
            log.truncate_fully_and_start_at(latest.end_offset)
        elif latest is not None and log.log_start_offset < latest.end_offset:
            epoch = log.leader_epochs.epoch_for_offset(latest.end_offset - 1)
            if epoch >= 0 and epoch != latest.epoch:
                # A leader's snapshot was installed, but the node stopped before the old log was deleted.
                text = "%s has epoch %d where its snapshot has %d: the log continues after the snapshot"
                logger.warning(text, self.directory, epoch, latest.epoch)
                log.truncate_fully_and_start_at(latest.end_offset)
        if self._snapshots and log.log_start_offset < self._snapshots[0].end_offset <= log.log_end_offset:
            # Whole segments below the snapshot may still exist, but their epochs are unknown.
            log.advance_log_start_offset(self._snapshots[0].end_offset)
        self._snapshot_due_ms = now_ms + self._settings.snapshot_interval_ms

    def replay(self) -> Iterator[tuple[int, int, Message]]:
        """Yield (offset, epoch, record) of the newest complete snapshot and the log after it.

        Records of a snapshot carry the offset and epoch of its end.
        """
        start = 0
        snapshot = self.latest_snapshot
        if snapshot is not None:
            for message in read_snapshot(self._files, self.directory, snapshot):
                yield snapshot.end_offset - 1, snapshot.epoch, message
            start = snapshot.end_offset
        if start < self.log.log_start_offset:
            text = (
                f"{self.directory} begins at {self.log.log_start_offset} without a complete snapshot below it"
            )
            raise QuorumError(text)
        for data, position, header in self._batches_from(start):
            if header.is_control:
                continue
            self._last_timestamp_ms = max(self._last_timestamp_ms, header.max_timestamp)
            for offset, message in batch_messages(data, position, header):
                if offset >= start:
                    yield offset, header.leader_epoch, message

    def _batches_from(self, offset: int) -> Iterator[tuple[bytes, int, BatchHeader]]:
        log = self.log
        while offset < log.log_end_offset:
            data = log.read(offset, _READ_BYTES).read()
            before = offset
            for position, header in iter_headers(data):
                if not crc_ok(data, position, header):
                    raise QuorumError(f"{self.directory} is damaged at offset {header.base_offset}")
                yield data, position, header
                offset = header.next_offset
            if offset == before:
                raise QuorumError(f"{self.directory} cannot be read at offset {offset}")

    # -- appending -------------------------------------------------------------------------------------------

    @property
    def next_offset(self) -> int:
        return self.log.log_end_offset

    def append(self, messages: Iterable[Message], now_ms: int) -> tuple[int, int]:
        """Write the records; return the first and last offset. On failure the log has none of them."""
        base = self.log.log_end_offset
        try:
            for batch in frame_batches(messages, now_ms, leader_epoch=self.epoch):
                self.log.append_internal(batch, self.epoch, now_ms)
        except DiskFull:
            if self.log.log_end_offset > base:
                self.log.truncate_to(base)
            raise
        assert self.log.log_end_offset > base, "a decision without records needs no append"
        self._last_timestamp_ms = now_ms
        return base, self.log.log_end_offset - 1

    # -- snapshots -------------------------------------------------------------------------------------------

    @property
    def latest_snapshot(self) -> SnapshotId | None:
        return self._snapshots[-1] if self._snapshots else None

    def wants_snapshot(self, now_ms: int) -> bool:
        """Whether enough records were applied since the last snapshot, or enough time has passed."""
        if self._snapshot_running:
            return False
        settings = self._settings
        if self._applied_bytes >= settings.snapshot_after_bytes:
            return True
        due = settings.snapshot_interval_ms > 0 and now_ms >= self._snapshot_due_ms
        return due and self._applied_bytes > 0

    def maybe_snapshot(
        self,
        image_records: Callable[[], Iterable[Message]],
        end_offset: int,
        now_ms: int,
        *,
        kraft_version: KRaftVersionRecord | None = None,
        voters: VotersRecord | None = None,
        force: bool = False,
    ) -> SnapshotJob | None:
        """Return a job that writes a snapshot, if one is due.

        `image_records` is the image of everything below `end_offset`, which must be committed, as must the
        voters.
        """
        latest = self.latest_snapshot
        if not force and (not self.wants_snapshot(now_ms) or (latest and latest.end_offset >= end_offset)):
            return None
        if end_offset < self.log.log_start_offset:
            return None  # the leader's snapshot is installed, but the image is still older
        assert end_offset <= self.log.log_end_offset, end_offset
        epoch = self.log.leader_epochs.epoch_for_offset(end_offset - 1)
        if epoch < 0 and latest is not None:
            epoch = latest.epoch
        snapshot_id = SnapshotId(end_offset, max(0, epoch))
        batches = snapshot_batches(
            image_records(),
            snapshot_id,
            self._last_timestamp_ms,
            now_ms,
            kraft_version=kraft_version,
            voters=voters,
        )
        self._snapshot_running = True
        self._snapshot_bytes = self._applied_bytes
        self._snapshot_due_ms = now_ms + self._settings.snapshot_interval_ms
        return SnapshotJob(self._files, self.directory, snapshot_id, batches)

    def finish_snapshot(self, job: SnapshotJob, now_ms: int) -> None:
        """Register the snapshot and drop what retention does not keep.

        A failed snapshot only costs disk space: the next one that is due replaces it.
        """
        self._snapshot_running = False
        if job.error is not None:
            logger.error("snapshot of the metadata failed: %s", job.error)
            return
        latest = self.latest_snapshot
        if latest is not None and latest > job.snapshot_id:
            # The leader's snapshot was installed meanwhile, and the log starts after it.
            self._files.remove(f"{self.directory}/{job.snapshot_id.file_name}")
            return
        if job.snapshot_id not in self._snapshots:
            self._snapshots.append(job.snapshot_id)
        if self._snapshot_bytes >= _ROLL_BYTES_MIN:
            self.log.roll(now_ms)
        self._applied_bytes -= self._snapshot_bytes
        self.clean(now_ms)

    def clean(self, now_ms: int) -> None:
        """Keep the newest snapshot, and older ones and the log after them within the retention."""
        while len(self._snapshots) > 1 and self._over_retention(now_ms):
            oldest = self._snapshots.pop(0)
            self._files.remove(f"{self.directory}/{oldest.file_name}")
        if self._snapshots:
            self.log.advance_log_start_offset(self._snapshots[0].end_offset)
            self.log.delete_old_segments(now_ms, self._snapshots[0].end_offset)
            self.log.remove_due(now_ms)

    def _over_retention(self, now_ms: int) -> bool:
        settings = self._settings
        if settings.retention_bytes >= 0:
            paths = [f"{self.directory}/{snapshot.file_name}" for snapshot in self._snapshots]
            total = self.log.size_bytes + sum(max(0, self._files.size(path)) for path in paths)
            if total > settings.retention_bytes:
                return True
        taken_ms = snapshot_timestamp_ms(self._files, self.directory, self._snapshots[0])
        return settings.retention_ms >= 0 and now_ms - taken_ms > settings.retention_ms

    # -- ending ----------------------------------------------------------------------------------------------

    def close(self, now_ms: int) -> None:
        """Flush and close; after a clean shutdown the next start need not scan the log."""
        self.log.close(now_ms)
