"""UpdateRaftVoterRequest, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message, Struct, UNSET, ZERO_UUID


class UpdateRaftVoterRequest(Message):
    API_KEY = 82
    MIN_VERSION = 0
    MAX_VERSION = 0
    MAX_STABLE_VERSION = 0
    FLEXIBLE_FROM = 0
    READERS = {}
    WRITERS = {}
    __slots__ = (
        "cluster_id", "current_leader_epoch", "voter_id", "voter_directory_id", "listeners",
        "kraft_version_feature",
    )
    SCHEMA = """
        cluster_id string 0+ null:0+
        current_leader_epoch int32 0+
        voter_id int32 0+
        voter_directory_id uuid 0+
        listeners []Listener 0+
        kraft_version_feature KRaftVersionFeature 0+
    """

    def __init__(self, *,
        cluster_id: str | None = "", current_leader_epoch: int = 0, voter_id: int = 0,
        voter_directory_id: bytes = ZERO_UUID, listeners: list[Listener] = UNSET,
        kraft_version_feature: KRaftVersionFeature = UNSET,
    ) -> None:
        self.cluster_id = cluster_id
        self.current_leader_epoch = current_leader_epoch
        self.voter_id = voter_id
        self.voter_directory_id = voter_directory_id
        self.listeners: list[Listener] = [] if listeners is UNSET else listeners
        self.kraft_version_feature: KRaftVersionFeature = KRaftVersionFeature() if kraft_version_feature is UNSET else kraft_version_feature


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


class KRaftVersionFeature(Struct):
    __slots__ = ("min_supported_version", "max_supported_version")
    SCHEMA = """
        min_supported_version int16 0+
        max_supported_version int16 0+
    """

    def __init__(self, *, min_supported_version: int = 0, max_supported_version: int = 0) -> None:
        self.min_supported_version = min_supported_version
        self.max_supported_version = max_supported_version
