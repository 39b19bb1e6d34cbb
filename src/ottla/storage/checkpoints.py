"""The text files of log directories: offset checkpoints, clean shutdown marker, identity of the directory.

An offset checkpoint is a version line "0", a line with the number of entries, then "topic partition offset".
"""

from __future__ import annotations

from collections.abc import Mapping

from ottla.protocol.uuids import uuid_from_text, uuid_to_text
from ottla.storage.files import Files

RECOVERY_POINTS = "recovery-point-offset-checkpoint"
LOG_STARTS = "log-start-offset-checkpoint"
HIGH_WATERMARKS = "replication-offset-checkpoint"
CLEANED_OFFSETS = "cleaner-offset-checkpoint"
OFFSET_CHECKPOINTS = (RECOVERY_POINTS, LOG_STARTS, HIGH_WATERMARKS, CLEANED_OFFSETS)
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
META_PROPERTIES = "meta.properties"
PARTITION_METADATA = "partition.metadata"

TopicPartition = tuple[str, int]


class CorruptCheckpoint(Exception):
    """The file is not a valid checkpoint."""


def parse_lines(data: bytes, fields: int) -> list[list[str]]:
    """Parse a checkpoint file into entries, each split into its fields."""
    try:
        lines = data.decode("utf-8").split("\n")
    except UnicodeDecodeError as error:
        raise CorruptCheckpoint("not text") from error
    while lines and not lines[-1]:
        lines.pop()
    if len(lines) < 2 or lines[0].strip() != "0" or not lines[1].strip().isdigit():
        raise CorruptCheckpoint("not a version 0 checkpoint")
    entries = [line.split(" ") for line in lines[2:]]
    if len(entries) != int(lines[1]):
        raise CorruptCheckpoint(f"{len(entries)} entries instead of {lines[1]}")
    if any(len(entry) != fields for entry in entries):
        raise CorruptCheckpoint(f"an entry does not have {fields} fields")
    return entries


def render_lines(lines: list[str]) -> bytes:
    return "\n".join(["0", str(len(lines)), *lines, ""]).encode()


def parse_offsets(data: bytes) -> dict[TopicPartition, int]:
    try:
        return {
            (topic, int(partition)): int(offset) for topic, partition, offset in parse_lines(data, fields=3)
        }
    except ValueError as error:
        raise CorruptCheckpoint(str(error)) from error


def render_offsets(offsets: Mapping[TopicPartition, int]) -> bytes:
    return render_lines([f"{topic} {partition} {offset}" for (topic, partition), offset in offsets.items()])


def read_offsets(files: Files, directory: str, name: str) -> dict[TopicPartition, int]:
    """Read a checkpoint; empty if the file is missing. Raises CorruptCheckpoint."""
    data = files.read_bytes(f"{directory}/{name}")
    return {} if data is None else parse_offsets(data)


def take_clean_shutdown(files: Files, directory: str) -> tuple[bool, int]:
    """Return (whether the last shutdown was clean, its broker epoch or -1), and remove the marker."""
    path = f"{directory}/{CLEAN_SHUTDOWN}"
    data = files.read_bytes(path)
    if data is None:
        return False, -1
    files.remove(path)
    files.sync_dir(directory)
    return True, _broker_epoch(data)


def _broker_epoch(data: bytes) -> int:
    import json

    try:
        marker = json.loads(data)
        return int(marker["brokerEpoch"])
    except (ValueError, KeyError, TypeError):
        # Written by a version without the epoch: the shutdown was clean nevertheless.
        return -1


def write_clean_shutdown(files: Files, directory: str, broker_epoch: int) -> None:
    data = f'{{"version":0,"brokerEpoch":{broker_epoch}}}'
    files.write_atomic(f"{directory}/{CLEAN_SHUTDOWN}", data.encode())


class MetaProperties:
    """The identity of a log directory: cluster, node and directory id."""

    __slots__ = ("cluster_id", "directory_id", "node_id")

    def __init__(self, cluster_id: str, node_id: int, directory_id: bytes) -> None:
        self.cluster_id = cluster_id
        self.node_id = node_id
        self.directory_id = directory_id

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, MetaProperties):
            return NotImplemented
        return (self.cluster_id, self.node_id, self.directory_id) == (
            other.cluster_id,
            other.node_id,
            other.directory_id,
        )

    __hash__ = None  # type: ignore[assignment]

    def render(self) -> bytes:
        return (
            f"cluster.id={self.cluster_id}\n"
            f"directory.id={uuid_to_text(self.directory_id)}\n"
            f"node.id={self.node_id}\n"
            "version=1\n"
        ).encode()


def read_meta_properties(files: Files, directory: str) -> MetaProperties | None:
    """Return the identity, None if the directory is new. Raises ValueError for an invalid file."""
    path = f"{directory}/{META_PROPERTIES}"
    data = files.read_bytes(path)
    if data is None:
        return None
    values = parse_properties(data)
    try:
        if values["version"] != "1":
            raise ValueError(f"unknown version {values['version']}")
        return MetaProperties(
            values["cluster.id"], int(values["node.id"]), uuid_from_text(values["directory.id"])
        )
    except KeyError as error:
        raise ValueError(f"{path}: {error.args[0]} is missing") from None
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def write_meta_properties(files: Files, directory: str, meta: MetaProperties) -> None:
    files.write_atomic(f"{directory}/{META_PROPERTIES}", meta.render())


def parse_properties(data: bytes) -> dict[str, str]:
    """Parse key=value lines; Java escapes ':' and '=' with a backslash."""
    values = {}
    for line in data.decode("utf-8").splitlines():
        key, separator, value = line.strip().partition("=")
        if separator and not key.startswith(("#", "!")):
            values[key.strip()] = value.strip().replace("\\", "")
    return values


def read_partition_metadata(files: Files, directory: str) -> bytes | None:
    """Return the topic id, None if the file is missing or invalid."""
    data = files.read_bytes(f"{directory}/{PARTITION_METADATA}")
    if data is None:
        return None
    marker = data.find(b"topic_id: ")
    if marker < 0:
        return None
    try:
        return uuid_from_text(data[marker + 10 :].decode("ascii").split("\n", 1)[0].strip())
    except (ValueError, UnicodeDecodeError):
        return None


def write_partition_metadata(files: Files, directory: str, topic_id: bytes) -> None:
    """Write the file without a sync; the first flush of the log syncs it."""
    text = f"version: 0\ntopic_id: {uuid_to_text(topic_id)}"
    files.write_atomic(f"{directory}/{PARTITION_METADATA}", text.encode(), durable=False)
