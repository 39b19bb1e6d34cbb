"""VotersRecord, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message, Struct, UNSET, ZERO_UUID


class VotersRecord(Message):
    API_KEY = -1
    MIN_VERSION = 0
    MAX_VERSION = 0
    MAX_STABLE_VERSION = 0
    FLEXIBLE_FROM = 0
    READERS = {}
    WRITERS = {}
    __slots__ = ("version", "voters")
    SCHEMA = """
        version int16 0+
        voters []Voter 0+
    """

    def __init__(self, *, version: int = 0, voters: list[Voter] = UNSET) -> None:
        self.version = version
        self.voters: list[Voter] = [] if voters is UNSET else voters


class Voter(Struct):
    __slots__ = ("voter_id", "voter_directory_id", "endpoints", "kraft_version_feature")
    SCHEMA = """
        voter_id int32 0+
        voter_directory_id uuid 0+
        endpoints []Endpoint 0+
        kraft_version_feature KRaftVersionFeature 0+
    """

    def __init__(self, *,
        voter_id: int = 0, voter_directory_id: bytes = ZERO_UUID, endpoints: list[Endpoint] = UNSET,
        kraft_version_feature: KRaftVersionFeature = UNSET,
    ) -> None:
        self.voter_id = voter_id
        self.voter_directory_id = voter_directory_id
        self.endpoints: list[Endpoint] = [] if endpoints is UNSET else endpoints
        self.kraft_version_feature: KRaftVersionFeature = KRaftVersionFeature() if kraft_version_feature is UNSET else kraft_version_feature


class Endpoint(Struct):
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
