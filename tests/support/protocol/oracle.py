"""Conversion to and comparison with messages of kio, an independent implementation."""

from __future__ import annotations

import dataclasses
import datetime
import io
import uuid
from collections.abc import Callable
from typing import Any, get_args, get_origin

from kio.index import UnknownEntity, load_entity_module
from kio.schema.errors import ErrorCode as KioErrorCode
from kio.serial import entity_reader, entity_writer
from kio.static.constants import EntityType

from ottla.protocol.message import Message
from ottla.protocol.schema import Field, fields_of
from tests.support.protocol.samples import Sampler

# Tags of our own begin here: see tools/protocol_additions.json.
OWN_TAGS_FROM = 10_000
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
ONE_MS = datetime.timedelta(milliseconds=1)
SUFFIXES = {"Request": EntityType.request, "Response": EntityType.response, "Header": EntityType.header}
CONVERSIONS: dict[str, Callable[[Any], Any]] = {
    "uuid": lambda item: uuid.UUID(bytes=item),
    "error_code": KioErrorCode,
    "timedelta_i32": lambda item: item * ONE_MS,
    "timedelta_i64": lambda item: item * ONE_MS,
    "datetime_i64": lambda item: EPOCH + item * ONE_MS,
}
# Kafka 4.4 renamed these fields; kio has the old names.
RENAMED = {
    ("StreamsGroupHeartbeatResponse", "acceptable_recovery_lag"): "acceptable_recovery_lag_legacy",
    ("TxnOffsetCommitRequest", "generation_id"): "generation_id_or_member_epoch",
}
ERROR_CODES = sorted(code.value for code in KioErrorCode)


def kio_class(cls: type[Message], version: int) -> Any:
    """Return the class of the same message in kio, or None."""
    name, entity_type = cls.__name__, EntityType.data
    for suffix, found in SUFFIXES.items():
        if name.endswith(suffix):
            entity_type = found
            if suffix != "Header":
                name = name.removesuffix(suffix)
    snake = "".join("_" + letter.lower() if letter.isupper() else letter for letter in name).lstrip("_")
    try:
        module = load_entity_module(snake, version, entity_type)  # type: ignore[arg-type]
    except UnknownEntity:
        return None
    return getattr(module, cls.__name__)


def kio_decode(entity: Any, data: bytes) -> Any:
    value, end = entity_reader(entity)(data, 0)
    assert end == len(data), "kio did not read all bytes"
    return value


def kio_encode(entity: Any, value: Any) -> bytes:
    out = io.BytesIO()
    entity_writer(entity)(out, value)
    return out.getvalue()


def pairs(entity: Any, cls: type[Any], version: int) -> list[tuple[Field, Any]]:
    """Pair our fields of this version with kio's: same order and names, except for units and RENAMED."""
    ours = [field for field in fields_of(cls) if field.is_in(version) and field.tag < OWN_TAGS_FROM]
    theirs = dataclasses.fields(entity)
    assert [field.name for field in ours] == [_renamed(cls, field) for field in theirs]
    return list(zip(ours, theirs, strict=True))


def _renamed(cls: type[Any], theirs: Any) -> str:
    name: str = RENAMED.get((cls.__name__, theirs.name), theirs.name)
    if name in cls.__slots__:
        return name
    for candidate in (f"{name}_ms", name.rstrip("_"), name.replace("k_raft", "kraft")):
        if candidate in cls.__slots__:
            return candidate
    return name


def _element_type(field: Any) -> Any:
    """Return the struct in `T`, `T | None`, `tuple[T, ...]` and so on."""
    kind = field.type
    while get_origin(kind) is not None:
        kind = next(arg for arg in get_args(kind) if arg is not type(None))
    return kind


class KioSampler(Sampler):
    """Draws only values that kio can represent: it has richer types for some integers."""

    def kinds(self, kind: Any, cls: type[Any], version: int) -> dict[str, Any]:
        return {ours.name: theirs for ours, theirs in pairs(kind, cls, version)}

    def knows(self, field: Field) -> bool:
        return field.tag < OWN_TAGS_FROM

    def inner(self, kind: Any, field: Field) -> Any:
        return _element_type(kind)

    def special(self, kind: Any, field: Field) -> Any:
        if field.is_array:
            return ...
        match kind.metadata.get("kafka_type"):
            case "error_code":
                return self.rng.choice(ERROR_CODES)
            case "timedelta_i64":
                return self.rng.choice((0, 1, -1, 86_400_000, 10**12))
            case "datetime_i64":
                low = -1 if type(None) in get_args(kind.type) else 0
                return self.rng.choice((low, 0, 1, 1_700_000_000_123, 10**13))
        return ...


def to_kio(value: Any, entity: Any, version: int) -> Any:
    arguments = {}
    for ours, theirs in pairs(entity, type(value), version):
        item = getattr(value, ours.name)
        if ours.is_array:
            if item is not None:
                item = tuple(_to_kio_element(ours, theirs, element, version) for element in item)
        else:
            item = _to_kio_element(ours, theirs, item, version)
        arguments[theirs.name] = item
    return entity(**arguments)


def _to_kio_element(ours: Field, theirs: Any, item: Any, version: int) -> Any:
    kind = theirs.metadata.get("kafka_type")
    if item is None or (kind == "uuid" and item == bytes(16)) or (kind == "datetime_i64" and item == -1):
        return None
    if ours.struct is not None:
        return to_kio(item, _element_type(theirs), version)
    convert = CONVERSIONS.get(kind)
    return item if convert is None else convert(item)


def same(value: Any, other: Any, version: int) -> bool:
    """Compare field by field; the assertion names the field."""
    for ours, theirs in pairs(type(other), type(value), version):
        mine, yours = getattr(value, ours.name), getattr(other, theirs.name)
        if ours.is_array and mine is not None:
            assert yours is not None and len(mine) == len(yours), ours.name
            for one, two in zip(mine, yours, strict=True):
                _same_element(ours, one, two, version)
        else:
            _same_element(ours, mine, yours, version)
    return True


def _same_element(ours: Field, mine: Any, yours: Any, version: int) -> None:
    if ours.struct is not None and mine is not None:
        assert yours is not None, ours.name
        same(mine, yours, version)
        return
    match yours:
        case uuid.UUID():
            yours = yours.bytes
        case KioErrorCode():
            yours = yours.value
        case datetime.timedelta():
            yours = yours // ONE_MS
        case datetime.datetime():
            yours = (yours - EPOCH) // ONE_MS
        case None if ours.element == "uuid" and mine is not None:
            yours = bytes(16)
        case None if ours.element == "int64":
            yours = -1
    assert mine == yours, ours.name
