"""DescribeConfigsRequest, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message, Struct, UNSET


class DescribeConfigsRequest(Message):
    API_KEY = 32
    MIN_VERSION = 1
    MAX_VERSION = 4
    MAX_STABLE_VERSION = 4
    FLEXIBLE_FROM = 4
    READERS = {}
    WRITERS = {}
    __slots__ = ("resources", "include_synonyms", "include_documentation")
    SCHEMA = """
        resources []DescribeConfigsResource 0+
        include_synonyms bool 1+
        include_documentation bool 3+
    """

    def __init__(self, *,
        resources: list[DescribeConfigsResource] = UNSET, include_synonyms: bool = False,
        include_documentation: bool = False,
    ) -> None:
        self.resources: list[DescribeConfigsResource] = [] if resources is UNSET else resources
        self.include_synonyms = include_synonyms
        self.include_documentation = include_documentation


class DescribeConfigsResource(Struct):
    __slots__ = ("resource_type", "resource_name", "configuration_keys")
    SCHEMA = """
        resource_type int8 0+
        resource_name string 0+
        configuration_keys []string 0+ null:0+
    """

    def __init__(self, *,
        resource_type: int = 0, resource_name: str = "", configuration_keys: list[str] | None = UNSET,
    ) -> None:
        self.resource_type = resource_type
        self.resource_name = resource_name
        self.configuration_keys: list[str] | None = [] if configuration_keys is UNSET else configuration_keys
