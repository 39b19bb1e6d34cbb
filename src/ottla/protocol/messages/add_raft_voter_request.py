"""AddRaftVoterRequest, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message, Struct, UNSET, ZERO_UUID


class AddRaftVoterRequest(Message):
    API_KEY = 80
    MIN_VERSION = 0
    MAX_VERSION = 1
    MAX_STABLE_VERSION = 1
    FLEXIBLE_FROM = 0
    READERS = {}
    WRITERS = {}
    __slots__ = (
        "cluster_id", "timeout_ms", "voter_id", "voter_directory_id", "listeners", "ack_when_committed",
    )
    SCHEMA = """
        cluster_id string 0+ null:0+
        timeout_ms int32 0+
        voter_id int32 0+
        voter_directory_id uuid 0+
        listeners []Listener 0+
        ack_when_committed bool 1+ default:true
    """

    def __init__(self, *,
        cluster_id: str | None = "", timeout_ms: int = 0, voter_id: int = 0,
        voter_directory_id: bytes = ZERO_UUID, listeners: list[Listener] = UNSET,
        ack_when_committed: bool = True,
    ) -> None:
        self.cluster_id = cluster_id
        self.timeout_ms = timeout_ms
        self.voter_id = voter_id
        self.voter_directory_id = voter_directory_id
        self.listeners: list[Listener] = [] if listeners is UNSET else listeners
        self.ack_when_committed = ack_when_committed


class Listener(Struct):
    __slots__ = ("name", "host", "port")
    SCHEMA = """
        name string 0+
        host string 0+
        port uint16 0+
    """

    def __init__(self, *, name: str = "", host: str = "", port: int = 0) -> None:
        self.name = name
        self.host = host
        self.port = port
