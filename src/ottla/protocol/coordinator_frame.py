"""Framing of coordinator records (__consumer_offsets, __transaction_state, __share_group_state).

A key is its record type as int16 and the body; a value is its version as int16 and the body. The type of
a value is known by its key alone. A record without a value is a tombstone: there is nothing to decode.
"""

from __future__ import annotations

from struct import Struct
from struct import error as StructError  # noqa: N812

from ottla.protocol.api import message_class
from ottla.protocol.errors import DecodeError
from ottla.protocol.message import Buffer, Message
from ottla.protocol.messages import table

_INT16 = Struct(">h")
# Keys exist in one version; a new layout would be a new record type.
_KEY_VERSION = 0

KEYS_AND_VALUES: dict[str, tuple[dict[int, str], dict[int, str]]] = {
    "group": (table.GROUP_KEYS, table.GROUP_VALUES),
    "transaction": (table.TRANSACTION_KEYS, table.TRANSACTION_VALUES),
    "share": (table.SHARE_KEYS, table.SHARE_VALUES),
}


def encode_coordinator_key(key: Message) -> bytes:
    return _INT16.pack(key.API_KEY) + key.encode(_KEY_VERSION)


def encode_coordinator_value(value: Message, version: int | None = None) -> bytes:
    """Encode in the newest stable version, unless `version` is given."""
    if version is None:
        version = value.MAX_STABLE_VERSION
    return _INT16.pack(version) + value.encode(version)


def decode_coordinator_key(coordinator: str, key: Buffer) -> Message:
    """`coordinator` is "group", "transaction" or "share". Raises DecodeError, also for an unknown type."""
    record_type = _leading_int16(key)
    return _known(KEYS_AND_VALUES[coordinator][0], coordinator, record_type).decode(_KEY_VERSION, key, 2)


def decode_coordinator_value(coordinator: str, record_type: int, value: Buffer) -> Message:
    """`record_type` is the API_KEY of the record's key. Raises DecodeError, also for an unknown version."""
    cls = _known(KEYS_AND_VALUES[coordinator][1], coordinator, record_type)
    return cls.decode(_leading_int16(value), value, 2)


def _leading_int16(buffer: Buffer) -> int:
    try:
        (number,) = _INT16.unpack_from(buffer)
    except StructError as error:
        raise DecodeError("incomplete coordinator record") from error
    assert isinstance(number, int)
    return number


def _known(names: dict[int, str], coordinator: str, record_type: int) -> type[Message]:
    name = names.get(record_type)
    if name is None:
        raise DecodeError(f"{coordinator} record of unknown type {record_type}")
    return message_class(name)
