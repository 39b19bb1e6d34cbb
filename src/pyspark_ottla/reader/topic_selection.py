"""Which topics or partitions a query reads: the options subscribe, subscribePattern and assign."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from pyspark_ottla.offsets import TopicPartition
from pyspark_ottla.option_values import is_whole, json_object

STRATEGIES = ("subscribe", "subscribepattern", "assign")


class TopicSelection(NamedTuple):
    """Exactly one of the three is set."""

    names: tuple[str, ...] = ()
    pattern: str | None = None
    assigned: tuple[TopicPartition, ...] = ()


def topic_selection(options: Mapping[str, str]) -> TopicSelection:
    """Raises ValueError."""
    given = [name for name in STRATEGIES if name in options]
    if len(given) != 1:
        problem = f"{' and '.join(given)} are set" if given else "none is set"
        raise ValueError(f"set exactly one of the options subscribe, subscribePattern and assign: {problem}")
    value = options[given[0]].strip()
    if given[0] == "subscribe":
        names = tuple(name.strip() for name in value.split(",") if name.strip())
        if not names:
            raise ValueError(f"option 'subscribe' is {value!r}: name at least one topic")
        return TopicSelection(names=names)
    if given[0] == "subscribepattern":
        if not value:
            raise ValueError("option 'subscribePattern' is empty: expected a regular expression")
        try:
            re.compile(value)
        except re.error as error:
            raise ValueError(f"option 'subscribePattern' is {value!r}: {error}") from None
        return TopicSelection(pattern=value)
    return TopicSelection(assigned=_assigned(value))


def _assigned(text: str) -> tuple[TopicPartition, ...]:
    expected = 'expected JSON such as {"orders": [0, 1]}'
    found = []
    for topic, partitions in json_object("assign", text, expected).items():
        if not isinstance(partitions, list) or not all(is_whole(row) and row >= 0 for row in partitions):
            raise ValueError(f"option 'assign' is {text!r}: {expected}")
        found += [(topic, partition) for partition in partitions]
    if not found:
        raise ValueError(f"option 'assign' is {text!r}: name at least one partition")
    return tuple(dict.fromkeys(found))
