"""Which topics to read, and where to begin and end: the options that say so, understood and checked."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import NamedTuple

from pyspark_ottla.client_options import whole_number

TopicPartition = tuple[str, int]

EARLIEST = -2
LATEST = -1
STRATEGIES = ("subscribe", "subscribepattern", "assign")
BY_TIMESTAMP_STRATEGIES = ("error", "latest")
BY_GROUP_STRATEGIES = {"earliest": EARLIEST, "latest": LATEST, "error": None}


class TopicSelection(NamedTuple):
    """Exactly one of the three is set."""

    names: tuple[str, ...] = ()
    pattern: str | None = None
    assigned: tuple[TopicPartition, ...] = ()


class OffsetSpec(NamedTuple):
    """Where to begin or to end.

    `everywhere` is EARLIEST or LATEST; or `timestamp_ms` holds for all partitions; or offsets, or timestamps,
    are given for each; or it is where a group has read to. Exactly one of these counts.
    """

    option: str
    everywhere: int | None = None
    timestamp_ms: int | None = None
    offsets: dict[TopicPartition, int] | None = None
    timestamps_ms: dict[TopicPartition, int] | None = None
    from_group: bool = False


def topic_selection(options: Mapping[str, str]) -> TopicSelection:
    given = [name for name in STRATEGIES if name in options]
    if len(given) != 1:
        problem = "none of them is" if not given else f"{' and '.join(given)} are"
        raise ValueError(
            f"exactly one of the options subscribe, subscribePattern and assign must be set: {problem}"
        )
    value = options[given[0]].strip()
    if given[0] == "subscribe":
        names = tuple(name.strip() for name in value.split(",") if name.strip())
        if not names:
            raise ValueError(f"option 'subscribe' is {value!r}: name at least one topic")
        return TopicSelection(names=names)
    if given[0] == "subscribepattern":
        if not value:
            raise ValueError("option 'subscribePattern' is empty: give a regular expression")
        try:
            re.compile(value)
        except re.error as error:
            raise ValueError(f"option 'subscribePattern' is {value!r}: {error}") from None
        return TopicSelection(pattern=value)
    return TopicSelection(assigned=_assigned(value))


def _assigned(text: str) -> tuple[TopicPartition, ...]:
    expected = 'expected JSON such as {"orders": [0, 1]}'
    parsed = _json("assign", text, expected)
    found = []
    for topic, partitions in parsed.items():
        if not isinstance(partitions, list) or not all(_is_whole(row) and row >= 0 for row in partitions):
            raise ValueError(f"option 'assign' is {text!r}: {expected}")
        found += [(topic, partition) for partition in partitions]
    if not found:
        raise ValueError(f"option 'assign' is {text!r}: name at least one partition")
    return tuple(dict.fromkeys(found))


def starting_offsets(options: Mapping[str, str], *, streaming: bool) -> OffsetSpec:
    """startingTimestamp before startingOffsetsByTimestamp before startingOffsets."""
    place = _place(options, "starting", LATEST if streaming else EARLIEST)
    if place.from_group and not group_id_of(options):
        raise ValueError("option 'startingOffsets' is 'group': set 'kafka.group.id' to say of which group")
    if not streaming and (place.everywhere == LATEST or LATEST in (place.offsets or {}).values()):
        raise ValueError("option 'startingOffsets': a batch query cannot start at the latest offset")
    return place


def ending_offsets(options: Mapping[str, str], *, streaming: bool) -> OffsetSpec:
    """endingTimestamp before endingOffsetsByTimestamp before endingOffsets; batch queries only."""
    if streaming:
        for name in ("endingTimestamp", "endingOffsetsByTimestamp", "endingOffsets"):
            if name.lower() in options:
                raise ValueError(f"option {name!r}: a streaming query has no end")
    place = _place(options, "ending", LATEST)
    if place.everywhere == EARLIEST or EARLIEST in (place.offsets or {}).values():
        raise ValueError("option 'endingOffsets': a query cannot end at the earliest offset")
    return place


def check_pair(start: OffsetSpec, end: OffsetSpec) -> None:
    """Raise ValueError where a batch query is told to end before it begins."""
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
    """What to do where no record is as late as a starting timestamp."""
    name = "startingOffsetsByTimestampStrategy"
    value = options.get(name.lower(), "error").strip().lower()
    if value not in BY_TIMESTAMP_STRATEGIES:
        raise ValueError(f"option {name!r} is {value!r}: expected error or latest")
    return value


def group_id_of(options: Mapping[str, str]) -> str:
    """The group that is read from or committed to; empty where none is named."""
    return options.get("kafka.group.id", "").strip()


def by_group_strategy(options: Mapping[str, str], *, streaming: bool) -> int | None:
    """Where to begin where the group has committed nothing; None: that is an error."""
    name = "startingOffsetsByGroupStrategy"
    value = options.get(name.lower(), "latest" if streaming else "earliest").strip().lower()
    if value not in BY_GROUP_STRATEGIES:
        raise ValueError(f"option {name!r} is {value!r}: expected earliest, latest or error")
    return BY_GROUP_STRATEGIES[value]


def _place(options: Mapping[str, str], which: str, otherwise: int) -> OffsetSpec:
    name = f"{which}Timestamp"
    if name.lower() in options:
        return OffsetSpec(name, timestamp_ms=whole_number(name, options[name.lower()]))
    name = f"{which}OffsetsByTimestamp"
    if name.lower() in options:
        return OffsetSpec(name, timestamps_ms=_per_partition(name, options[name.lower()], 0))
    name = f"{which}Offsets"
    text = options.get(name.lower())
    if text is None:
        return OffsetSpec(name, everywhere=otherwise)
    word = text.strip().lower()
    if word in ("earliest", "latest"):
        return OffsetSpec(name, everywhere=EARLIEST if word == "earliest" else LATEST)
    if word == "group" and which == "starting":
        return OffsetSpec(name, from_group=True)
    return OffsetSpec(name, offsets=_per_partition(name, text, EARLIEST))


def _per_partition(name: str, text: str, at_least: int) -> dict[TopicPartition, int]:
    expected = 'expected JSON such as {"orders": {"0": 23, "1": 42}}'
    found: dict[TopicPartition, int] = {}
    for topic, rows in _json(name, text, expected).items():
        if not isinstance(rows, dict):
            raise ValueError(f"option {name!r} is {text!r}: {expected}")
        for partition, number in rows.items():
            if not partition.isdigit() or not _is_whole(number) or number < at_least:
                raise ValueError(f"option {name!r} is {text!r}: {expected}")
            found[topic, int(partition)] = number
    return found


def _json(name: str, text: str, expected: str) -> dict[str, object]:
    try:
        parsed = json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"option {name!r} is {text!r}: {expected} ({error})") from None
    if not isinstance(parsed, dict):
        raise ValueError(f"option {name!r} is {text!r}: {expected}")
    return parsed


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
