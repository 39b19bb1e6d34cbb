"""ApiVersions (18): the APIs, versions and features of this listener; the first request of most clients."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ottla.broker.api.declaration import ApiDeclaration
from ottla.broker.api.registry import BROKER_LISTENER, CONTROLLER_LISTENER, served_versions
from ottla.controller.features import SUPPORTED_FEATURES
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.api_versions_request import ApiVersionsRequest
from ottla.protocol.messages.api_versions_response import (
    ApiVersion,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from ottla.protocol.versions import (
    API_VERSIONS_CLIENT_SOFTWARE_SINCE,
    API_VERSIONS_FEATURE_LEVEL_ZERO_SINCE,
    API_VERSIONS_NODE_CHECK_SINCE,
)
from ottla.quorum.raft.config import KRAFT_VERSION_MAX

if TYPE_CHECKING:
    from ottla.broker.api.declaration import Handler
    from ottla.broker.api.parts import ApiParts
    from ottla.broker.identity import NodeIdentity
    from ottla.broker.metadata.quorum_node import QuorumNode
    from ottla.broker.metadata_cache import MetadataCache
    from ottla.broker.net.request import Request

KRAFT_VERSION = "kraft.version"
NO_NODE = -1
_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?\Z")


class ApiVersions:
    def __init__(
        self, identity: NodeIdentity, metadata: MetadataCache, quorum: QuorumNode, *, two_phase_commit: bool
    ) -> None:
        self._identity = identity
        self._metadata = metadata
        self._quorum = quorum
        self._two_phase_commit = two_phase_commit

    def handle(self, request: Request, message: ApiVersionsRequest | None) -> ApiVersionsResponse:
        """A request without a message has a version newer than the broker's: respond in version 0."""
        listener = CONTROLLER_LISTENER if request.on_controller_listener else BROKER_LISTENER
        versions = advertised_versions(listener, two_phase_commit=self._two_phase_commit)
        if message is None:
            return ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=versions)
        if request.version < API_VERSIONS_CLIENT_SOFTWARE_SINCE:
            return ApiVersionsResponse(api_keys=versions)
        name, version = message.client_software_name, message.client_software_version
        if not _SOFTWARE.match(name) or not _SOFTWARE.match(version):
            return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
        code = self._check_node(message) if request.version >= API_VERSIONS_NODE_CHECK_SINCE else None
        if code:
            return ApiVersionsResponse(error_code=code)
        request.connection.client_software = f"{name} {version}"
        response = ApiVersionsResponse(api_keys=versions)
        self._add_features(response, request.version)
        return response

    def _check_node(self, message: ApiVersionsRequest) -> ErrorCode:
        """The client may say which node of which cluster it expects at this address (KIP-1242)."""
        if (message.cluster_id is None) != (message.node_id == NO_NODE):
            return ErrorCode.INVALID_REQUEST
        expected = (message.cluster_id, message.node_id)
        if message.cluster_id is not None and expected != (self._identity.cluster_id, self._identity.node_id):
            return ErrorCode.REBOOTSTRAP_REQUIRED
        return ErrorCode.NONE

    def _add_features(self, response: ApiVersionsResponse, version: int) -> None:
        """The features of the metadata, and `kraft.version`, which the quorum keeps itself."""
        supported = {**SUPPORTED_FEATURES, KRAFT_VERSION: (0, KRAFT_VERSION_MAX)}
        response.supported_features = [
            SupportedFeatureKey(name=name, min_version=low, max_version=high)
            for name, (low, high) in supported.items()
            if low > 0 or version >= API_VERSIONS_FEATURE_LEVEL_ZERO_SINCE
        ]
        finalized = dict(self._metadata.image.features)
        kraft_version = self._quorum.raft.machine.kraft_version
        if kraft_version > 0:
            finalized[KRAFT_VERSION] = kraft_version
        response.finalized_features_epoch = self._metadata.offset
        response.finalized_features = [
            FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
            for name, level in finalized.items()
        ]


def advertised_versions(listener: str, *, two_phase_commit: bool) -> list[ApiVersion]:
    return [
        ApiVersion(
            api_key=api.key,
            # librdkafka derives features from Produce's minimum: advertise 0, as Kafka does.
            min_version=0 if api.key == ApiKey.PRODUCE else api.min_version,
            max_version=api.max_version,
        )
        for api in served_versions(listener, two_phase_commit=two_phase_commit).values()
    ]


def create(parts: ApiParts) -> Handler:
    two_phase_commit = parts.config.get_bool("transaction.two.phase.commit.enable")
    return ApiVersions(parts.identity, parts.metadata, parts.quorum, two_phase_commit=two_phase_commit).handle


API = ApiDeclaration(ApiKey.API_VERSIONS, create)
