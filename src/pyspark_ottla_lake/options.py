"""The options of the sink, as values that were checked."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

DEFAULT_TARGET_FILE_BYTES = 128 * 1024 * 1024
TARGET_FILE_BYTES_MIN = 1024
CODECS = ("snappy", "zstd", "gzip", "lz4", "brotli", "none")
_UNITS = {"": 1, "k": 1024, "m": 1024**2, "g": 1024**3}


class LakeOptions(NamedTuple):
    """Everything a query says about its table; goes to executors by pickle."""

    # A directory of this machine, or an address such as s3://bucket/orders.
    path: str
    # None: not said, so as the table has it.
    partition_by: tuple[str, ...] | None
    merge_schema: bool
    target_file_bytes: int
    compression: str
    storage: dict[str, str]
    # A name and number by which a batch write is done once, however often it is called.
    app: tuple[str, int] | None

    @property
    def is_local(self) -> bool:
        return "://" not in self.path


def parse_options(given: Mapping[str, str]) -> LakeOptions:
    """Raises ValueError, in the words of whoever wrote the option."""
    options = {name.lower(): value for name, value in given.items()}
    partition_by = options.get("partitionby")
    return LakeOptions(
        path=table_path(options.get("path", "")),
        partition_by=None if partition_by is None else _names(partition_by),
        merge_schema=_truth("mergeSchema", options.get("mergeschema", "true")),
        target_file_bytes=_size("targetFileSize", options.get("targetfilesize")),
        compression=_codec(options.get("compression", "snappy")),
        storage={
            name.removeprefix("storage."): value
            for name, value in options.items()
            if name.startswith("storage.")
        },
        app=_app(options),
    )


def table_path(text: str) -> str:
    """An absolute directory, or an address as it is: executors have a working directory of their own."""
    if not text.strip():
        raise ValueError("option 'path' is missing: where is the table?")
    if text.startswith("file:"):
        text = unquote(urlsplit(text).path)
    return text.rstrip("/") if "://" in text else os.path.abspath(text)


def _names(text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    if len({name.lower() for name in names}) != len(names):
        raise ValueError(f"option 'partitionBy' is {text!r}: a column is named twice")
    return names


def _truth(name: str, text: str) -> bool:
    if text.strip().lower() not in ("true", "false"):
        raise ValueError(f"option '{name}' is {text!r}: expected true or false")
    return text.strip().lower() == "true"


def _size(name: str, text: str | None) -> int:
    if text is None:
        return DEFAULT_TARGET_FILE_BYTES
    match = re.fullmatch(r"(\d+)\s*([kmg]?)i?b?", text.strip().lower())
    if match is None:
        raise ValueError(f"option '{name}' is {text!r}: expected bytes, or a number with k, m or g: 128m")
    found = int(match[1]) * _UNITS[match[2]]
    if found < TARGET_FILE_BYTES_MIN:
        raise ValueError(f"option '{name}' is {text!r}: at least {TARGET_FILE_BYTES_MIN} bytes")
    return found


def _codec(text: str) -> str:
    codec = text.strip().lower()
    if codec not in CODECS:
        raise ValueError(f"option 'compression' is {text!r}: expected {', '.join(CODECS)}")
    return codec


def _app(options: Mapping[str, str]) -> tuple[str, int] | None:
    app_id, version = options.get("txnappid"), options.get("txnversion")
    if app_id is None and version is None:
        return None
    if not app_id or version is None:
        raise ValueError("the options 'txnAppId' and 'txnVersion' belong together: set both or none")
    if not version.strip().isdigit():
        raise ValueError(f"option 'txnVersion' is {version!r}: expected a number that grows with every write")
    return app_id, int(version)
