"""CreateAclsRequest, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message, Struct, UNSET


class CreateAclsRequest(Message):
    API_KEY = 30
    MIN_VERSION = 1
    MAX_VERSION = 3
    MAX_STABLE_VERSION = 3
    FLEXIBLE_FROM = 2
    READERS = {}
    WRITERS = {}
    __slots__ = ("creations",)
    SCHEMA = """
        creations []AclCreation 0+
    """

    def __init__(self, *, creations: list[AclCreation] = UNSET) -> None:
        self.creations: list[AclCreation] = [] if creations is UNSET else creations


class AclCreation(Struct):
    __slots__ = (
        "resource_type", "resource_name", "resource_pattern_type", "principal", "host", "operation",
        "permission_type",
    )
    SCHEMA = """
        resource_type int8 0+
        resource_name string 0+
        resource_pattern_type int8 1+ default:3
        principal string 0+
        host string 0+
        operation int8 0+
        permission_type int8 0+
    """

    def __init__(self, *,
        resource_type: int = 0, resource_name: str = "", resource_pattern_type: int = 3, principal: str = "",
        host: str = "", operation: int = 0, permission_type: int = 0,
    ) -> None:
        self.resource_type = resource_type
        self.resource_name = resource_name
        self.resource_pattern_type = resource_pattern_type
        self.principal = principal
        self.host = host
        self.operation = operation
        self.permission_type = permission_type
