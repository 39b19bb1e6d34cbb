"""DescribeConfigsResponse, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message, Struct, UNSET


class DescribeConfigsResponse(Message):
    API_KEY = 32
    MIN_VERSION = 1
    MAX_VERSION = 4
    MAX_STABLE_VERSION = 4
    FLEXIBLE_FROM = 4
    READERS = {}
    WRITERS = {}
    __slots__ = ("throttle_time_ms", "results")
    SCHEMA = """
        throttle_time_ms int32 0+
        results []DescribeConfigsResult 0+
    """

    def __init__(self, *, throttle_time_ms: int = 0, results: list[DescribeConfigsResult] = UNSET) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.results: list[DescribeConfigsResult] = [] if results is UNSET else results


class DescribeConfigsResult(Struct):
    __slots__ = ("error_code", "error_message", "resource_type", "resource_name", "configs")
    SCHEMA = """
        error_code int16 0+
        error_message string 0+ null:0+
        resource_type int8 0+
        resource_name string 0+
        configs []DescribeConfigsResourceResult 0+
    """

    def __init__(self, *,
        error_code: int = 0, error_message: str | None = "", resource_type: int = 0, resource_name: str = "",
        configs: list[DescribeConfigsResourceResult] = UNSET,
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.resource_type = resource_type
        self.resource_name = resource_name
        self.configs: list[DescribeConfigsResourceResult] = [] if configs is UNSET else configs


class DescribeConfigsResourceResult(Struct):
    __slots__ = (
        "name", "value", "read_only", "config_source", "is_sensitive", "synonyms", "config_type",
        "documentation",
    )
    SCHEMA = """
        name string 0+
        value string 0+ null:0+
        read_only bool 0+
        config_source int8 1+ default:-1 ignorable
        is_sensitive bool 0+
        synonyms []DescribeConfigsSynonym 1+ ignorable
        config_type int8 3+ ignorable
        documentation string 3+ null:0+ ignorable
    """

    def __init__(self, *,
        name: str = "", value: str | None = "", read_only: bool = False, config_source: int = -1,
        is_sensitive: bool = False, synonyms: list[DescribeConfigsSynonym] = UNSET, config_type: int = 0,
        documentation: str | None = "",
    ) -> None:
        self.name = name
        self.value = value
        self.read_only = read_only
        self.config_source = config_source
        self.is_sensitive = is_sensitive
        self.synonyms: list[DescribeConfigsSynonym] = [] if synonyms is UNSET else synonyms
        self.config_type = config_type
        self.documentation = documentation


class DescribeConfigsSynonym(Struct):
    __slots__ = ("name", "value", "source")
    SCHEMA = """
        name string 1+
        value string 1+ null:0+
        source int8 1+
    """

    def __init__(self, *, name: str = "", value: str | None = "", source: int = 0) -> None:
        self.name = name
        self.value = value
        self.source = source
