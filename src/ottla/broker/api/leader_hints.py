"""Who leads instead: refusals tell it, so that clients need not ask for metadata first (KIP-951)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.broker.api.cluster_view import nodes
from ottla.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from ottla.broker.node import Node
    from ottla.controller.image_parts import TopicImage

TELLING = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)


def add_leader(broker: Node, topic: bytes | str, answer: Any, index: int, error_code: int) -> int:
    """Put the present leader into a partition's answer; returns its node id, -1 if there is none to tell."""
    if error_code not in TELLING:
        return -1
    image = broker.image
    known: TopicImage | None
    known = image.topics_by_id.get(topic) if isinstance(topic, bytes) else image.topics_by_name.get(topic)
    partition = None if known is None else known.partitions.get(index)
    if partition is None:
        return -1
    answer.current_leader.leader_id = partition.leader
    answer.current_leader.leader_epoch = partition.leader_epoch
    return partition.leader


def add_endpoints(
    broker: Node, listener_name: str, response: Any, endpoint_class: type[Any], leaders: list[int]
) -> None:
    """Tell where these brokers are found."""
    wanted = [node_id for node_id in leaders if node_id >= 0]
    if not wanted:
        return
    response.node_endpoints = [
        endpoint_class(node_id=node.node_id, host=node.host, port=node.port, rack=node.rack)
        for node in nodes(broker.image, listener_name)
        if node.node_id in wanted
    ]
