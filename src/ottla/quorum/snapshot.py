"""Snapshots of the metadata: `<end offset>-<epoch>.checkpoint` in the directory of the log.

A snapshot holds the records that build the image below its end offset, between a control batch with the
header and one with the footer; without the footer it is incomplete. It is renamed atomically.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from ottla.protocol.message import Message
from ottla.protocol.messages.kraft_version_record import KRaftVersionRecord
from ottla.protocol.messages.snapshot_header_record import SnapshotHeaderRecord
from ottla.protocol.messages.voters_record import VotersRecord
from ottla.quorum.errors import QuorumError
from ottla.quorum.framing import batch_messages, frame_batches
from ottla.records.batch import HEADER_BYTES, CorruptBatch, crc_ok, iter_headers, read_header, stamp
from ottla.records.control import (
    SNAPSHOT_FOOTER,
    SNAPSHOT_HEADER,
    parse_control_record,
    snapshot_footer_batch,
    snapshot_header_batch,
)
from ottla.records.record import iter_records
from ottla.storage.errors import StorageError
from ottla.storage.files import Files

SUFFIX = ".checkpoint"
TEMPORARY_SUFFIX = ".checkpoint.tmp"


class SnapshotId(NamedTuple):
    """The first offset that is not in the snapshot, and the epoch of its last record."""

    end_offset: int
    epoch: int

    @property
    def file_name(self) -> str:
        return f"{self.end_offset:020d}-{self.epoch:010d}{SUFFIX}"


class SnapshotJob:
    """A snapshot to write; `run` may be called in another thread."""

    __slots__ = ("_batches", "_files", "_path", "error", "nbytes", "snapshot_id")

    def __init__(
        self, files: Files, directory: str, snapshot_id: SnapshotId, batches: list[bytearray]
    ) -> None:
        self._files = files
        self._path = f"{directory}/{snapshot_id.file_name}"
        self._batches = batches
        self.snapshot_id = snapshot_id
        self.nbytes = sum(map(len, batches))
        self.error: StorageError | None = None

    def run(self) -> None:
        """Block until the snapshot is on disk. Does not raise: `error` holds a failure."""
        try:
            self._files.write_atomic(self._path, b"".join(self._batches))
        except StorageError as error:
            self.error = error
        self._batches = []


def snapshot_batches(
    messages: Iterable[Message],
    snapshot_id: SnapshotId,
    last_contained_log_timestamp_ms: int,
    now_ms: int,
    *,
    kraft_version: KRaftVersionRecord | None = None,
    voters: VotersRecord | None = None,
) -> list[bytearray]:
    """Yield the batches of a snapshot file: offsets start at 0, the epoch is that of the snapshot."""
    epoch = snapshot_id.epoch
    header = snapshot_header_batch(
        last_contained_log_timestamp_ms,
        now_ms,
        leader_epoch=epoch,
        kraft_version=kraft_version,
        voters=voters,
    )
    batches = [header]
    batches += frame_batches(messages, now_ms, leader_epoch=epoch)
    batches.append(snapshot_footer_batch(now_ms, leader_epoch=epoch))
    offset = 0
    for batch in batches:
        stamp(batch, 0, offset, epoch)
        offset += read_header(batch).records_count
    return batches


def list_snapshots(files: Files, directory: str) -> list[SnapshotId]:
    """List the snapshots, oldest first; remove incomplete files."""
    found = []
    for name in files.listdir(directory):
        if name.endswith(TEMPORARY_SUFFIX):
            files.remove(f"{directory}/{name}")
            continue
        offset, dash, epoch = name.removesuffix(SUFFIX).partition("-")
        numbers = len(offset) == 20 and len(epoch) == 10 and (offset + epoch).isdecimal()
        if name.endswith(SUFFIX) and dash and numbers:
            found.append(SnapshotId(int(offset), int(epoch)))
    return sorted(found)


def read_snapshot(files: Files, directory: str, snapshot_id: SnapshotId) -> Iterator[Message]:
    """Check the whole snapshot and yield its records. Raises QuorumError if it is corrupt or incomplete."""
    path = f"{directory}/{snapshot_id.file_name}"
    data = files.read_bytes(path)
    if data is None:
        raise QuorumError(f"{path} is gone")
    try:
        _check_whole(data)
    except (CorruptBatch, QuorumError) as error:
        raise QuorumError(f"{path} is damaged: {error}") from error
    return _messages(data)


def _check_whole(data: bytes) -> None:
    controls: list[int] = []
    closed = False
    end = 0
    for position, header in iter_headers(data):
        if not crc_ok(data, position, header):
            raise QuorumError(f"the checksum of the batch at byte {position} does not match")
        if header.is_control:
            records = iter_records(data, position, header)
            controls += [parse_control_record(record).control_type for record in records]
        closed = header.is_control and controls[-1] == SNAPSHOT_FOOTER
        end = position + header.size_bytes
        if not controls or controls[0] != SNAPSHOT_HEADER:
            raise QuorumError("the header is missing")
    if not closed or end != len(data):
        raise QuorumError("the footer is missing")


def _messages(data: bytes) -> Iterator[Message]:
    for position, header in iter_headers(data):
        if not header.is_control:
            for _, message in batch_messages(data, position, header):
                yield message


def snapshot_timestamp_ms(files: Files, directory: str, snapshot_id: SnapshotId) -> int:
    """Return the time of the newest record in the snapshot, from its header; -1 if it cannot be read."""
    for message in snapshot_header_messages(files, directory, snapshot_id):
        if isinstance(message, SnapshotHeaderRecord):
            return message.last_contained_log_timestamp
    return -1


def snapshot_header_messages(files: Files, directory: str, snapshot_id: SnapshotId) -> list[object]:
    """Return the first batch: the header, and for a dynamic quorum its kraft.version and voters."""
    file = files.open(f"{directory}/{snapshot_id.file_name}")
    try:
        data = file.read(0, HEADER_BYTES)
        data = file.read(0, read_header(data).size_bytes)
        return [parse_control_record(record).message for record in iter_records(data, 0, read_header(data))]
    except CorruptBatch:
        return []
    finally:
        file.close()
