"""Kafka's uuids: 16 bytes on the wire, 22 characters of url-safe base64 in text."""

from __future__ import annotations

from binascii import Error as Base64Error
from binascii import a2b_base64, b2a_base64

ZERO_UUID = bytes(16)
# The id of __cluster_metadata, the only topic without a random id.
METADATA_TOPIC_ID = bytes(15) + b"\x01"

_TO_URL_SAFE = bytes.maketrans(b"+/", b"-_")
_FROM_URL_SAFE = bytes.maketrans(b"-_", b"+/")


def uuid_to_text(uuid: bytes) -> str:
    assert len(uuid) == 16, len(uuid)
    return b2a_base64(uuid, newline=False)[:22].translate(_TO_URL_SAFE).decode("ascii")


def uuid_from_text(text: str) -> bytes:
    """Parse the text form of a uuid. Raises ValueError for any other text."""
    try:
        uuid = a2b_base64(text.encode("ascii").translate(_FROM_URL_SAFE) + b"==", strict_mode=True)
    except (UnicodeEncodeError, Base64Error):
        uuid = b""
    if len(uuid) != 16 or uuid_to_text(uuid) != text:
        raise ValueError(f"not a uuid: {text!r}")
    return uuid
