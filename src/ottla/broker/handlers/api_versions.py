"""ApiVersions (18): what this broker speaks. The first request on nearly every connection."""

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
    from ottla.broker.broker import Broker
    from ottla.broker.connection import Request

API_KEY = 18
FIRST_VERSION_WITH_SOFTWARE = 3
FIRST_VERSION_WITH_FEATURE_ZERO = 4
_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?\Z")


def handle(broker: Broker, request: Request, message: ApiVersionsRequest) -> ApiVersionsResponse:
    if request.version >= FIRST_VERSION_WITH_SOFTWARE:
        name, version = message.client_software_name, message.client_software_version
        if not _SOFTWARE.match(name) or not _SOFTWARE.match(version):
            return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
        request.connection.client_software = f"{name} {version}"
    answer = ApiVersionsResponse(api_keys=_api_keys(broker))
    if request.version >= FIRST_VERSION_WITH_SOFTWARE:
        _add_features(broker, answer, request.version)
    return answer


def unsupported_version(broker: Broker) -> ApiVersionsResponse:
    """The answer, in version 0, to a version that we do not know."""
    return ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=_api_keys(broker))


def _api_keys(broker: Broker) -> list[ApiVersion]:
    return [
        ApiVersion(api_key=api.key, min_version=api.min_version, max_version=api.max_version)
        for api in broker.dispatcher.advertised()
    ]


def _add_features(broker: Broker, answer: ApiVersionsResponse, version: int) -> None:
    from ottla.controller.features import SUPPORTED_FEATURES

    answer.supported_features = [
        SupportedFeatureKey(name=name, min_version=low, max_version=high)
        for name, (low, high) in SUPPORTED_FEATURES.items()
        if low > 0 or version >= FIRST_VERSION_WITH_FEATURE_ZERO
    ]
    answer.finalized_features_epoch = broker.image_offset
    answer.finalized_features = [
        FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
        for name, level in broker.image.features.items()
    ]
