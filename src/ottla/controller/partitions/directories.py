"""Log directories of replicas: which are online, and where a new replica is expected to go."""

from __future__ import annotations

from ottla.controller.image.parts import BrokerImage, PartitionImage

# The smallest ids stand for states of a directory, not for one.
DIRECTORY_IDS_RESERVED = 100
DIRECTORY_UNASSIGNED = bytes(16)
DIRECTORY_LOST = bytes(15) + b"\x01"


def first_directory(broker: BrokerImage | None) -> bytes:
    """The directory, if the broker has only one; otherwise the broker chooses and reports it."""
    if broker is None or not broker.log_dirs:
        return DIRECTORY_LOST
    return broker.log_dirs[0] if len(broker.log_dirs) == 1 else DIRECTORY_UNASSIGNED


def directory_of(partition: PartitionImage, broker_id: int) -> bytes:
    """The directory of the broker's replica, as far as it is known."""
    directories = partition.directories
    if len(directories) != len(partition.replicas) or broker_id not in partition.replicas:
        return DIRECTORY_UNASSIGNED
    return directories[partition.replicas.index(broker_id)]


def is_online(broker: BrokerImage, directory: bytes) -> bool:
    """Whether a replica in this directory can be used. An unassigned one counts as usable."""
    if int.from_bytes(directory) < DIRECTORY_IDS_RESERVED:
        return directory != DIRECTORY_LOST
    return not broker.log_dirs or directory in broker.log_dirs
