"""ApiVersions (18): what this node speaks on the listener that is asked. The first request on nearly every
connection."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.api_versions_request import ApiVersionsRequest
from ottla.protocol.messages.api_versions_response import (
    ApiVersion,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)

if TYPE_CHECKING:
    from ottla.broker.api.dispatcher import Dispatcher
    from ottla.broker.net.request import Request
    from ottla.broker.node import Node

API_KEY = 18
FIRST_VERSION_WITH_SOFTWARE = 3
FIRST_VERSION_WITH_FEATURE_ZERO = 4
KRAFT_VERSION = "kraft.version"
_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?\Z")


def handle(broker: Node, request: Request, message: ApiVersionsRequest) -> ApiVersionsResponse:
    if request.version >= FIRST_VERSION_WITH_SOFTWARE:
        name, version = message.client_software_name, message.client_software_version
        if not _SOFTWARE.match(name) or not _SOFTWARE.match(version):
            return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
        request.connection.client_software = f"{name} {version}"
    answer = ApiVersionsResponse(api_keys=_api_keys(request.listener.dispatcher))  # type: ignore[attr-defined]
    if request.version >= FIRST_VERSION_WITH_SOFTWARE:
        _add_features(broker, answer, request.version)
    return answer


def unsupported_version(dispatcher: Dispatcher) -> ApiVersionsResponse:
    """The answer, in version 0, to a version that we do not know."""
    return ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=_api_keys(dispatcher))


def _api_keys(dispatcher: Dispatcher) -> list[ApiVersion]:
    return [
        ApiVersion(api_key=api.key, min_version=api.min_version, max_version=api.max_version)
        for api in dispatcher.advertised()
    ]


def _add_features(broker: Node, answer: ApiVersionsResponse, version: int) -> None:
    """Those of the metadata, and `kraft.version`, which the quorum keeps for itself."""
    from ottla.controller.features import SUPPORTED_FEATURES
    from ottla.quorum.raft.config import KRAFT_VERSION_MAX

    supported = {**SUPPORTED_FEATURES, KRAFT_VERSION: (0, KRAFT_VERSION_MAX)}
    answer.supported_features = [
        SupportedFeatureKey(name=name, min_version=low, max_version=high)
        for name, (low, high) in supported.items()
        if low > 0 or version >= FIRST_VERSION_WITH_FEATURE_ZERO
    ]
    finalized = dict(broker.image.features)
    kraft_version = broker.quorum.machine.kraft_version
    if kraft_version > 0:
        finalized[KRAFT_VERSION] = kraft_version
    answer.finalized_features_epoch = broker.image_offset
    answer.finalized_features = [
        FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
        for name, level in finalized.items()
    ]
