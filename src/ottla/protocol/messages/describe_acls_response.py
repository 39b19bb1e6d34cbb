"""DescribeAclsResponse, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message, Struct, UNSET


class DescribeAclsResponse(Message):
    API_KEY = 29
    MIN_VERSION = 1
    MAX_VERSION = 3
    MAX_STABLE_VERSION = 3
    FLEXIBLE_FROM = 2
    READERS = {}
    WRITERS = {}
    __slots__ = ("throttle_time_ms", "error_code", "error_message", "resources")
    SCHEMA = """
        throttle_time_ms int32 0+
        error_code int16 0+
        error_message string 0+ null:0+
        resources []DescribeAclsResource 0+
    """

    def __init__(self, *,
        throttle_time_ms: int = 0, error_code: int = 0, error_message: str | None = "",
        resources: list[DescribeAclsResource] = UNSET,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.resources: list[DescribeAclsResource] = [] if resources is UNSET else resources


class DescribeAclsResource(Struct):
    __slots__ = ("resource_type", "resource_name", "pattern_type", "acls")
    SCHEMA = """
        resource_type int8 0+
        resource_name string 0+
        pattern_type int8 1+ default:3
        acls []AclDescription 0+
    """

    def __init__(self, *,
        resource_type: int = 0, resource_name: str = "", pattern_type: int = 3,
        acls: list[AclDescription] = UNSET,
    ) -> None:
        self.resource_type = resource_type
        self.resource_name = resource_name
        self.pattern_type = pattern_type
        self.acls: list[AclDescription] = [] if acls is UNSET else acls


class AclDescription(Struct):
    __slots__ = ("principal", "host", "operation", "permission_type")
    SCHEMA = """
        principal string 0+
        host string 0+
        operation int8 0+
        permission_type int8 0+
    """

    def __init__(self, *,
        principal: str = "", host: str = "", operation: int = 0, permission_type: int = 0,
    ) -> None:
        self.principal = principal
        self.host = host
        self.operation = operation
        self.permission_type = permission_type
