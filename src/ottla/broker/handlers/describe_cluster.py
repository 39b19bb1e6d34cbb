"""DescribeCluster (60): the cluster's id and its brokers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.authorized_operations import CLUSTER_OPERATIONS, NOT_ASKED
from ottla.broker.cluster_view import any_live_node, nodes
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.describe_cluster_request import DescribeClusterRequest
from ottla.protocol.messages.describe_cluster_response import DescribeClusterBroker, DescribeClusterResponse

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.broker.connection import Request

API_KEY = 60
BROKERS, CONTROLLERS = 1, 2


def handle(broker: Broker, request: Request, message: DescribeClusterRequest) -> DescribeClusterResponse:
    if message.endpoint_type != BROKERS:
        known = message.endpoint_type == CONTROLLERS
        return DescribeClusterResponse(
            error_code=ErrorCode.MISMATCHED_ENDPOINT_TYPE if known else ErrorCode.UNSUPPORTED_ENDPOINT_TYPE,
            error_message="this listener tells of brokers (endpoint type 1)",
            endpoint_type=message.endpoint_type,
        )
    found = nodes(broker.image, request.listener.name, include_fenced=message.include_fenced_brokers)
    return DescribeClusterResponse(
        cluster_id=broker.cluster_id,
        controller_id=any_live_node(found, broker.node_id),
        brokers=[
            DescribeClusterBroker(
                broker_id=node.node_id, host=node.host, port=node.port, rack=node.rack, is_fenced=node.fenced
            )
            for node in found
        ],
        cluster_authorized_operations=(
            CLUSTER_OPERATIONS if message.include_cluster_authorized_operations else NOT_ASKED
        ),
    )
