"""Invariants of compacted topics: the last state of every key stays, tombstones for delete.retention.ms."""

from __future__ import annotations

from simulator.checkers import (
    Checker,
    id_twice,
    lost_commit,
    lost_metadata,
    lost_position,
    surprises,
    two_leaders,
    two_values,
    unavailable,
    unclean_election,
    unwritten_read,
    watermark_back,
)
from simulator.compaction.clients import Entry, parse_entry
from simulator.history.history import History
from simulator.history.operations import OK, PRODUCE, PartitionName

DELETE_RETENTION_MS = 4_000
_NS = 1_000_000


def last_state(history: History) -> list[str]:
    """The last acknowledged or read record of a key, or a newer one, is in the final log.

    Only a tombstone may be removed, and not before delete.retention.ms. A replica that was down for longer
    never receives the tombstone and keeps the deleted record, as in Kafka.
    """
    complaints = []
    newest = _newest(history)
    deletions = _deletions(history)
    for partition, records in history.final.items():
        now_ns = max(
            operation.completed_ns
            for operation in history.of_kind("final-read", OK)
            if operation.target == partition
        )
        copies = {"clients": records}
        for node_id, held in history.replicas.get(partition, {}).items():
            copies[f"node{node_id}"] = held
        for where, held in copies.items():
            state = {entry.key: entry for entry in (parse_entry(text) for _, text in held)}
            for key, number in newest.get(partition, {}).items():
                text = _missing(key, number, state.get(key), deletions.get(key, []), now_ns, len(copies) > 2)
                if text:
                    complaints.append(f"{text} to {where} of {partition}")
    return complaints


def _missing(
    key: str,
    number: int,
    there: Entry | None,
    deletions: list[tuple[int, int]],
    now_ns: int,
    replicated: bool,
) -> str | None:
    if there is not None and there.number >= number:
        return None
    begun = [invoked_ns for deleted, invoked_ns in deletions if deleted >= number]
    if there is not None and not (replicated and begun):
        return f"lost: {key} was at #{number} and is at #{there.number}"
    if not begun:
        return f"lost: {key} was at #{number} and is gone"
    if now_ns - min(begun) < DELETE_RETENTION_MS * _NS:
        return f"tombstone too soon: {key} was deleted at #{number} and the tombstone is gone"
    return None


def _newest(history: History) -> dict[PartitionName, dict[str, int]]:
    """The largest acknowledged or read number of each key."""
    newest: dict[PartitionName, dict[str, int]] = {}

    def reported(partition: PartitionName, text: str) -> None:
        entry = parse_entry(text)
        numbers = newest.setdefault(partition, {})
        numbers[entry.key] = max(entry.number, numbers.get(entry.key, -1))

    for operation in history.of_kind(PRODUCE, OK):
        assert isinstance(operation.target, PartitionName)
        for text in operation.value:
            reported(operation.target, text)
    for read in history.reads:
        reported(read.partition, read.value)
    return newest


def _deletions(history: History) -> dict[str, list[tuple[int, int]]]:
    """(number, time of the request) of all tombstones of a key, acknowledged or not."""
    found: dict[str, list[tuple[int, int]]] = {}
    for operation in history.of_kind(PRODUCE):
        for text in operation.value:
            entry = parse_entry(text)
            if entry.deleted:
                found.setdefault(entry.key, []).append((entry.number, operation.invoked_ns))
    return found


def key_goes_back(history: History) -> list[str]:
    """No reader sees an older state of a key after a newer one, or an offset twice."""
    complaints = []
    seen: dict[tuple[str, PartitionName, str], int] = {}
    offsets: dict[tuple[str, PartitionName], int] = {}
    reads = [(read.client, read.partition, read.offset, read.value) for read in history.reads]
    for partition, records in history.final.items():
        reads += [("the end", partition, offset, value) for offset, value in records]
        for node_id, held in history.replicas.get(partition, {}).items():
            reads += [(f"node{node_id}", partition, offset, value) for offset, value in held]
    for client, partition, offset, value in reads:
        entry = parse_entry(value)
        before = seen.get((client, partition, entry.key), -1)
        if entry.number <= before:
            complaints.append(f"went back: {client} saw {value} of {partition} after #{before}")
        seen[client, partition, entry.key] = entry.number
        if offset <= offsets.get((client, partition), -1):
            complaints.append(f"went back: {client} saw {partition}@{offset} again")
        offsets[client, partition] = offset
    return complaints


COMPACTED: tuple[Checker, ...] = (
    last_state,
    key_goes_back,
    unwritten_read,
    two_values,
    lost_position,
    watermark_back,
    two_leaders,
    lost_metadata,
    lost_commit,
    unclean_election,
    id_twice,
    unavailable,
    surprises,
)
