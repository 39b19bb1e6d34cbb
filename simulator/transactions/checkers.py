"""Invariants of transactions under all faults.

Names follow Jepsen's reports: lost write, aborted read, torn transaction, a write that becomes part of a
later transaction.
"""

from __future__ import annotations

from collections.abc import Iterator

from simulator.checkers import LOSSLESS, Checker
from simulator.history.history import History
from simulator.history.operations import PartitionName
from simulator.history.transactions import (
    ABORTED,
    COMMIT,
    COMMITTED,
    DATA,
    UNKNOWN,
    IssuedPair,
    LogEntry,
    Pair,
    TakeOver,
    TxnEntry,
    TxnLedger,
)


def lost_transaction(history: History) -> list[str]:
    """Every record of a transaction with an acknowledged commit is in the final log, for all readers."""
    complaints = []
    for reader, found in _finals(history):
        for entry in _ledger(history).entries.values():
            if entry.fate != COMMITTED:
                continue
            missing = [value for value, name in entry.values.items() if value not in found.get(name, ())]
            if missing:
                text = f"{entry} was committed, {reader} misses {len(missing)} of {len(entry.values)}"
                complaints.append(f"lost transaction: {text}: {missing[0]}")
    return complaints


def aborted_read(history: History) -> list[str]:
    """No read_committed reader sees an aborted record."""
    ledger = _ledger(history)
    complaints = []
    for client, name, offset, value in _all_seen(ledger):
        entry = ledger.by_value.get(value)
        if entry is None or entry.values[value] != name:
            complaints.append(
                f"aborted read: {client} read {value} at {name}@{offset}, which was not written"
            )
        elif entry.fate == ABORTED:
            complaints.append(f"aborted read: {client} read {value} at {name}@{offset} of {entry}")
    return complaints


def torn(history: History) -> list[str]:
    """All records of a transaction are visible at the end, or none, also if its outcome is unknown."""
    complaints = []
    for reader, found in _finals(history):
        for entry in _ledger(history).entries.values():
            there = [value for value, name in entry.values.items() if value in found.get(name, ())]
            if there and len(there) != len(entry.values):
                text = f"{entry}: {reader} sees {len(there)} of {len(entry.values)}, {there[0]} is there"
                complaints.append(f"torn: {text}")
    return complaints


def twice(history: History) -> list[str]:
    """No record is in the final log twice."""
    complaints = []
    for reader, by_partition in _ledger(history).final.items():
        for name, records in by_partition.items():
            seen: dict[str, int] = {}
            for offset, value in records:
                if value in seen:
                    complaints.append(f"twice: {reader} has {value} at {name}@{seen[value]} and @{offset}")
                seen[value] = offset
    return complaints


def later_transaction(history: History) -> list[str]:
    """In the log, batches between two markers of a producer belong to one transaction and have its epoch and
    outcome."""
    ledger = _ledger(history)
    complaints = []
    for name, log in ledger.logs.items():
        by_pair: dict[int, list[LogEntry]] = {}
        epochs: dict[int, int] = {}
        for batch in log:
            producer_id, epoch = batch.pair
            if epoch < epochs.get(producer_id, -1):
                text = f"{name}@{batch.offset} has epoch {epoch} of producer {producer_id}"
                complaints.append(f"old epoch: {text} after {epochs[producer_id]}")
            epochs[producer_id] = max(epoch, epochs.get(producer_id, -1))
            if batch.kind == DATA:
                by_pair.setdefault(producer_id, []).append(batch)
            else:
                complaints += _check_end(ledger, name, by_pair.pop(producer_id, []), batch)
    return complaints


def _check_end(
    ledger: TxnLedger, name: PartitionName, batches: list[LogEntry], marker: LogEntry
) -> Iterator[str]:
    entries: dict[str, TxnEntry] = {}
    for batch in batches:
        for value in batch.values:
            entry = ledger.by_value.get(value)
            if entry is None:
                yield f"later transaction: {name}@{batch.offset} has {value}, which was not written"
                continue
            entries[entry.name] = entry
            if entry.pair != batch.pair:
                yield f"later transaction: {name}@{batch.offset} has {value} under {batch.pair}: {entry}"
    if len(entries) > 1:
        names = ", ".join(str(entry) for entry in entries.values())
        yield f"later transaction: one marker at {name}@{marker.offset} ends {names}"
    fate = COMMITTED if marker.kind == COMMIT else ABORTED
    for entry in entries.values():
        if entry.fate not in (fate, UNKNOWN):
            yield f"later transaction: {entry} was {entry.fate}, {name}@{marker.offset} says {marker.kind}"


def zombie(history: History) -> list[str]:
    """After a new instance has taken over, no request with an earlier epoch succeeds."""
    ledger = _ledger(history)
    by_id: dict[str, list[TakeOver]] = {}
    for take_over in ledger.take_overs:
        by_id.setdefault(take_over.transactional_id, []).append(take_over)
    return [
        f"zombie: {done.instance} succeeded with {done.what} in epoch {done.pair[1]} after {later.instance} "
        f"had taken over in {later.pair[1]}"
        for done in ledger.acknowledged
        for later in by_id.get(done.transactional_id, ())
        if later.at_ns <= done.invoked_ns
        and later.pair[0] == done.pair[0]
        and later.pair[1] > done.pair[1]
        and later.instance != done.instance
        and (done.is_end or not later.keeps)
    ]


def stable_back(history: History) -> list[str]:
    """The last stable offset is never below what was read, and of one leader it never decreases; records read
    under read_committed stay visible, and all records that were read stay in the log."""
    ledger = _ledger(history)
    complaints = []
    highest: dict[tuple[str, PartitionName, int], int] = {}
    for client, name, offset, position, epoch in ledger.stable:
        before = max(position, highest.get((client, name, epoch), 0))
        if offset < before:
            text = f"{client} got {offset} of {name} after {before}"
            complaints.append(f"stable offset went back: {text}, which it had read to {position}")
        highest[client, name, epoch] = max(before, offset)
    final = {
        (name, offset): value
        for name, records in ledger.final.get(ledger.reader, {}).items()
        for offset, value in records
    }
    logs = {
        (name, offset): value
        for name, log in ledger.logs.items()
        for batch in log
        for offset, value in enumerate(batch.values, batch.offset)
    }
    for there, seen in ((final, ledger.seen), (logs, ledger.seen_open)):
        for client, name, offset, value in seen:
            if there and there.get((name, offset)) != value:
                now = there.get((name, offset), "nothing")
                complaints.append(
                    f"lost read: {client} saw {value} at {name}@{offset}, in the end it is {now}"
                )
    return complaints


def hanging(history: History) -> list[str]:
    """When clients are idle every transaction ends, and the last stable offset reaches the log end."""
    return [f"hanging: {text}" for text in _ledger(history).hanging]


def exactly_once(history: History) -> list[str]:
    """Each input record has one output record, and the group's offsets agree."""
    ledger = _ledger(history)
    complaints = []
    for reader, by_partition in ledger.final.items():
        counts: dict[str, int] = {}
        for records in by_partition.values():
            for _, value in records:
                if "=" in value:
                    made_of = value.partition("=")[2]
                    counts[made_of] = counts.get(made_of, 0) + 1
        for name, records in history.final.items():
            if name.topic == ledger.input_topic:
                complaints += [
                    f"exactly once: {value} of {name}@{offset} is {counts.get(value, 0)} times in the output "
                    f"of {reader}"
                    for offset, value in records
                    if counts.get(value, 0) != 1
                ]
    return complaints + _offsets_differ(history)


def _offsets_differ(history: History) -> list[str]:
    """The group's offset is that of the last transaction with visible output."""
    ledger = _ledger(history)
    found = dict(_finals(history)).get(ledger.reader, {})
    furthest: dict[int, int] = {}
    for entry in ledger.entries.values():
        if any(value in found.get(name, ()) for value, name in entry.values.items()):
            for index, offset in entry.offsets.items():
                furthest[index] = max(offset, furthest.get(index, 0))
    return [
        f"exactly once: the offset of {index} is {ledger.final_offsets.get(index)}, the output says {offset}"
        for index, offset in furthest.items()
        if ledger.final_offsets.get(index) != offset
    ]


def bank(history: History) -> list[str]:
    """The sum of all transfers is zero."""
    complaints = []
    for reader, by_partition in _ledger(history).final.items():
        total = sum(
            int(value.rpartition(":")[2])
            for records in by_partition.values()
            for _, value in records
            if "=" not in value
        )
        if total:
            complaints.append(f"bank: {reader} finds a sum of {total}")
    return complaints


def pair_twice(history: History) -> list[str]:
    """A producer id belongs to one transactional id, and each of its epochs to one instance."""
    complaints = []
    owners: dict[int, str] = {}
    holders: dict[Pair, IssuedPair] = {}
    for issued in _ledger(history).issued:
        producer_id = issued.pair[0]
        if owners.setdefault(producer_id, issued.transactional_id) != issued.transactional_id:
            text = f"producer {producer_id} is of {owners[producer_id]} and {issued.transactional_id}"
            complaints.append(f"pair twice: {text}")
        first = holders.setdefault(issued.pair, issued)
        if first.instance != issued.instance:
            complaints.append(f"pair twice: {issued.pair} was issued to {first.instance}, {issued.instance}")
    for producer_id, client in history.producer_ids:
        if producer_id in owners:
            complaints.append(f"pair twice: producer {producer_id} is of {owners[producer_id]}, {client}")
    return complaints


def prepared_lost(history: History) -> list[str]:
    """A prepared transaction is kept until it is ended as the external resource decided."""
    return [f"prepared lost: {text}" for text in _ledger(history).prepared_lost]


TRANSACTIONS: tuple[Checker, ...] = (
    lost_transaction,
    aborted_read,
    torn,
    twice,
    later_transaction,
    zombie,
    stable_back,
    hanging,
    exactly_once,
    bank,
    pair_twice,
    prepared_lost,
    *LOSSLESS,
)


def _ledger(history: History) -> TxnLedger:
    assert history.ledger is not None, "a scenario without transactions"
    return history.ledger


def _finals(history: History) -> Iterator[tuple[str, dict[PartitionName, dict[str, int]]]]:
    for reader, by_partition in _ledger(history).final.items():
        yield (
            reader,
            {name: {value: offset for offset, value in records} for name, records in by_partition.items()},
        )


def _all_seen(ledger: TxnLedger) -> Iterator[tuple[str, PartitionName, int, str]]:
    yield from ledger.seen
    for reader, by_partition in ledger.final.items():
        for name, records in by_partition.items():
            for offset, value in records:
                yield reader, name, offset, value
