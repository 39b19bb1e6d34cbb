"""Names of partition directories: `<topic>-<partition>`, and the suffixes of those on their way out."""

from __future__ import annotations

DELETE_SUFFIX = "-delete"
FUTURE_SUFFIX = "-future"
STRAY_SUFFIX = "-stray"
_NAME_BYTES_MAX = 255


def parent(path: str) -> str:
    return path.rpartition("/")[0] or ("/" if path.startswith("/") else ".")


def directory_name(topic: str, partition: int) -> str:
    return f"{topic}-{partition}"


def parse_directory_name(path: str) -> tuple[str, int]:
    """(topic, partition); ValueError if the last part of the path is no partition's name."""
    name = path.rpartition("/")[2]
    topic, separator, partition = name.rpartition("-")
    if not separator or not topic or not (partition.isascii() and partition.isdigit()):
        raise ValueError(f"{name!r} is not a partition directory")
    return topic, int(partition)


def deleted_directory_name(topic: str, partition: int, unique_hex: str, suffix: str = DELETE_SUFFIX) -> str:
    """The name of a directory on its way out, cut to what a file system allows."""
    tail = f"-{partition}.{unique_hex}{suffix}"
    return topic[: _NAME_BYTES_MAX - len(tail)] + tail
