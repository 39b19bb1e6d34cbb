"""Invariants of every history. A checker returns one line for each violation.

Names follow Jepsen: lost write, duplicate, unwritten read, and so on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from simulator.history.history import History
from simulator.history.operations import OK, PRODUCE, PartitionName

Checker = Callable[[History], list[str]]
SHOWN_MAX = 3
GONE = "gone"
MUST_END_WELL = (PRODUCE, "create-topic", "final-read", "in-sync")


def lost_write(history: History) -> list[str]:
    """Every acknowledged record is in the final log, at the acknowledged offset."""
    found: dict[PartitionName, dict[str, int]] = {
        partition: {value: offset for offset, value in records}
        for partition, records in history.final.items()
    }
    complaints = []
    for operation in history.of_kind(PRODUCE, OK):
        assert isinstance(operation.target, PartitionName)
        there = found.get(operation.target, {})
        for position, value in enumerate(operation.value):
            if value not in there:
                complaints.append(f"lost: {value} was acknowledged at {operation.target}@{operation.result}")
            elif operation.result is not None and there[value] != operation.result + position:
                reported = operation.result + position
                complaints.append(f"moved: {value} was acknowledged at {reported} and is at {there[value]}")
    return complaints


def duplicate(history: History) -> list[str]:
    """No record of an idempotent producer is in the final log twice."""
    complaints = []
    for partition, records in history.final.items():
        seen: dict[str, int] = {}
        for offset, value in records:
            if value in seen:
                complaints.append(f"duplicate: {value} is at {partition}@{seen[value]} and @{offset}")
            seen[value] = offset
    return complaints


def unwritten_read(history: History) -> list[str]:
    """Every record that was read had been written to that partition."""
    written = {(operation.target, value) for operation in history.written() for value in operation.value}
    return [
        f"unwritten: {client} read {value} at {partition}@{offset}"
        for client, partition, offset, value in _all_reads(history)
        if (partition, value) not in written
    ]


def two_values(history: History) -> list[str]:
    """All reads of an offset return the same value."""
    known: dict[tuple[PartitionName, int], tuple[str, str]] = {}
    complaints = []
    for client, partition, offset, value in _all_reads(history):
        first = known.setdefault((partition, offset), (value, client))
        if first[0] != value:
            complaints.append(
                f"two values: {partition}@{offset} was {first[0]} to {first[1]}, {value} to {client}"
            )
    return complaints


def lost_read(history: History) -> list[str]:
    """Every record that a consumer has read is in the final log."""
    final = {partition: dict(records) for partition, records in history.final.items()}
    return [
        f"lost read: {read.client} saw {read.value} at {read.partition}@{read.offset}"
        for read in history.reads
        if read.partition in final and read.offset not in final[read.partition]
    ]


def lost_position(history: History) -> list[str]:
    """The log never ends before a consumer's position: the records below it were committed."""
    return [
        f"lost position: {client} had read {partition} to {position}, which is out of range"
        for client, partition, position in history.lost_positions
    ]


def watermark_back(history: History) -> list[str]:
    """The high watermark is never below what a consumer has read.

    A new leader may not know all that is committed yet, and report a smaller high watermark than its
    predecessor to a consumer that has not read that far. Kafka does so too; the consumer sees only its lag
    change.
    """
    return [
        f"watermark went back: {client} got {offset} when it had read {partition} to {position}"
        for client, partition, offset, position in history.watermarks
        if offset < position
    ]


def order(history: History) -> list[str]:
    """Records of a producer are in a partition in the order of writing, without gaps in the offsets."""
    complaints = []
    rank = {
        value: number
        for number, value in enumerate(
            value for operation in history.of_kind(PRODUCE) for value in operation.value
        )
    }
    writer = {value: operation.client for operation in history.of_kind(PRODUCE) for value in operation.value}
    for partition, records in history.final.items():
        last: dict[str, tuple[int, str]] = {}
        for position, (offset, value) in enumerate(records):
            if position and offset != records[position - 1][0] + 1:
                complaints.append(f"gap: {partition} has {offset} after {records[position - 1][0]}")
            before = last.get(writer.get(value, ""))
            if value in rank:
                if before is not None and before[0] > rank[value]:
                    complaints.append(f"order: {partition} has {value} after {before[1]}")
                last[writer[value]] = (rank[value], value)
    return complaints


def two_leaders(history: History) -> list[str]:
    """A leader epoch has one leader, in partitions and in the metadata quorum."""
    known: dict[tuple[PartitionName, int], int] = {}
    complaints = []
    controllers: dict[int, int] = {}
    for epoch, node_id in history.raft_leaders:
        if controllers.setdefault(epoch, node_id) != node_id:
            text = f"the quorum was led by {controllers[epoch]} and {node_id} in epoch {epoch}"
            complaints.append(f"two leaders: {text}")
    for partition, epoch, leader in history.leaders:
        first = known.setdefault((partition, epoch), leader)
        if first != leader:
            complaints.append(f"two leaders: {partition} epoch {epoch} was led by {first} and {leader}")
    return complaints


def replicas_differ(history: History) -> list[str]:
    """Below the high watermark all replicas have the value that clients read."""
    complaints = []
    for partition, by_node in history.replicas.items():
        known = {offset: (value, "clients") for offset, value in history.final.get(partition, ())}
        for node_id, records in by_node.items():
            for offset, value in records:
                first = known.setdefault(offset, (value, f"node{node_id}"))
                if first[0] != value:
                    text = f"{partition}@{offset} is {first[0]} to {first[1]} and {value} on node{node_id}"
                    complaints.append(f"replicas differ: {text}")
    return complaints


def lost_metadata(history: History) -> list[str]:
    """Every acknowledged change is in the final metadata, and topics keep their ids."""
    complaints = []
    wanted: dict[str, str] = {}
    for operation in history.of_kind("admin", OK):
        wanted[str(operation.target)] = operation.value[0]
    for key, value in wanted.items():
        there = history.final_facts.get(key, GONE)
        if there != value and there not in history.loose.get(key, ()):
            complaints.append(f"lost metadata: {key} was made {value} and is {there}")
    for operation in history.of_kind("create-topic", OK):
        there_id = history.final_topics.get(str(operation.target))
        deleted = operation.result is not None and f"topic {operation.result.hex()}" in (
            *wanted,
            *history.loose,
        )
        if deleted:
            continue
        if there_id is None:
            complaints.append(f"lost metadata: topic {operation.target} was created and is gone")
        elif operation.result is not None and there_id != operation.result:
            complaints.append(f"lost metadata: topic {operation.target} has another id now")
    return complaints


def lost_commit(history: History) -> list[str]:
    """Committed metadata stays committed, with the same records on all nodes."""
    complaints = []
    epochs: dict[int, int] = {}
    for offset, epoch in history.committed_metadata:
        if epochs.setdefault(offset, epoch) != epoch:
            text = f"metadata offset {offset} was committed in epoch {epochs[offset]} and in {epoch}"
            complaints.append(f"lost commit: {text}")
    batches: dict[int, tuple[tuple[int, int], int]] = {}
    for node_id, by_offset in history.final_metadata.items():
        for offset, batch in by_offset.items():
            first = batches.setdefault(offset, (batch, node_id))
            if first[0] != batch:
                text = f"metadata offset {offset} differs on node{first[1]} and node{node_id}"
                complaints.append(f"lost commit: {text}")
    return complaints


def unclean_election(history: History) -> list[str]:
    """Only in-sync replicas are elected, unless the topic allows unclean elections."""
    return [f"unclean election: {text}" for text in history.unclean_elections]


def id_twice(history: History) -> list[str]:
    """A producer id is issued once."""
    complaints = []
    owners: dict[int, str] = {}
    for producer_id, client in history.producer_ids:
        if producer_id in owners:
            complaints.append(f"id twice: {producer_id} was given to {owners[producer_id]} and {client}")
        owners[producer_id] = client
    return complaints


def unavailable(history: History) -> list[str]:
    """After healing, all operations succeed."""
    return [
        f"unavailable: {operation}"
        for operation in history.operations
        if operation.kind in MUST_END_WELL and operation.outcome != OK
    ]


def not_whole(history: History) -> list[str]:
    """The same as `unavailable`, but a producer may lose records."""
    return [
        f"unavailable: {operation}"
        for operation in history.operations
        if operation.kind in MUST_END_WELL and operation.kind != PRODUCE and operation.outcome != OK
    ]


def surprises(history: History) -> list[str]:
    """No client received an impossible response: a wrong checksum, a lost sequence."""
    return [f"surprise: {text}" for text in history.surprises]


LOSSLESS: tuple[Checker, ...] = (
    lost_write,
    duplicate,
    unwritten_read,
    two_values,
    lost_read,
    lost_position,
    watermark_back,
    order,
    two_leaders,
    replicas_differ,
    lost_metadata,
    lost_commit,
    unclean_election,
    id_twice,
    unavailable,
    surprises,
)
"""The guarantees with acks=all, and with flushes where all machines may lose power at once."""


LOSSY: tuple[Checker, ...] = (
    duplicate,
    unwritten_read,
    two_leaders,
    replicas_differ,
    lost_metadata,
    lost_commit,
    id_twice,
    not_whole,
)
"""The guarantees that remain with unclean leader election."""


def check(history: History, checkers: Iterable[Checker] = LOSSLESS) -> list[str]:
    """Return the violations of all checkers, at most SHOWN_MAX of each."""
    complaints = []
    for checker in checkers:
        found = checker(history)
        complaints += found[:SHOWN_MAX]
        if len(found) > SHOWN_MAX:
            complaints.append(f"and {len(found) - SHOWN_MAX} more of {checker.__name__}")
    return complaints


def _all_reads(history: History) -> Iterable[tuple[str, PartitionName, int, str]]:
    yield from history.reads
    for partition, records in history.final.items():
        for offset, value in records:
            yield "the end", partition, offset, value
