"""The cluster as the clients of one listener see it: endpoints, leaders, offline replicas.

A broker without an endpoint of that listener cannot be reached by those clients: it is not shown, and does
not count as a leader.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ottla.controller.image.cluster import ClusterImage
from ottla.controller.image.parts import NO_LEADER, BrokerImage, PartitionImage
from ottla.controller.partitions.directories import is_online
from ottla.controller.refusal import Refusal
from ottla.controller.topics.names import check_topic_name
from ottla.protocol.errors import ErrorCode


class ReachableBroker(NamedTuple):
    """A broker as clients of one listener reach it."""

    node_id: int
    host: str
    port: int
    rack: str | None
    fenced: bool


def nodes(
    image: ClusterImage, listener_name: str, is_shown: Callable[[int], bool] = lambda _: False
) -> list[ReachableBroker]:
    """The brokers that have an endpoint of that listener: the live ones, and those fenced ones that
    `is_shown` names."""
    return [
        ReachableBroker(broker.broker_id, host, port, broker.rack, broker.fenced)
        for broker in image.brokers.values()
        if not broker.fenced or is_shown(broker.broker_id)
        for name, host, port, _ in broker.endpoints
        if name == listener_name
    ]


def any_live_node(found: list[ReachableBroker], preferred: int) -> int:
    """The broker that clients are given as the controller: any live one forwards their requests to the real
    one, which they cannot reach. The broker that responds saves them a connection."""
    live = [node.node_id for node in found if not node.fenced]
    return preferred if preferred in live else next(iter(live), -1)


class PartitionView:
    """Partitions as the clients of one listener see them."""

    __slots__ = ("_image", "_is_gone", "_live")

    def __init__(
        self,
        image: ClusterImage,
        listener_name: str,
        is_gone: Callable[[int], bool] = lambda _: False,
    ) -> None:
        """`is_gone` names brokers that stopped listening but are not fenced yet."""
        self._image = image
        self._is_gone = is_gone
        self._live: dict[int, BrokerImage] = {
            broker.broker_id: broker
            for broker in image.brokers.values()
            if not broker.fenced and any(name == listener_name for name, *_ in broker.endpoints)
        }

    def is_live(self, broker_id: int) -> bool:
        return broker_id in self._live

    def leader(self, partition: PartitionImage) -> tuple[int, ErrorCode]:
        """The leader, or -1 and the error. A leader that is fenced or gone does not count: clients refresh
        soon instead of retrying it for long."""
        leader = partition.leader
        if leader in self._live:
            if self._is_gone(leader):
                return NO_LEADER, ErrorCode.LEADER_NOT_AVAILABLE
            return leader, ErrorCode.NONE
        broker = self._image.brokers.get(leader)
        if broker is None or broker.fenced:
            return NO_LEADER, ErrorCode.LEADER_NOT_AVAILABLE
        return NO_LEADER, ErrorCode.LISTENER_NOT_FOUND

    def offline_replicas(self, partition: PartitionImage) -> list[int]:
        """Replicas whose broker is not live, or has lost the directory."""
        live, replicas, directories = self._live, partition.replicas, partition.directories
        if len(directories) != len(replicas):
            return [each for each in replicas if each not in live]
        return [
            each
            for each, directory in zip(replicas, directories, strict=True)
            if each not in live
            or (directory not in live[each].log_dirs and not is_online(live[each], directory))
        ]


def topic_name_problem(name: str) -> str | None:
    """Why a topic cannot have this name, or None."""
    try:
        check_topic_name(name)
    except Refusal as refusal:
        return refusal.message
    return None
