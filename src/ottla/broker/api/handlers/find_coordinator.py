"""FindCoordinator (10): which broker looks after a group or a transactional id.

The coordinator of a key is the leader of the internal topic's partition that the key hashes to; the topic is
created when it is first asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.broker.api.cluster_view import nodes
from ottla.broker.metadata.topic_creator import GROUP_TOPIC, TRANSACTION_TOPIC
from ottla.protocol.errors import ErrorCode
from ottla.protocol.hashing import java_hash_partition
from ottla.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from ottla.protocol.messages.find_coordinator_response import Coordinator, FindCoordinatorResponse

if TYPE_CHECKING:
    from ottla.broker.net.request import Request
    from ottla.broker.node import Node

API_KEY = 10
FIRST_BATCHED_VERSION = 4
HOSTED_WITHIN_MS = 1000
TOPIC_OF_KEY_TYPE = {0: GROUP_TOPIC, 1: TRANSACTION_TOPIC}


def handle(broker: Node, request: Request, message: FindCoordinatorRequest) -> Any:
    topic_name = TOPIC_OF_KEY_TYPE.get(message.key_type)
    if topic_name is None or topic_name in broker.image.topics_by_name:
        return _found(broker, request, message)
    return _after_creation(broker, request, message, topic_name)


async def _after_creation(
    broker: Node, request: Request, message: FindCoordinatorRequest, topic_name: str
) -> FindCoordinatorResponse:
    """The topic is not there yet. What is to be led here is waited for, so that the next request, which comes
    at once, does not find it missing."""
    topic = await broker.topic_creator.find_or_create(topic_name)
    if topic is not None:
        ours = sum(state.leader == broker.node_id for state in topic.partitions.values())
        hosted = broker.partitions.of_topic
        await broker.applier.wait_until(
            lambda: sum(each.is_leader for each in hosted(topic_name).values()) >= ours, HOSTED_WITHIN_MS
        )
    return _found(broker, request, message)


def _found(broker: Node, request: Request, message: FindCoordinatorRequest) -> FindCoordinatorResponse:
    if request.version >= FIRST_BATCHED_VERSION:
        keys = dict.fromkeys(message.coordinator_keys)
        found = [_find(broker, request, message.key_type, key) for key in keys]
        return FindCoordinatorResponse(coordinators=found)
    one = _find(broker, request, message.key_type, message.key)
    return FindCoordinatorResponse(
        error_code=one.error_code,
        error_message=one.error_message,
        node_id=one.node_id,
        host=one.host,
        port=one.port,
    )


def _find(broker: Node, request: Request, key_type: int, key: str) -> Coordinator:
    topic_name = TOPIC_OF_KEY_TYPE.get(key_type)
    if topic_name is None:
        return _failed(key, ErrorCode.INVALID_REQUEST, f"key type {key_type} has no coordinator here")
    if key == "" and key_type == 1:
        return _failed(key, ErrorCode.INVALID_REQUEST, "a transactional id must not be empty")
    topic = broker.image.topics_by_name.get(topic_name)
    if topic is None:
        return _failed(key, ErrorCode.COORDINATOR_NOT_AVAILABLE, f"{topic_name} could not be created")
    leader = topic.partitions[java_hash_partition(key, len(topic.partitions))].leader
    for node in nodes(broker.image, request.listener.name):
        # One that listens no more is about to be replaced: who is sent there tries it for long.
        if node.node_id == leader and not broker.replicas.is_gone(leader):
            return Coordinator(
                key=key, node_id=node.node_id, host=node.host, port=node.port, error_message=None
            )
    return _failed(
        key, ErrorCode.COORDINATOR_NOT_AVAILABLE, f"the coordinator's partition of {topic_name} has no leader"
    )


def _failed(key: str, code: ErrorCode, reason: str) -> Coordinator:
    return Coordinator(key=key, node_id=-1, host="", port=-1, error_code=code, error_message=reason)
