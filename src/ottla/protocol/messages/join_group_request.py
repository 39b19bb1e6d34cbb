"""JoinGroupRequest, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message, Struct, UNSET


class JoinGroupRequest(Message):
    API_KEY = 11
    MIN_VERSION = 0
    MAX_VERSION = 9
    MAX_STABLE_VERSION = 9
    FLEXIBLE_FROM = 6
    READERS = {}
    WRITERS = {}
    __slots__ = (
        "group_id", "session_timeout_ms", "rebalance_timeout_ms", "member_id", "group_instance_id",
        "protocol_type", "protocols", "reason",
    )
    SCHEMA = """
        group_id string 0+
        session_timeout_ms int32 0+
        rebalance_timeout_ms int32 1+ default:-1 ignorable
        member_id string 0+
        group_instance_id string 5+ null:5+ default:null
        protocol_type string 0+
        protocols []JoinGroupRequestProtocol 0+
        reason string 8+ null:8+ default:null ignorable
    """

    def __init__(self, *,
        group_id: str = "", session_timeout_ms: int = 0, rebalance_timeout_ms: int = -1, member_id: str = "",
        group_instance_id: str | None = None, protocol_type: str = "",
        protocols: list[JoinGroupRequestProtocol] = UNSET, reason: str | None = None,
    ) -> None:
        self.group_id = group_id
        self.session_timeout_ms = session_timeout_ms
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.protocol_type = protocol_type
        self.protocols: list[JoinGroupRequestProtocol] = [] if protocols is UNSET else protocols
        self.reason = reason


class JoinGroupRequestProtocol(Struct):
    __slots__ = ("name", "metadata")
    SCHEMA = """
        name string 0+
        metadata bytes 0+
    """

    def __init__(self, *, name: str = "", metadata: bytes = b"") -> None:
        self.name = name
        self.metadata = metadata
