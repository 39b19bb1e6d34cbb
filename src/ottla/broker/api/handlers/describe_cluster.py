"""DescribeCluster (60): the cluster's id and its brokers; on a controller's listener, its controllers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.broker.api.authorized_operations import CLUSTER_OPERATIONS, NOT_ASKED
from ottla.broker.api.cluster_view import any_live_node, nodes
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.describe_cluster_request import DescribeClusterRequest
from ottla.protocol.messages.describe_cluster_response import DescribeClusterBroker, DescribeClusterResponse

if TYPE_CHECKING:
    from ottla.broker.net.request import Request
    from ottla.broker.node import Node

API_KEY = 60
BROKERS, CONTROLLERS = 1, 2


def handle(broker: Node, request: Request, message: DescribeClusterRequest) -> DescribeClusterResponse:
    served = CONTROLLERS if request.on_controller_listener else BROKERS
    if message.endpoint_type != served:
        known = message.endpoint_type in (BROKERS, CONTROLLERS)
        what = "controllers" if served == CONTROLLERS else "brokers"
        return DescribeClusterResponse(
            error_code=ErrorCode.MISMATCHED_ENDPOINT_TYPE if known else ErrorCode.UNSUPPORTED_ENDPOINT_TYPE,
            error_message=f"this listener tells of {what} (endpoint type {served})",
            endpoint_type=message.endpoint_type,
        )
    answer = DescribeClusterResponse(cluster_id=broker.cluster_id, endpoint_type=served)
    if served == CONTROLLERS:
        _add_controllers(broker, request, answer)
    else:
        _add_brokers(broker, request, message, answer)
    asked = message.include_cluster_authorized_operations
    answer.cluster_authorized_operations = CLUSTER_OPERATIONS if asked else NOT_ASKED
    return answer


def _add_brokers(
    broker: Node, request: Request, message: DescribeClusterRequest, answer: DescribeClusterResponse
) -> None:
    found = nodes(broker.image, request.listener.name, lambda _: message.include_fenced_brokers)
    answer.controller_id = any_live_node(found, broker.node_id)
    answer.brokers = [
        DescribeClusterBroker(
            broker_id=node.node_id, host=node.host, port=node.port, rack=node.rack, is_fenced=node.fenced
        )
        for node in found
    ]


def _add_controllers(broker: Node, request: Request, answer: DescribeClusterResponse) -> None:
    """The controllers that registered, and the voters that did not yet."""
    machine = broker.quorum.machine
    answer.controller_id = machine.leader_id
    endpoints: dict[int, Any] = {voter.node_id: voter.endpoints for voter in machine.voters}
    for node_id, registered in broker.image.controllers.items():
        endpoints[node_id] = registered.end_points  # type: ignore[attr-defined]
    answer.brokers = [
        DescribeClusterBroker(broker_id=node_id, host=each.host, port=each.port)
        for node_id, known in sorted(endpoints.items())
        for each in known
        if each.name == request.listener.name
    ]
