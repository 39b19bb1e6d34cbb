"""RegisterControllerRecord, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message, Struct, UNSET, ZERO_UUID


class RegisterControllerRecord(Message):
    API_KEY = 27
    MIN_VERSION = 0
    MAX_VERSION = 0
    MAX_STABLE_VERSION = 0
    FLEXIBLE_FROM = 0
    READERS = {}
    WRITERS = {}
    __slots__ = ("controller_id", "incarnation_id", "zk_migration_ready", "end_points", "features")
    SCHEMA = """
        controller_id int32 0+
        incarnation_id uuid 0+
        zk_migration_ready bool 0+
        end_points []ControllerEndpoint 0+
        features []ControllerFeature 0+
    """

    def __init__(self, *,
        controller_id: int = 0, incarnation_id: bytes = ZERO_UUID, zk_migration_ready: bool = False,
        end_points: list[ControllerEndpoint] = UNSET, features: list[ControllerFeature] = UNSET,
    ) -> None:
        self.controller_id = controller_id
        self.incarnation_id = incarnation_id
        self.zk_migration_ready = zk_migration_ready
        self.end_points: list[ControllerEndpoint] = [] if end_points is UNSET else end_points
        self.features: list[ControllerFeature] = [] if features is UNSET else features


class ControllerEndpoint(Struct):
    __slots__ = ("name", "host", "port", "security_protocol")
    SCHEMA = """
        name string 0+
        host string 0+
        port uint16 0+
        security_protocol int16 0+
    """

    def __init__(self, *, name: str = "", host: str = "", port: int = 0, security_protocol: int = 0) -> None:
        self.name = name
        self.host = host
        self.port = port
        self.security_protocol = security_protocol


class ControllerFeature(Struct):
    __slots__ = ("name", "min_supported_version", "max_supported_version")
    SCHEMA = """
        name string 0+
        min_supported_version int16 0+
        max_supported_version int16 0+
    """

    def __init__(self, *,
        name: str = "", min_supported_version: int = 0, max_supported_version: int = 0,
    ) -> None:
        self.name = name
        self.min_supported_version = min_supported_version
        self.max_supported_version = max_supported_version
