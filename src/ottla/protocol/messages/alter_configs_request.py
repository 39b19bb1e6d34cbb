"""AlterConfigsRequest, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message, Struct, UNSET


class AlterConfigsRequest(Message):
    API_KEY = 33
    MIN_VERSION = 0
    MAX_VERSION = 2
    MAX_STABLE_VERSION = 2
    FLEXIBLE_FROM = 2
    READERS = {}
    WRITERS = {}
    __slots__ = ("resources", "validate_only")
    SCHEMA = """
        resources []AlterConfigsResource 0+
        validate_only bool 0+
    """

    def __init__(self, *, resources: list[AlterConfigsResource] = UNSET, validate_only: bool = False) -> None:
        self.resources: list[AlterConfigsResource] = [] if resources is UNSET else resources
        self.validate_only = validate_only


class AlterConfigsResource(Struct):
    __slots__ = ("resource_type", "resource_name", "configs")
    SCHEMA = """
        resource_type int8 0+
        resource_name string 0+
        configs []AlterableConfig 0+
    """

    def __init__(self, *,
        resource_type: int = 0, resource_name: str = "", configs: list[AlterableConfig] = UNSET,
    ) -> None:
        self.resource_type = resource_type
        self.resource_name = resource_name
        self.configs: list[AlterableConfig] = [] if configs is UNSET else configs


class AlterableConfig(Struct):
    __slots__ = ("name", "value")
    SCHEMA = """
        name string 0+
        value string 0+ null:0+
    """

    def __init__(self, *, name: str = "", value: str | None = "") -> None:
        self.name = name
        self.value = value
