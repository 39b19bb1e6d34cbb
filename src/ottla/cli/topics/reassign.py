"""Reassignment of partitions: targets, throttles, progress. No output."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ottla.client import Admin, Reassignment
from ottla.client.admin.cluster import PartitionKey, by_topic
from ottla.client.errors import BrokerError, ClientError
from ottla.protocol.errors import ErrorCode

LEADER_RATE = "leader.replication.throttled.rate"
FOLLOWER_RATE = "follower.replication.throttled.rate"
LEADER_REPLICAS = "leader.replication.throttled.replicas"
FOLLOWER_REPLICAS = "follower.replication.throttled.replicas"

# Sources in DescribeConfigs: dynamic, on the topic or on one broker.
SET_ON_TOPIC = 1
SET_ON_BROKER = 2

FORMAT = '{"version": 1, "partitions": [{"topic": "orders", "partition": 0, "replicas": [0, 1, 2]}]}'

DONE, MOVING, OTHER = "complete", "in progress", "not as requested"

Assignment = dict[PartitionKey, list[int]]


def parse_file(text: str, name: str) -> Assignment:
    """Parse Kafka's reassignment JSON. Raises ValueError that names the file and the entry."""
    try:
        document = json.loads(text)
    except ValueError as error:
        raise ValueError(f"{name}: not JSON: {error}") from error
    rows = document.get("partitions") if isinstance(document, dict) else None
    if not isinstance(rows, list) or not rows:
        raise ValueError(f"{name}: expected {FORMAT}")
    if document.get("version", 1) != 1:
        raise ValueError(f"{name}: version {document['version']} is unknown, expected 1")
    found: Assignment = {}
    for number, row in enumerate(rows, 1):
        key, replicas = _entry(row, f"{name}: entry {number}")
        if key in found:
            raise ValueError(f"{name}: entry {number}: {key[0]}-{key[1]} occurs twice")
        found[key] = replicas
    return found


def _entry(row: Any, where: str) -> tuple[PartitionKey, list[int]]:
    if not isinstance(row, dict):
        raise ValueError(f"{where}: expected an object with topic, partition and replicas")
    topic, partition, replicas = row.get("topic"), row.get("partition"), row.get("replicas")
    if not isinstance(topic, str) or not topic:
        raise ValueError(f"{where}: topic is {topic!r}, expected a name")
    if not isinstance(partition, int) or isinstance(partition, bool) or partition < 0:
        raise ValueError(f"{where}: partition is {partition!r}, expected a non-negative number")
    if not isinstance(replicas, list):
        raise ValueError(f"{where}: replicas is {replicas!r}, expected a list of broker ids")
    if any(directory != "any" for directory in row.get("log_dirs", ())):
        raise ValueError(f'{where}: log_dirs must be "any": choosing directories is not supported')
    return (topic, partition), checked_replicas(replicas, where)


def checked_replicas(replicas: Sequence[Any], where: str) -> list[int]:
    bad = [node for node in replicas if not isinstance(node, int) or isinstance(node, bool) or node < 0]
    if not replicas or bad or len(set(replicas)) != len(replicas):
        raise ValueError(f"{where}: replicas {list(replicas)!r}: expected distinct broker ids, e.g. 0,1,2")
    return list(replicas)


def turned(replicas: Sequence[int], by: int) -> list[int]:
    """Rotate the brokers, so that partitions of a topic have different preferred leaders."""
    by %= len(replicas)
    return [*replicas[by:], *replicas[:by]]


def to_document(assignment: Mapping[PartitionKey, Sequence[int]]) -> dict[str, Any]:
    """Return the assignment in the format of the file."""
    return {
        "version": 1,
        "partitions": [
            {"topic": topic, "partition": partition, "replicas": list(replicas)}
            for (topic, partition), replicas in sorted(assignment.items())
        ],
    }


async def current_assignment(admin: Admin, topics: Sequence[str]) -> Assignment:
    """Return the replicas of every partition of these topics."""
    return {
        (topic.name, number): list(row.replicas)
        for topic in await admin.describe_topics(sorted(set(topics)))
        for number, row in topic.partitions.items()
    }


async def set_throttle(
    admin: Admin, before: Mapping[PartitionKey, Sequence[int]], targets: Assignment, rate_bytes: int
) -> None:
    """Throttle the current replicas as leaders and the new replicas as followers."""
    brokers: dict[int, None] = {}
    for key, target in targets.items():
        brokers.update(dict.fromkeys([*before[key], *target]))
    for topic, numbers in by_topic(targets).items():
        leaders = [f"{number}:{node}" for number in numbers for node in before[topic, number]]
        followers = [
            f"{number}:{node}"
            for number in numbers
            for node in targets[topic, number]
            if node not in before[topic, number]
        ]
        values = {LEADER_REPLICAS: ",".join(leaders)}
        if followers:
            values[FOLLOWER_REPLICAS] = ",".join(followers)
        await admin.alter_topic_configs(topic, values=values)
    rate = str(rate_bytes)
    for node_id in sorted(brokers):
        await admin.alter_broker_configs(node_id, values={LEADER_RATE: rate, FOLLOWER_RATE: rate})


async def remove_throttle(admin: Admin, topics: Sequence[str], *, brokers: bool) -> list[str]:
    """Undo `set_throttle`; return the topics and brokers that had a throttle."""
    removed = []
    for topic, entries in (await admin.describe_topic_configs(sorted(set(topics)))).items():
        ours = [
            entry.name
            for entry in entries
            if entry.name in (LEADER_REPLICAS, FOLLOWER_REPLICAS) and entry.source == SET_ON_TOPIC
        ]
        if ours:
            await admin.alter_topic_configs(topic, unset=ours)
            removed.append(f"topic {topic}")
    if not brokers:
        return removed
    for node in (await admin.describe_cluster()).nodes:
        try:
            found = await admin.describe_broker_configs(node.id, [LEADER_RATE, FOLLOWER_RATE])
            rates = [entry.name for entry in found if entry.source == SET_ON_BROKER]
            if rates:
                await admin.alter_broker_configs(node.id, unset=rates)
                removed.append(f"broker {node.id}")
        except ClientError as error:
            if not error.retriable:
                raise
            # A broker that is down keeps its rates, which have no effect without throttled replicas.
    return removed


class Progress(NamedTuple):
    """The progress of a partition."""

    key: PartitionKey
    state: str
    replicas: tuple[int, ...]
    target: tuple[int, ...]
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()

    def as_json(self) -> dict[str, Any]:
        return {
            "topic": self.key[0],
            "partition": self.key[1],
            "state": self.state,
            "replicas": list(self.replicas),
            "target": list(self.target),
            "adding": list(self.adding),
            "removing": list(self.removing),
        }


async def progress_of(admin: Admin, targets: Assignment) -> list[Progress]:
    """Compare the target with the current state."""
    moving = await admin.list_partition_reassignments(targets)
    now = await current_assignment(admin, [topic for topic, _ in targets])
    found = []
    for key, target in sorted(targets.items()):
        if key in moving:
            move = moving[key]
            found.append(Progress(key, MOVING, move.replicas, tuple(target), move.adding, move.removing))
        else:
            state = DONE if now.get(key) == target else OTHER
            found.append(Progress(key, state, tuple(now.get(key, ())), tuple(target)))
    return found


def ongoing(moves: Mapping[PartitionKey, Reassignment]) -> list[Progress]:
    return [
        Progress(key, MOVING, move.replicas, move.target, move.adding, move.removing)
        for key, move in sorted(moves.items())
    ]


async def cancel(admin: Admin, keys: Sequence[PartitionKey]) -> dict[PartitionKey, BrokerError | None]:
    """Cancel moves; ignore partitions that are not moving."""
    answers = await admin.alter_partition_reassignments(dict.fromkeys(keys))
    return {
        key: error
        for key, error in answers.items()
        if error is None or error.code != ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
    }
