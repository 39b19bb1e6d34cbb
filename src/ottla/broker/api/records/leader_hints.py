"""The current leader in error responses, so that clients need no Metadata request first (KIP-951)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.broker.api.cluster_view import nodes
from ottla.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from ottla.controller.image.cluster import ClusterImage
    from ottla.controller.image.parts import TopicImage

_ERRORS = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)


def add_leader(image: ClusterImage, topic: bytes | str, response: Any, index: int, error_code: int) -> int:
    """Put the current leader into the response of a partition; returns its node id, or -1."""
    if error_code not in _ERRORS:
        return -1
    known: TopicImage | None
    known = image.topics_by_id.get(topic) if isinstance(topic, bytes) else image.topics_by_name.get(topic)
    partition = None if known is None else known.partitions.get(index)
    if partition is None:
        return -1
    response.current_leader.leader_id = partition.leader
    response.current_leader.leader_epoch = partition.leader_epoch
    return partition.leader


def add_endpoints(
    image: ClusterImage, listener_name: str, response: Any, endpoint_class: type[Any], leaders: list[int]
) -> None:
    """Add the endpoints of these brokers to a response."""
    wanted = [node_id for node_id in leaders if node_id >= 0]
    if not wanted:
        return
    response.node_endpoints = [
        endpoint_class(node_id=node.node_id, host=node.host, port=node.port, rack=node.rack)
        for node in nodes(image, listener_name)
        if node.node_id in wanted
    ]
