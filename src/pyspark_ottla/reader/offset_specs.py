"""Where a query starts and ends: the options startingOffsets, endingTimestamp and their variants."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ottla.client import EARLIEST, LATEST
from pyspark_ottla.client_options import group_id_of
from pyspark_ottla.offsets import TopicPartition
from pyspark_ottla.option_values import is_whole, json_object, one_of, whole_number

BY_TIMESTAMP_STRATEGIES = ("error", "latest")
BY_GROUP_STRATEGIES = {"earliest": EARLIEST, "latest": LATEST, "error": None}


class OffsetSpec(NamedTuple):
    """The unresolved start or end of a query. Exactly one field besides `option` is set.

    `symbolic` is EARLIEST or LATEST, for all partitions; `timestamp_ms` also applies to all of them;
    `from_group` means the committed offsets of the query's group.
    """

    option: str
    symbolic: int | None = None
    timestamp_ms: int | None = None
    offsets: dict[TopicPartition, int] | None = None
    timestamps_ms: dict[TopicPartition, int] | None = None
    from_group: bool = False


def starting_offsets(options: Mapping[str, str], *, streaming: bool) -> OffsetSpec:
    """startingTimestamp takes precedence over startingOffsetsByTimestamp, and that over startingOffsets."""
    spec = _offset_spec(options, "starting", LATEST if streaming else EARLIEST)
    if spec.from_group and not group_id_of(options):
        raise ValueError("option 'startingOffsets' is 'group': set 'kafka.group.id' to name the group")
    if not streaming and (spec.symbolic == LATEST or LATEST in (spec.offsets or {}).values()):
        raise ValueError("option 'startingOffsets': a batch query cannot start at the latest offset")
    return spec


def ending_offsets(options: Mapping[str, str], *, streaming: bool) -> OffsetSpec:
    """endingTimestamp takes precedence over endingOffsetsByTimestamp, and that over endingOffsets."""
    if streaming:
        for name in ("endingTimestamp", "endingOffsetsByTimestamp", "endingOffsets"):
            if name.lower() in options:
                raise ValueError(f"option {name!r}: a streaming query has no end")
    spec = _offset_spec(options, "ending", LATEST)
    if spec.symbolic == EARLIEST or EARLIEST in (spec.offsets or {}).values():
        raise ValueError("option 'endingOffsets': a query cannot end at the earliest offset")
    return spec


def check_pair(start: OffsetSpec, end: OffsetSpec) -> None:
    """Raise ValueError if a batch query would end before it starts."""
    for first, last in ((start.offsets, end.offsets), (start.timestamps_ms, end.timestamps_ms)):
        if first is None or last is None:
            continue
        only = [key for key in (*first, *last) if (key in first) != (key in last)]
        if only:
            raise ValueError(
                f"options {start.option!r} and {end.option!r} must name the same partitions: "
                f"only one of them names {only[0][0]}-{only[0][1]}"
            )
        for key, begin in first.items():
            if begin > last[key] >= 0:
                raise ValueError(
                    f"option {start.option!r} is {begin} for {key[0]}-{key[1]}, "
                    f"after the {last[key]} of {end.option}"
                )


def by_timestamp_strategy(options: Mapping[str, str]) -> str:
    """Return what to do where a partition has no record at or after a starting timestamp."""
    return one_of(options, "startingOffsetsByTimestampStrategy", BY_TIMESTAMP_STRATEGIES, "error")


def by_group_strategy(options: Mapping[str, str], *, streaming: bool) -> int | None:
    """Return where to start in partitions without a committed offset; None if that is an error."""
    default = "latest" if streaming else "earliest"
    chosen = one_of(options, "startingOffsetsByGroupStrategy", tuple(BY_GROUP_STRATEGIES), default)
    return BY_GROUP_STRATEGIES[chosen]


def _offset_spec(options: Mapping[str, str], which: str, default: int) -> OffsetSpec:
    name = f"{which}Timestamp"
    if name.lower() in options:
        return OffsetSpec(name, timestamp_ms=whole_number(name, options[name.lower()]))
    name = f"{which}OffsetsByTimestamp"
    if name.lower() in options:
        return OffsetSpec(name, timestamps_ms=_per_partition(name, options[name.lower()], 0))
    name = f"{which}Offsets"
    text = options.get(name.lower())
    if text is None:
        return OffsetSpec(name, symbolic=default)
    keyword = text.strip().lower()
    if keyword in ("earliest", "latest"):
        return OffsetSpec(name, symbolic=EARLIEST if keyword == "earliest" else LATEST)
    if keyword == "group" and which == "starting":
        return OffsetSpec(name, from_group=True)
    return OffsetSpec(name, offsets=_per_partition(name, text, EARLIEST))


def _per_partition(name: str, text: str, at_least: int) -> dict[TopicPartition, int]:
    expected = 'expected JSON such as {"orders": {"0": 23, "1": 42}}'
    found: dict[TopicPartition, int] = {}
    for topic, rows in json_object(name, text, expected).items():
        if not isinstance(rows, dict):
            raise ValueError(f"option {name!r} is {text!r}: {expected}")
        for partition, number in rows.items():
            if not partition.isdigit() or not is_whole(number) or number < at_least:
                raise ValueError(f"option {name!r} is {text!r}: {expected}")
            found[topic, int(partition)] = number
    return found
