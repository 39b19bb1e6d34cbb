"""StreamsGroupMetadataValue, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message, Struct, UNSET


class StreamsGroupMetadataValue(Message):
    API_KEY = 17
    MIN_VERSION = 0
    MAX_VERSION = 0
    MAX_STABLE_VERSION = 0
    FLEXIBLE_FROM = 0
    READERS = {}
    WRITERS = {}
    __slots__ = ("epoch", "metadata_hash", "validated_topology_epoch", "last_assignment_configs")
    SCHEMA = """
        epoch int32 0+
        metadata_hash int64 0+
        validated_topology_epoch int32 0+ tag:0:0+ default:-1
        last_assignment_configs []LastAssignmentConfig 0+ null:0+ tag:1:0+
    """

    def __init__(self, *,
        epoch: int = 0, metadata_hash: int = 0, validated_topology_epoch: int = -1,
        last_assignment_configs: list[LastAssignmentConfig] | None = UNSET,
    ) -> None:
        self.epoch = epoch
        self.metadata_hash = metadata_hash
        self.validated_topology_epoch = validated_topology_epoch
        self.last_assignment_configs: list[LastAssignmentConfig] | None = [] if last_assignment_configs is UNSET else last_assignment_configs


class LastAssignmentConfig(Struct):
    __slots__ = ("key", "value")
    SCHEMA = """
        key string 0+
        value string 0+
    """

    def __init__(self, *, key: str = "", value: str = "") -> None:
        self.key = key
        self.value = value
