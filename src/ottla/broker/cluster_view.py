"""What handlers ask of the cluster's image: endpoints, offline replicas, whether a name can be a topic's."""

from __future__ import annotations

from typing import NamedTuple

from ottla.controller.decision import Refusal
from ottla.controller.image import ClusterImage
from ottla.controller.image_parts import PartitionImage
from ottla.controller.topic_names import check_topic_name


class Node(NamedTuple):
    """A broker as clients of one listener reach it."""

    node_id: int
    host: str
    port: int
    rack: str | None
    fenced: bool


def nodes(image: ClusterImage, listener_name: str, *, include_fenced: bool = False) -> list[Node]:
    """The brokers that have an endpoint of that listener."""
    return [
        Node(broker.broker_id, host, port, broker.rack, broker.fenced)
        for broker in image.brokers.values()
        if include_fenced or not broker.fenced
        for name, host, port, _ in broker.endpoints
        if name == listener_name
    ]


def offline_replicas(image: ClusterImage, partition: PartitionImage) -> list[int]:
    brokers = image.brokers
    return [node for node in partition.replicas if node not in brokers or brokers[node].fenced]


def topic_name_problem(name: str) -> str | None:
    """Why no topic can be called so, or None."""
    try:
        check_topic_name(name)
    except Refusal as refusal:
        return refusal.message
    return None
