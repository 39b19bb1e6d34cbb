"""ConsumerGroupMemberMetadataValue, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message, Struct, UNSET


class ConsumerGroupMemberMetadataValue(Message):
    API_KEY = 5
    MIN_VERSION = 0
    MAX_VERSION = 0
    MAX_STABLE_VERSION = 0
    FLEXIBLE_FROM = 0
    READERS = {}
    WRITERS = {}
    __slots__ = (
        "instance_id", "rack_id", "client_id", "client_host", "subscribed_topic_names",
        "subscribed_topic_regex", "rebalance_timeout_ms", "server_assignor", "classic_member_metadata",
    )
    SCHEMA = """
        instance_id string 0+ null:0+
        rack_id string 0+ null:0+
        client_id string 0+
        client_host string 0+
        subscribed_topic_names []string 0+
        subscribed_topic_regex string 0+ null:0+
        rebalance_timeout_ms int32 0+ default:-1
        server_assignor string 0+ null:0+
        classic_member_metadata ClassicMemberMetadata 0+ null:0+ tag:0:0+
    """

    def __init__(self, *,
        instance_id: str | None = "", rack_id: str | None = "", client_id: str = "", client_host: str = "",
        subscribed_topic_names: list[str] = UNSET, subscribed_topic_regex: str | None = "",
        rebalance_timeout_ms: int = -1, server_assignor: str | None = "",
        classic_member_metadata: ClassicMemberMetadata | None = UNSET,
    ) -> None:
        self.instance_id = instance_id
        self.rack_id = rack_id
        self.client_id = client_id
        self.client_host = client_host
        self.subscribed_topic_names: list[str] = [] if subscribed_topic_names is UNSET else subscribed_topic_names
        self.subscribed_topic_regex = subscribed_topic_regex
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.server_assignor = server_assignor
        self.classic_member_metadata: ClassicMemberMetadata | None = ClassicMemberMetadata() if classic_member_metadata is UNSET else classic_member_metadata


class ClassicMemberMetadata(Struct):
    __slots__ = ("session_timeout_ms", "supported_protocols")
    SCHEMA = """
        session_timeout_ms int32 0+
        supported_protocols []ClassicProtocol 0+
    """

    def __init__(self, *,
        session_timeout_ms: int = 0, supported_protocols: list[ClassicProtocol] = UNSET,
    ) -> None:
        self.session_timeout_ms = session_timeout_ms
        self.supported_protocols: list[ClassicProtocol] = [] if supported_protocols is UNSET else supported_protocols


class ClassicProtocol(Struct):
    __slots__ = ("name", "metadata")
    SCHEMA = """
        name string 0+
        metadata bytes 0+
    """

    def __init__(self, *, name: str = "", metadata: bytes = b"") -> None:
        self.name = name
        self.metadata = metadata
