"""DeleteAclsResponse, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message, Struct, UNSET


class DeleteAclsResponse(Message):
    API_KEY = 31
    MIN_VERSION = 1
    MAX_VERSION = 3
    MAX_STABLE_VERSION = 3
    FLEXIBLE_FROM = 2
    READERS = {}
    WRITERS = {}
    __slots__ = ("throttle_time_ms", "filter_results")
    SCHEMA = """
        throttle_time_ms int32 0+
        filter_results []DeleteAclsFilterResult 0+
    """

    def __init__(self, *,
        throttle_time_ms: int = 0, filter_results: list[DeleteAclsFilterResult] = UNSET,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.filter_results: list[DeleteAclsFilterResult] = [] if filter_results is UNSET else filter_results


class DeleteAclsFilterResult(Struct):
    __slots__ = ("error_code", "error_message", "matching_acls")
    SCHEMA = """
        error_code int16 0+
        error_message string 0+ null:0+
        matching_acls []DeleteAclsMatchingAcl 0+
    """

    def __init__(self, *,
        error_code: int = 0, error_message: str | None = "",
        matching_acls: list[DeleteAclsMatchingAcl] = UNSET,
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.matching_acls: list[DeleteAclsMatchingAcl] = [] if matching_acls is UNSET else matching_acls


class DeleteAclsMatchingAcl(Struct):
    __slots__ = (
        "error_code", "error_message", "resource_type", "resource_name", "pattern_type", "principal", "host",
        "operation", "permission_type",
    )
    SCHEMA = """
        error_code int16 0+
        error_message string 0+ null:0+
        resource_type int8 0+
        resource_name string 0+
        pattern_type int8 1+ default:3
        principal string 0+
        host string 0+
        operation int8 0+
        permission_type int8 0+
    """

    def __init__(self, *,
        error_code: int = 0, error_message: str | None = "", resource_type: int = 0, resource_name: str = "",
        pattern_type: int = 3, principal: str = "", host: str = "", operation: int = 0,
        permission_type: int = 0,
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.resource_type = resource_type
        self.resource_name = resource_name
        self.pattern_type = pattern_type
        self.principal = principal
        self.host = host
        self.operation = operation
        self.permission_type = permission_type
