"""Check fetched batches before they are appended."""

from __future__ import annotations

from typing import NamedTuple

from ottla.protocol.errors import DecodeError
from ottla.protocol.message import Records
from ottla.protocol.messages.kraft_version_record import KRaftVersionRecord
from ottla.protocol.messages.voters_record import VotersRecord
from ottla.quorum.raft.voters import VoterSet
from ottla.records.batch import BatchHeader, CorruptBatch, RecordsError, crc_ok, iter_headers
from ottla.records.control import parse_control_record
from ottla.records.record import iter_records


class FetchedBatches(NamedTuple):
    """Valid complete batches: their bytes, end offset, last epoch, and changes of the voters."""

    records: Records
    end_offset: int
    last_epoch: int
    voter_changes: list[tuple[int, VoterSet | int]]


def check_fetched(records: Records, offset: int, last_epoch: int, leader_epoch: int) -> FetchedBatches | None:
    """Return the complete batches up to the first that is corrupt or out of order; None if there are none."""
    view = memoryview(records)
    changes: list[tuple[int, VoterSet | int]] = []
    end = 0
    start = offset
    try:
        for position, header in iter_headers(view):
            follows = header.base_offset == offset and last_epoch <= header.leader_epoch <= leader_epoch
            if not follows or header.last_offset_delta < 0 or not crc_ok(view, position, header):
                break
            if header.is_control:
                changes += voter_changes(view, position, header)
            offset = header.next_offset
            last_epoch = header.leader_epoch
            end = position + header.size_bytes
    except (CorruptBatch, DecodeError, RecordsError):
        changes = [change for change in changes if change[0] < offset]
    return FetchedBatches(view[:end], offset, last_epoch, changes) if offset > start else None


def voter_changes(view: memoryview, position: int, header: BatchHeader) -> list[tuple[int, VoterSet | int]]:
    """Return (offset, voters or kraft.version) of the records of a control batch that change them."""
    found: list[tuple[int, VoterSet | int]] = []
    for record in iter_records(view, position, header):
        message = parse_control_record(record).message
        if isinstance(message, VotersRecord):
            found.append((record.offset, VoterSet.from_record(message)))
        elif isinstance(message, KRaftVersionRecord):
            found.append((record.offset, message.kraft_version))
    return found
