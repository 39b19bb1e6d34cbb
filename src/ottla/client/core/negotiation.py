"""Version negotiation with a broker, and decoding of its responses."""

from __future__ import annotations

from ottla import __version__
from ottla.client.errors import UnsupportedApiError, raise_for
from ottla.protocol.api import API_BY_KEY, Api
from ottla.protocol.errors import DecodeError, ErrorCode
from ottla.protocol.frames import read_response_header
from ottla.protocol.message import Buffer, Message
from ottla.protocol.messages.api_versions_request import ApiVersionsRequest
from ottla.protocol.messages.api_versions_response import ApiVersionsResponse

CLIENT_SOFTWARE_NAME = "ottla"
API_VERSIONS_KEY = ApiVersionsRequest.API_KEY
CORRELATION_ID_BYTES = 4
CORRELATION_ID_MAX = 2**31 - 1
RESPONSE_BYTES_MAX = 512 * 1024 * 1024
NEWEST_API_VERSIONS = API_BY_KEY[API_VERSIONS_KEY].max_version


class Negotiated:
    """A broker with its address, API versions and features."""

    def __init__(self, host: str, port: int, client_id: str) -> None:
        self.host = host
        self.port = port
        self.client_id = client_id
        self.broker_versions: dict[int, tuple[int, int]] = {}
        # Finalized levels of the cluster's features.
        self.features: dict[str, int] = {}

    @property
    def address(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def version_for(self, api_key: int, at_most: int | None = None) -> int:
        """The newest version of an API that both sides support. Raises UnsupportedApiError.

        Unstable versions are used only with `at_most`.
        """
        api = API_BY_KEY[api_key]
        theirs = self.broker_versions.get(api_key)
        if theirs is None:
            raise UnsupportedApiError(f"{self.address}: the broker does not offer {api.name}")
        ours_max = api.max_version if at_most is None else min(api.newest_version, at_most)
        version = min(ours_max, theirs[1])
        if version < max(api.min_version, theirs[0]):
            raise UnsupportedApiError(
                f"{self.address}: no common version of {api.name}: "
                f"the broker offers {theirs[0]}-{theirs[1]}, the client {api.min_version}-{ours_max}"
            )
        return version

    def take_versions(self, answer: ApiVersionsResponse, sent_version: int) -> int | None:
        """Take over the response to ApiVersions; return the version to retry it in, None if that is not
        needed. Raises BrokerError."""
        if answer.error_code == ErrorCode.UNSUPPORTED_VERSION:
            offered = [row.max_version for row in answer.api_keys if row.api_key == API_VERSIONS_KEY]
            version = max([0, *offered])
            if version < sent_version:
                return version
        raise_for(answer.error_code, detail=f"{self.address} refused ApiVersions")
        self.broker_versions = {row.api_key: (row.min_version, row.max_version) for row in answer.api_keys}
        self.features = {row.name: row.max_version_level for row in answer.finalized_features}
        return None


def versions_request() -> ApiVersionsRequest:
    return ApiVersionsRequest(client_software_name=CLIENT_SOFTWARE_NAME, client_software_version=__version__)


def decode_answer(api: Api, version: int, frame: Buffer) -> Message:
    """The body of a response. Raises DecodeError."""
    if api.key == API_VERSIONS_KEY:
        code = int.from_bytes(frame[CORRELATION_ID_BYTES : CORRELATION_ID_BYTES + 2], "big", signed=True)
        if code == ErrorCode.UNSUPPORTED_VERSION:
            return _decode_unsupported(frame)
    _, position = read_response_header(api.key, version, frame)
    # Trailing bytes are ignored: some implementations pad.
    message, _ = api.response_class().read(version, frame, position)
    return message


def _decode_unsupported(frame: Buffer) -> ApiVersionsResponse:
    """A broker that does not know our version of ApiVersions responds in version 0.

    Some use other formats; the error code is enough then, and version 0 is tried next.
    """
    try:
        return ApiVersionsResponse.read(0, frame, CORRELATION_ID_BYTES)[0]
    except DecodeError:
        return ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
