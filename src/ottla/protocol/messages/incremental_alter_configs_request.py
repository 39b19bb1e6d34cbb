"""IncrementalAlterConfigsRequest, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message, Struct, UNSET


class IncrementalAlterConfigsRequest(Message):
    API_KEY = 44
    MIN_VERSION = 0
    MAX_VERSION = 1
    MAX_STABLE_VERSION = 1
    FLEXIBLE_FROM = 1
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
    __slots__ = ("name", "config_operation", "value")
    SCHEMA = """
        name string 0+
        config_operation int8 0+
        value string 0+ null:0+
    """

    def __init__(self, *, name: str = "", config_operation: int = 0, value: str | None = "") -> None:
        self.name = name
        self.config_operation = config_operation
        self.value = value
