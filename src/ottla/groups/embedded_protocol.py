"""The embedded protocol of classic consumers: the content of their metadata and assignments.

The coordinator reads it only in a consumer group, where it assigns to classic members as well. A version
number precedes the message; later versions extend the newest known one, so they are read as that.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from struct import Struct
from struct import error as StructError  # noqa: N812

from ottla.groups.topics_view import TopicsView
from ottla.protocol.errors import DecodeError
from ottla.protocol.messages.consumer_protocol_assignment import (
    ConsumerProtocolAssignment,
    TopicPartition,
)
from ottla.protocol.messages.consumer_protocol_subscription import ConsumerProtocolSubscription

# Partitions by topic id, in any collection.
Partitions = Mapping[bytes, Collection[int]]

PROTOCOL_TYPE = "consumer"

_VERSION = Struct(">h")


def read_version(data: bytes) -> int:
    try:
        (version,) = _VERSION.unpack_from(data)
    except StructError as error:
        raise DecodeError("the version is missing") from error
    if version < 0:
        raise DecodeError(f"version {version} is not supported")
    assert isinstance(version, int)
    return version


def read_subscription(metadata: bytes) -> ConsumerProtocolSubscription:
    """Raises DecodeError."""
    version = min(read_version(metadata), ConsumerProtocolSubscription.MAX_VERSION)
    return ConsumerProtocolSubscription.read(version, metadata, _VERSION.size)[0]


def read_assigned(data: bytes) -> dict[str, list[int]]:
    """Return the partitions by topic name; empty data is an empty assignment. Raises DecodeError."""
    if not data:
        return {}
    version = min(read_version(data), ConsumerProtocolAssignment.MAX_VERSION)
    message = ConsumerProtocolAssignment.read(version, data, _VERSION.size)[0]
    found: dict[str, list[int]] = {}
    for each in message.assigned_partitions:
        found.setdefault(each.topic, []).extend(each.partitions)
    return found


def read_assignment(data: bytes, topics: TopicsView) -> dict[bytes, tuple[int, ...]]:
    """Return the partitions of topics that exist. Raises DecodeError."""
    return by_topic_id(read_assigned(data).items(), topics)


def by_topic_id(named: Iterable[tuple[str, list[int]]], topics: TopicsView) -> dict[bytes, tuple[int, ...]]:
    found: dict[bytes, tuple[int, ...]] = {}
    for name, partitions in named:
        topic_id = topics.topic_id(name)
        if topic_id is not None and partitions:
            found[topic_id] = found.get(topic_id, ()) + tuple(partitions)
    return found


def write_assignment(partitions: Partitions, subscription_version: int, topics: TopicsView) -> bytes:
    """Encode the assignment in the version of the member's subscription, or the newest known one."""
    version = min(subscription_version, ConsumerProtocolAssignment.MAX_VERSION)
    assigned: list[TopicPartition] = []
    for topic_id, numbers in partitions.items():
        name = topics.topic_name(topic_id)
        if name is not None:
            assigned.append(TopicPartition(topic=name, partitions=sorted(numbers)))
    assigned.sort(key=lambda each: each.topic)
    message = ConsumerProtocolAssignment(assigned_partitions=assigned, user_data=None)
    return _VERSION.pack(version) + message.encode(version)
