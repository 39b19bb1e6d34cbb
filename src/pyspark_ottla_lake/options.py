"""The options of the sink."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from pyspark_ottla.option_values import flag, one_of, write_identity

DEFAULT_TARGET_FILE_BYTES = 128 * 1024 * 1024
TARGET_FILE_BYTES_MIN = 1024
CODECS = ("snappy", "zstd", "gzip", "lz4", "brotli", "none")
_UNITS = {"": 1, "k": 1024, "m": 1024**2, "g": 1024**3}


class LakeOptions(NamedTuple):
    """The options of a query. They are pickled to executors."""

    # A local directory, or a URL such as s3://bucket/orders.
    path: str
    # None: the partitioning of the existing table.
    partition_by: tuple[str, ...] | None
    merge_schema: bool
    target_file_bytes: int
    compression: str
    storage: dict[str, str]
    # txnAppId and txnVersion, which make a batch write idempotent.
    app: tuple[str, int] | None

    @property
    def is_local(self) -> bool:
        return "://" not in self.path


def parse_options(given: Mapping[str, str]) -> LakeOptions:
    """Raises ValueError with the name of the option."""
    options = {name.lower(): value for name, value in given.items()}
    partition_by = options.get("partitionby")
    return LakeOptions(
        path=table_path(options.get("path", "")),
        partition_by=None if partition_by is None else _names(partition_by),
        merge_schema=flag(options, "mergeSchema", default=True),
        target_file_bytes=_size("targetFileSize", options.get("targetfilesize")),
        compression=one_of(options, "compression", CODECS, "snappy"),
        storage={
            name.removeprefix("storage."): value
            for name, value in options.items()
            if name.startswith("storage.")
        },
        app=write_identity(options),
    )


def table_path(text: str) -> str:
    """Return an absolute directory, because executors have other working directories; URLs are unchanged."""
    if not text.strip():
        raise ValueError("option 'path' is missing: set it to the directory or URL of the table")
    if text.startswith("file:"):
        text = unquote(urlsplit(text).path)
    return text.rstrip("/") if "://" in text else os.path.abspath(text)


def _names(text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    if len({name.lower() for name in names}) != len(names):
        raise ValueError(f"option 'partitionBy' is {text!r}: duplicate column")
    return names


def _size(name: str, text: str | None) -> int:
    if text is None:
        return DEFAULT_TARGET_FILE_BYTES
    match = re.fullmatch(r"(\d+)\s*([kmg]?)i?b?", text.strip().lower())
    if match is None:
        raise ValueError(
            f"option '{name}' is {text!r}: expected a size in bytes, or with k, m or g such as 128m"
        )
    found = int(match[1]) * _UNITS[match[2]]
    if found < TARGET_FILE_BYTES_MIN:
        raise ValueError(f"option '{name}' is {text!r}: expected at least {TARGET_FILE_BYTES_MIN} bytes")
    return found
