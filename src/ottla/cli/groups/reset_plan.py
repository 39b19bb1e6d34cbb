"""The new offsets of a group, computed and shown before they are committed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, NamedTuple

from ottla.cli.records.start_point import LastN
from ottla.client import Admin
from ottla.client.consumer.consumer import Start, timestamp_ms_of
from ottla.client.core.group_types import GroupInfo, TopicPartition
from ottla.client.errors import ClientError

MEMBERS_NAMED_MAX = 3


class Shift(int):
    """A number of records to move forward from the committed offset; negative: backward."""


Target = Start | LastN | Shift


class Step(NamedTuple):
    """The change of one partition: its committed offset (-1: none) and its new one; `note` explains special
    cases."""

    topic: str
    partition: int
    current: int
    new: int
    start: int
    end: int
    note: str = ""

    @property
    def lag(self) -> int:
        return max(0, self.end - self.new)

    def as_json(self) -> dict[str, Any]:
        return {**self._asdict(), "current": None if self.current < 0 else self.current, "lag": self.lag}


async def plan_reset(
    admin: Admin, group_id: str, target: Target, topics: Mapping[str, Iterable[int] | None]
) -> list[Step]:
    """Plan the changes for partitions of these topics (None: all partitions); without topics, for all
    committed ones.

    Raises ClientError if there is nothing to reset, or a partition is not available.
    """
    committed = {key: row.offset for key, row in (await admin.group_offsets(group_id)).items()}
    keys = await _chosen(admin, committed, topics)
    if not keys:
        raise ClientError(f"group {group_id!r} has no committed offsets: select partitions with --topic")
    starts, ends = await admin.start_offsets(keys), await admin.end_offsets(keys)
    gone = [f"{topic}-{number}" for topic, number in keys if (topic, number) not in ends]
    if gone:
        raise ClientError(
            f"offsets of {', '.join(gone)} not available: topic deleted or without a leader; use --topic"
        )
    wanted = await _wanted(admin, keys, target, committed, starts, ends)
    return [
        _step(key, committed.get(key, -1), wanted.get(key, -1), starts[key], ends[key], target)
        for key in keys
    ]


async def _chosen(
    admin: Admin, committed: Mapping[TopicPartition, int], topics: Mapping[str, Iterable[int] | None]
) -> list[TopicPartition]:
    if not topics:
        return sorted(committed)
    keys: list[TopicPartition] = []
    for info in await admin.describe_topics(list(topics)):
        numbers = topics[info.name]
        chosen = sorted(info.partitions) if numbers is None else sorted(set(numbers))
        for number in chosen:
            if number not in info.partitions:
                raise ClientError(
                    f"topic {info.name!r} has partitions 0 to {len(info.partitions) - 1}, not {number}"
                )
        keys += [(info.name, number) for number in chosen]
    return keys


async def _wanted(
    admin: Admin,
    keys: list[TopicPartition],
    target: Target,
    committed: Mapping[TopicPartition, int],
    starts: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
) -> dict[TopicPartition, int]:
    """Return the new offsets; without partitions that have no offset to shift, or no record as late as
    requested."""
    if isinstance(target, datetime):
        found = await admin.list_offsets(dict.fromkeys(keys, timestamp_ms_of(target)))
        return {key: at.offset for key, at in found.items() if at.offset >= 0}
    if isinstance(target, Shift):
        return {key: max(0, committed[key] + target) for key in keys if key in committed}
    if isinstance(target, LastN):
        return {key: max(starts[key], ends[key] - target) for key in keys}
    if isinstance(target, int):
        return dict.fromkeys(keys, target)
    return dict(starts if target == "beginning" else ends)


def _step(key: TopicPartition, current: int, requested: int, start: int, end: int, target: Target) -> Step:
    if requested < 0 and isinstance(target, Shift):
        return Step(*key, current, start, start, end, "no committed offset: set to the beginning")
    if requested < 0:
        return Step(*key, current, end, start, end, "no record that late: set to the end")
    if requested < start:
        return Step(*key, current, start, start, end, f"{requested} was deleted: set to the beginning")
    if requested > end:
        return Step(*key, current, end, start, end, f"{requested} does not exist yet: set to the end")
    return Step(*key, current, requested, start, end)


def why_not_empty(group: GroupInfo) -> str:
    """Explain why the offsets of a group with members cannot be changed, and what to do."""
    named = [f"{each.client_id or each.name} on {host_of(each.client_host)}" for each in group.members]
    shown = ", ".join(named[:MEMBERS_NAMED_MAX])
    if len(named) > MEMBERS_NAMED_MAX:
        shown += f" and {len(named) - MEMBERS_NAMED_MAX} more"
    members = f", with {shown}" if named else ""
    return (
        f"it is {group.state}{members}: members would overwrite the offsets, so stop them first "
        "and wait until `ottla group describe` shows the state Empty"
    )


def host_of(client_host: str) -> str:
    """Strip the slash of `/127.0.0.1`, the form that brokers return."""
    return client_host.lstrip("/") or "-"
