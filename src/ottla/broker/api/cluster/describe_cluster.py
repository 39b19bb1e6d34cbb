"""DescribeCluster (60): the cluster id and the brokers; on a controller listener, the controllers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.broker.api.authorized_operations import CLUSTER_OPERATIONS, NOT_REQUESTED
from ottla.broker.api.cluster_view import any_live_node, nodes
from ottla.broker.api.declaration import ApiDeclaration
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.describe_cluster_request import DescribeClusterRequest
from ottla.protocol.messages.describe_cluster_response import DescribeClusterBroker, DescribeClusterResponse

if TYPE_CHECKING:
    from ottla.broker.api.declaration import Handler
    from ottla.broker.api.parts import ApiParts
    from ottla.broker.identity import NodeIdentity
    from ottla.broker.metadata.quorum_node import QuorumNode
    from ottla.broker.metadata_cache import MetadataCache
    from ottla.broker.net.request import Request

BROKERS, CONTROLLERS = 1, 2


class DescribeCluster:
    def __init__(self, identity: NodeIdentity, metadata: MetadataCache, quorum: QuorumNode) -> None:
        self._identity = identity
        self._metadata = metadata
        self._quorum = quorum

    def handle(self, request: Request, message: DescribeClusterRequest) -> DescribeClusterResponse:
        served = CONTROLLERS if request.on_controller_listener else BROKERS
        if message.endpoint_type != served:
            known = message.endpoint_type in (BROKERS, CONTROLLERS)
            code = ErrorCode.MISMATCHED_ENDPOINT_TYPE if known else ErrorCode.UNSUPPORTED_ENDPOINT_TYPE
            what = "controllers" if served == CONTROLLERS else "brokers"
            return DescribeClusterResponse(
                error_code=code,
                error_message=f"this listener describes {what} (endpoint type {served})",
                endpoint_type=message.endpoint_type,
            )
        response = DescribeClusterResponse(cluster_id=self._identity.cluster_id, endpoint_type=served)
        if served == CONTROLLERS:
            self._add_controllers(request, response)
        else:
            self._add_brokers(request, message, response)
        wanted = message.include_cluster_authorized_operations
        response.cluster_authorized_operations = CLUSTER_OPERATIONS if wanted else NOT_REQUESTED
        return response

    def _add_brokers(
        self, request: Request, message: DescribeClusterRequest, response: DescribeClusterResponse
    ) -> None:
        found = nodes(self._metadata.image, request.listener.name, lambda _: message.include_fenced_brokers)
        response.controller_id = any_live_node(found, self._identity.node_id)
        response.brokers = [
            DescribeClusterBroker(
                broker_id=node.node_id, host=node.host, port=node.port, rack=node.rack, is_fenced=node.fenced
            )
            for node in found
        ]

    def _add_controllers(self, request: Request, response: DescribeClusterResponse) -> None:
        """The registered controllers, and the voters that have not registered yet."""
        machine = self._quorum.raft.machine
        response.controller_id = machine.leader_id
        endpoints: dict[int, Any] = {voter.node_id: voter.endpoints for voter in machine.voters}
        for node_id, registered in self._metadata.image.controllers.items():
            endpoints[node_id] = registered.end_points  # type: ignore[attr-defined]
        response.brokers = [
            DescribeClusterBroker(broker_id=node_id, host=each.host, port=each.port)
            for node_id, known in sorted(endpoints.items())
            for each in known
            if each.name == request.listener.name
        ]


def create(parts: ApiParts) -> Handler:
    return DescribeCluster(parts.identity, parts.metadata, parts.quorum).handle


API = ApiDeclaration(ApiKey.DESCRIBE_CLUSTER, create)
