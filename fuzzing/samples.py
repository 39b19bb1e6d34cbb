"""Well-formed requests with unusual contents, for every API and version that a broker serves.

Mutated recordings mostly fail in the decoder. These pass it: values are drawn from the broker's state, from
the limits of each type, and at random.
"""

from __future__ import annotations

import random
from typing import Any

from fuzzing.batches import hostile_batch
from ottla.protocol.api import API_BY_KEY
from ottla.protocol.message import Message
from ottla.protocol.schema import Field, fields_of

RANGES = {"int8": 8, "int16": 16, "uint16": 16, "int32": 32, "uint32": 32, "int64": 64}
STRANGE_NAMES = (
    "",
    ".",
    "..",
    "a" * 249,
    "a" * 250,
    "no/such",
    "caf\u00e9",
    "x\ny",
    "\0",
    "__cluster_metadata",
)
CONFIGS: tuple[tuple[str, str], ...] = (
    ("cleanup.policy", "compact"),
    ("cleanup.policy", "delete"),
    ("compression.type", "gzip"),
    ("retention.ms", "-1"),
    ("retention.ms", "99999999999999999999"),
    ("segment.bytes", "1048576"),
    ("max.message.bytes", "0"),
    ("message.timestamp.type", "LogAppendTime"),
    ("flush.messages", "1"),
    ("no.such.config", "1"),
    ("", ""),
)
PARTITIONS_MAX = 50  # of a topic that a sample may create: each takes disk space


class KnownState:
    """Topics and ids of the broker that samples refer to; refreshed after each round."""

    def __init__(self) -> None:
        self.topics: list[str] = []
        self.topic_ids: list[bytes] = []
        self.producer_ids: list[int] = [-1, 0, 1000]
        self.session_ids: list[int] = [0]


class Sampler:
    def __init__(self, rng: random.Random, known: KnownState, now_ms: int) -> None:
        self._rng = rng
        self._known = known
        self._now_ms = now_ms

    def request(self, api_key: int, version: int) -> Message:
        message: Message = self._struct(API_BY_KEY[api_key].request_class(), version)
        return message

    def _struct(self, cls: type[Any], version: int) -> Any:
        found = cls()
        for field in fields_of(cls):
            if field.is_in(version) and not (field.is_tagged_in(version) and self._rng.random() < 0.5):
                setattr(found, field.name, self._value(field, version))
        return found

    def _value(self, field: Field, version: int) -> Any:
        rng = self._rng
        if field.is_nullable_in(version) and rng.random() < 0.2:
            return None
        if not field.is_array:
            return self._one(field, version)
        return [self._one(field, version) for _ in range(rng.choice((0, 1, 1, 1, 2, 3)))]

    def _one(self, field: Field, version: int) -> Any:
        if field.struct is not None:
            return self._struct(field.struct, version)
        match field.element:
            case "bool":
                return self._rng.random() < 0.5
            case "string":
                return self._text(field.name)
            case "uuid":
                known = self._known.topic_ids
                return self._rng.choice([*known, *known, bytes(16), self._rng.randbytes(16)])
            case "bytes":
                return self._rng.randbytes(self._rng.choice((0, 1, 40)))
            case "records":
                return hostile_batch(self._rng, self._now_ms)
            case "float64":
                return self._rng.choice((0.0, -1.0, float("inf"), float("nan")))
        return self._number(field)

    def _text(self, name: str) -> str:
        rng = self._rng
        if name == "value":
            return rng.choice(CONFIGS)[1]
        if name in ("configuration_keys", "config_name") or rng.random() < 0.2:
            return rng.choice(CONFIGS)[0]
        if name == "resource_name" and rng.random() < 0.2:
            return rng.choice(("1", "", "7"))
        fresh = f"fuzz-{rng.randrange(20)}"
        return rng.choice([*self._known.topics, *self._known.topics, fresh, *STRANGE_NAMES])

    def _number(self, field: Field) -> int:
        rng = self._rng
        bits = RANGES[field.element]
        signed = not field.element.startswith("u")
        low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
        usual: list[int]
        match field.name:
            case "num_partitions" | "count":
                return rng.choice((-1, 0, 1, 3, rng.randint(1, PARTITIONS_MAX), high, low))
            case "timeout_ms" | "max_wait_ms":
                usual = [0, 1, 20]
            case "acks":
                usual = [-1, 0, 1, 2]
            case "resource_type":
                usual = [2, 2, 2, 4]
            case "session_id":
                usual = self._known.session_ids
            case "session_epoch":
                usual = [-1, 0, 1, 2]
            case "producer_id":
                usual = self._known.producer_ids
            case "timestamp":
                usual = [-1, -2, -3, -4, -5, -6, -7, 0, self._now_ms]
            case "replication_factor":
                usual = [-1, 1, 1, 2]
            case "broker_id":
                usual = [-1, 0, 2, 100]  # not the target's own id: UnregisterBroker would remove it
            case _:
                usual = [-1, 0, 0, 0, 1, 2, 100, 1 << 20]
        value = rng.choice((low, high, rng.randint(low, high))) if rng.random() < 0.1 else rng.choice(usual)
        return min(max(value, low), high)
