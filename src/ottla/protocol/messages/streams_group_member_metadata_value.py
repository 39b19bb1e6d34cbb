"""StreamsGroupMemberMetadataValue, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message, Struct, UNSET


class StreamsGroupMemberMetadataValue(Message):
    API_KEY = 19
    MIN_VERSION = 0
    MAX_VERSION = 0
    MAX_STABLE_VERSION = 0
    FLEXIBLE_FROM = 0
    READERS = {}
    WRITERS = {}
    __slots__ = (
        "instance_id", "rack_id", "client_id", "client_host", "rebalance_timeout_ms", "topology_epoch",
        "process_id", "user_endpoint", "client_tags",
    )
    SCHEMA = """
        instance_id string 0+ null:0+
        rack_id string 0+ null:0+
        client_id string 0+
        client_host string 0+
        rebalance_timeout_ms int32 0+ default:-1
        topology_epoch int32 0+
        process_id string 0+
        user_endpoint Endpoint 0+ null:0+ default:null
        client_tags []KeyValue 0+
    """

    def __init__(self, *,
        instance_id: str | None = "", rack_id: str | None = "", client_id: str = "", client_host: str = "",
        rebalance_timeout_ms: int = -1, topology_epoch: int = 0, process_id: str = "",
        user_endpoint: Endpoint | None = None, client_tags: list[KeyValue] = UNSET,
    ) -> None:
        self.instance_id = instance_id
        self.rack_id = rack_id
        self.client_id = client_id
        self.client_host = client_host
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.topology_epoch = topology_epoch
        self.process_id = process_id
        self.user_endpoint = user_endpoint
        self.client_tags: list[KeyValue] = [] if client_tags is UNSET else client_tags


class Endpoint(Struct):
    __slots__ = ("host", "port")
    SCHEMA = """
        host string 0+
        port uint16 0+
    """

    def __init__(self, *, host: str = "", port: int = 0) -> None:
        self.host = host
        self.port = port


class KeyValue(Struct):
    __slots__ = ("key", "value")
    SCHEMA = """
        key string 0+
        value string 0+
    """

    def __init__(self, *, key: str = "", value: str = "") -> None:
        self.key = key
        self.value = value
