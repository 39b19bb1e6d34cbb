"""Data and output of `ottla topic describe`."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from ottla.cli.output import console, human_bytes, plural, table
from ottla.client import Admin, PartitionInfo, PartitionState, TopicInfo, TopicState
from ottla.client.errors import ClientError, UnsupportedApiError
from ottla.protocol.uuids import uuid_to_text

# A leader may have just died; the other data must not wait for longer.
OFFSETS_TIMEOUT_S = 5.0


async def describe_topics(admin: Admin, names: Sequence[str], *, all_configs: bool) -> list[dict[str, Any]]:
    """Collect all data about the topics, in the form of the JSON output."""
    topics = await admin.describe_topics(names)
    configs = await admin.describe_topic_configs(names)
    sizes = await _sizes(admin, topics)
    states = await _states(admin, names)
    described = []
    for topic in topics:
        offsets = await _offsets(admin, topic)
        known = states[topic.name].partitions if topic.name in states else {}
        rows = [
            _partition(
                row, known.get(number), offsets.get(number, (-1, -1)), sizes.get((topic.name, number), -1)
            )
            for number, row in sorted(topic.partitions.items())
        ]
        described.append(
            {
                "name": topic.name,
                "id": uuid_to_text(topic.id),
                "internal": topic.is_internal,
                "partitions": rows,
                "configs": {
                    entry.name: {"value": entry.value, "source": entry.source_name}
                    for entry in sorted(configs[topic.name])
                    # Only what was set on the topic itself: brokers report their own settings as defaults.
                    if all_configs or entry.source == 1
                },
            }
        )
    return described


async def _states(admin: Admin, names: Sequence[str]) -> dict[str, TopicState]:
    """Return the eligible leader replicas; older brokers do not report them."""
    try:
        return await admin.describe_topic_partitions(names)
    except ClientError:
        return {}


async def _offsets(admin: Admin, topic: TopicInfo) -> dict[int, tuple[int, int]]:
    """Return the offsets of the partitions; empty if a partition has no leader or it does not respond."""
    if any(row.leader < 0 for row in topic.partitions.values()):
        return {}
    try:
        async with asyncio.timeout(OFFSETS_TIMEOUT_S):
            return await admin.offsets_of(topic.name)
    except (ClientError, TimeoutError):
        return {}


async def _sizes(admin: Admin, topics: Sequence[TopicInfo]) -> dict[tuple[str, int], int]:
    """Return the size of the largest replica of each partition; empty if the cluster does not allow the
    request."""
    try:
        log_dirs = await admin.describe_log_dirs({topic.name: sorted(topic.partitions) for topic in topics})
    except (ClientError, UnsupportedApiError):
        return {}
    sizes: dict[tuple[str, int], int] = {}
    for log_dir in log_dirs:
        for replica in log_dir.replicas:
            key = (replica.topic, replica.partition)
            sizes[key] = max(sizes.get(key, 0), replica.size_bytes)
    return sizes


def _partition(
    row: PartitionInfo, state: PartitionState | None, offsets: tuple[int, int], size_bytes: int
) -> dict[str, Any]:
    # Two responses from different times: the leader with the higher epoch is the newer one.
    if state is not None and state.leader_epoch >= row.leader_epoch:
        row = row._replace(
            leader=state.leader,
            leader_epoch=state.leader_epoch,
            replicas=state.replicas,
            isr=state.isr,
            offline_replicas=state.offline_replicas,
        )
    return {
        "partition": row.partition,
        "leader": row.leader,
        "leader_epoch": row.leader_epoch,
        "replicas": list(row.replicas),
        "isr": list(row.isr),
        "elr": list(state.elr) if state is not None else None,
        "last_known_elr": list(state.last_known_elr) if state is not None else None,
        "offline_replicas": list(row.offline_replicas),
        "start_offset": offsets[0],
        "end_offset": offsets[1],
        "size_bytes": size_bytes,
    }


def _ids(ids: Sequence[int] | None) -> str:
    return "?" if ids is None else ",".join(map(str, ids)) or "-"


def show_topic(topic: dict[str, Any]) -> None:
    """Print a heading, a table of partitions, and the properties."""
    partitions = topic["partitions"]
    replicas = max((len(row["replicas"]) for row in partitions), default=0)
    records = sum(max(0, row["end_offset"] - row["start_offset"]) for row in partitions)
    size = sum(max(0, row["size_bytes"]) for row in partitions)
    summary = f"{plural(len(partitions), 'partition')}, replication factor {replicas}"
    console.print(
        f"[bold]{topic['name']}[/bold]  {summary}, {plural(records, 'offset')}, {human_bytes(size)}"
    )
    console.print(f"id {topic['id']}" + (", internal" if topic["internal"] else ""), style="dim")
    numbers = ("partition", "leader", "epoch", "start", "end", "size")
    keys = {"replicas": "replicas", "isr": "in sync", "elr": "elr"}
    if any(row["last_known_elr"] for row in partitions):
        keys["last_known_elr"] = "last elr"
    shown = table("partition", "leader", "epoch", *keys.values(), "start", "end", "size", right=numbers)
    for row in partitions:
        lagging = len(row["isr"]) < len(row["replicas"])
        shown.add_row(
            str(row["partition"]),
            str(row["leader"]) if row["leader"] >= 0 else "[red]none[/red]",
            str(row["leader_epoch"]) if row["leader_epoch"] >= 0 else "?",
            *(_ids(row[key]) for key in keys),
            str(row["start_offset"]) if row["start_offset"] >= 0 else "?",
            str(row["end_offset"]) if row["end_offset"] >= 0 else "?",
            human_bytes(row["size_bytes"]),
            style="yellow" if lagging else None,
        )
    console.print(shown)
    for name, entry in topic["configs"].items():
        origin = "" if entry["source"] == "topic" else f"  [dim]({entry['source']})[/dim]"
        console.print(f"{name} = {entry['value']}{origin}")
