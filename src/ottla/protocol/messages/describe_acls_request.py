"""DescribeAclsRequest, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message


class DescribeAclsRequest(Message):
    API_KEY = 29
    MIN_VERSION = 1
    MAX_VERSION = 3
    MAX_STABLE_VERSION = 3
    FLEXIBLE_FROM = 2
    READERS = {}
    WRITERS = {}
    __slots__ = (
        "resource_type_filter", "resource_name_filter", "pattern_type_filter", "principal_filter",
        "host_filter", "operation", "permission_type",
    )
    SCHEMA = """
        resource_type_filter int8 0+
        resource_name_filter string 0+ null:0+
        pattern_type_filter int8 1+ default:3
        principal_filter string 0+ null:0+
        host_filter string 0+ null:0+
        operation int8 0+
        permission_type int8 0+
    """

    def __init__(self, *,
        resource_type_filter: int = 0, resource_name_filter: str | None = "", pattern_type_filter: int = 3,
        principal_filter: str | None = "", host_filter: str | None = "", operation: int = 0,
        permission_type: int = 0,
    ) -> None:
        self.resource_type_filter = resource_type_filter
        self.resource_name_filter = resource_name_filter
        self.pattern_type_filter = pattern_type_filter
        self.principal_filter = principal_filter
        self.host_filter = host_filter
        self.operation = operation
        self.permission_type = permission_type
