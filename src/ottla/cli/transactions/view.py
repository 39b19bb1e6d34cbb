"""Data and output of `ottla txn`."""

from __future__ import annotations

import shlex
import time
from collections.abc import Sequence
from typing import Any

from ottla.cli.output import console, plural, table
from ottla.cli.records.consume import time_text
from ottla.client import Admin, HangingTransaction, TransactionInfo
from ottla.client.errors import ClientError


async def list_transactions(
    admin: Admin, states: Sequence[str], producer_ids: Sequence[int], longer_than_ms: int, pattern: str | None
) -> list[dict[str, Any]]:
    """Return one row per transactional id, in the form of the JSON output."""
    listed = await admin.list_transactions(
        states=states, producer_ids=producer_ids, longer_than_ms=longer_than_ms, pattern=pattern
    )
    open_now = [row.transactional_id for row in listed if row.state == "Ongoing"]
    described = {
        info.transactional_id: info for info in await admin.describe_transactions(open_now, missing_ok=True)
    }
    rows = []
    for row in listed:
        info = described.get(row.transactional_id)
        rows.append(
            {
                "transactional_id": row.transactional_id,
                "state": row.state,
                "producer_id": row.producer_id,
                "coordinator": row.coordinator,
                "open_ms": None if info is None else _open_ms(info),
                "partitions": None if info is None else len(info.partitions),
            }
        )
    return rows


def show_list(rows: Sequence[dict[str, Any]]) -> None:
    if not rows:
        print("No transactions")
        return
    right = ("producer", "coordinator", "open for", "partitions")
    shown = table("transactional id", "state", *right, right=right)
    for row in rows:
        open_for = "-" if row["open_ms"] is None else _duration(row["open_ms"])
        shown.add_row(
            row["transactional_id"],
            row["state"],
            str(row["producer_id"]),
            str(row["coordinator"]),
            open_for,
            "-" if row["partitions"] is None else str(row["partitions"]),
        )
    console.print(shown)


async def describe_transactions(admin: Admin, names: Sequence[str]) -> list[dict[str, Any]]:
    return [await _described(admin, info) for info in await admin.describe_transactions(names)]


async def _described(admin: Admin, info: TransactionInfo) -> dict[str, Any]:
    producers = await admin.describe_producers(info.partitions) if info.is_ongoing else {}
    starts = {
        key: producer.txn_start_offset
        for key, known in producers.items()
        for producer in known
        if producer.producer_id == info.producer_id and producer.txn_start_offset >= 0
    }
    return {
        "transactional_id": info.transactional_id,
        "state": info.state,
        "producer_id": info.producer_id,
        "producer_epoch": info.producer_epoch,
        "timeout_ms": info.timeout_ms if info.has_timeout else None,
        "started": time_text(info.started_ms) if info.is_ongoing else None,
        "open_ms": _open_ms(info),
        "coordinator": info.coordinator,
        "partitions": [
            {"topic": topic, "partition": number, "start_offset": starts.get((topic, number))}
            for topic, number in info.partitions
        ],
    }


def show_transaction(row: dict[str, Any]) -> None:
    words = [row["state"], f"producer {row['producer_id']} epoch {row['producer_epoch']}"]
    timeout_ms = row["timeout_ms"]
    words.append(
        "no timeout (two-phase commit)" if timeout_ms is None else f"timeout {_duration(timeout_ms)}"
    )
    words.append(f"coordinator {row['coordinator']}")
    print(f"Transactional id {row['transactional_id']}: {', '.join(words)}")
    if row["open_ms"] is not None:
        print(f"Open for {_duration(row['open_ms'])}, since {row['started']}")
    if row["partitions"]:
        print()
        right = ("partition", "begins at")
        shown = table("topic", *right, right=right)
        for each in row["partitions"]:
            start = each["start_offset"]
            shown.add_row(each["topic"], str(each["partition"]), "-" if start is None else str(start))
        console.print(shown)


# Ending.


async def abort_ids(admin: Admin, names: Sequence[str], *, force: bool) -> list[dict[str, Any]]:
    described = await admin.describe_transactions(names)
    for info in described:
        if info.is_ongoing and not info.has_timeout and not force:
            raise ClientError(
                f"transactional id {info.transactional_id!r} has a transaction without a timeout: it may be "
                "prepared for a two-phase commit, and its owner relies on being able to commit it; "
                "use --force to abort it anyway"
            )
    pairs = await admin.fence_producers([info.transactional_id for info in described])
    return [
        {
            "transactional_id": info.transactional_id,
            "was": info.state,
            "partitions": len(info.partitions),
            "producer_id": pairs[info.transactional_id].id,
            "producer_epoch": pairs[info.transactional_id].epoch,
        }
        for info in described
    ]


async def abort_at(
    admin: Admin, topic: str, partition: int, start_offset: int, *, force: bool
) -> dict[str, Any]:
    key = (topic, partition)
    found = [
        producer
        for producer in (await admin.describe_producers([key]))[key]
        if producer.txn_start_offset == start_offset
    ]
    if not found:
        raise ClientError(
            f"topic {topic!r} partition {partition}: no transaction begins at offset {start_offset}; "
            "'ottla txn hanging' lists hanging transactions"
        )
    producer = found[0]
    owner = await admin.owner_of(producer.producer_id)
    if owner is not None and key in owner.partitions and not force:
        raise ClientError(
            f"topic {topic!r} partition {partition}: the transaction belongs to transactional id "
            f"{owner.transactional_id!r}; 'ottla txn abort {owner.transactional_id}' aborts all of it"
        )
    await admin.abort_transaction(topic, partition, producer)
    return {
        "topic": topic,
        "partition": partition,
        "start_offset": start_offset,
        "producer_id": producer.producer_id,
        "producer_epoch": producer.producer_epoch,
    }


def show_aborted(rows: Sequence[dict[str, Any]]) -> None:
    for row in rows:
        if "topic" in row:
            place = f"{row['topic']}-{row['partition']}"
            print(
                f"Aborted the transaction of producer {row['producer_id']} in {place}, "
                f"which began at offset {row['start_offset']}"
            )
        elif row["was"] == "Ongoing":
            where = plural(row["partitions"], "partition")
            print(f"Aborted {row['transactional_id']} in {where}; its producer is fenced")
        else:
            name, was = row["transactional_id"], row["was"]
            print(f"{name} had no open transaction (it was {was}); its producer is fenced")


# Hanging.


async def find_hanging(
    admin: Admin, topics: Sequence[str], partitions: Sequence[int], max_timeout_ms: int
) -> list[dict[str, Any]]:
    keys = None
    if topics:
        infos = await admin.describe_topics(topics)
        keys = [(info.name, number) for info in infos for number in partitions or info.partitions]
    found = await admin.find_hanging_transactions(keys, max_timeout_ms=max_timeout_ms)
    return [_hanging(each) for each in found]


def _hanging(each: HangingTransaction) -> dict[str, Any]:
    return {
        "topic": each.topic,
        "partition": each.partition,
        "start_offset": each.producer.txn_start_offset,
        "producer_id": each.producer.producer_id,
        "producer_epoch": each.producer.producer_epoch,
        "transactional_id": each.transactional_id,
        "last_write": time_text(each.producer.last_timestamp_ms),
        "idle_ms": each.idle_ms,
        "abort": f"ottla txn abort --topic {shlex.quote(each.topic)} --partition {each.partition} "
        f"--start-offset {each.producer.txn_start_offset}",
    }


def show_hanging(rows: Sequence[dict[str, Any]], max_timeout: str) -> None:
    if not rows:
        print(f"No hanging transactions (older than {max_timeout})")
        return
    right = ("partition", "begins at", "producer", "epoch", "idle for")
    shown = table("topic", *right, "transactional id", right=right)
    for row in rows:
        shown.add_row(
            row["topic"],
            str(row["partition"]),
            str(row["start_offset"]),
            str(row["producer_id"]),
            str(row["producer_epoch"]),
            _duration(row["idle_ms"]),
            row["transactional_id"] or "-",
        )
    console.print(shown)
    print("\nTo abort them:")
    for row in rows:
        print(f"  {row['abort']}")


def _open_ms(info: TransactionInfo) -> int | None:
    if not info.is_ongoing or info.started_ms < 0:
        return None
    return max(0, time.time_ns() // 1_000_000 - info.started_ms)


def _duration(duration_ms: int) -> str:
    if duration_ms < 1000:
        return f"{duration_ms} ms"
    seconds = duration_ms / 1000
    if seconds < 120:
        return f"{seconds:.1f} s"
    minutes = seconds / 60
    return f"{minutes:.0f} min" if minutes < 120 else f"{minutes / 60:.1f} h"
