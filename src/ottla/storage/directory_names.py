"""Names of partition directories: `<topic>-<partition>`, and suffixes for deleted and stray ones."""

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
    """Return (topic, partition). Raises ValueError if the path does not end in a partition directory name."""
    name = path.rpartition("/")[2]
    topic, separator, partition = name.rpartition("-")
    if not separator or not topic or not (partition.isascii() and partition.isdigit()):
        raise ValueError(f"{name!r} is not a partition directory")
    return topic, int(partition)


def deleted_directory_name(topic: str, partition: int, unique_hex: str, suffix: str = DELETE_SUFFIX) -> str:
    """Return the name of a deleted or stray directory, truncated to the file system's limit."""
    tail = f"-{partition}.{unique_hex}{suffix}"
    return topic[: _NAME_BYTES_MAX - len(tail)] + tail
