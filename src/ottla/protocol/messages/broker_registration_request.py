"""BrokerRegistrationRequest, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message, Struct, UNSET, ZERO_UUID


class BrokerRegistrationRequest(Message):
    API_KEY = 62
    MIN_VERSION = 0
    MAX_VERSION = 4
    MAX_STABLE_VERSION = 4
    FLEXIBLE_FROM = 0
    READERS = {}
    WRITERS = {}
    __slots__ = (
        "broker_id", "cluster_id", "incarnation_id", "listeners", "features", "rack",
        "is_migrating_zk_broker", "log_dirs", "previous_broker_epoch",
    )
    SCHEMA = """
        broker_id int32 0+
        cluster_id string 0+
        incarnation_id uuid 0+
        listeners []Listener 0+
        features []Feature 0+
        rack string 0+ null:0+
        is_migrating_zk_broker bool 1+
        log_dirs []uuid 2+ ignorable
        previous_broker_epoch int64 3+ default:-1 ignorable
    """

    def __init__(self, *,
        broker_id: int = 0, cluster_id: str = "", incarnation_id: bytes = ZERO_UUID,
        listeners: list[Listener] = UNSET, features: list[Feature] = UNSET, rack: str | None = "",
        is_migrating_zk_broker: bool = False, log_dirs: list[bytes] = UNSET, previous_broker_epoch: int = -1,
    ) -> None:
        self.broker_id = broker_id
        self.cluster_id = cluster_id
        self.incarnation_id = incarnation_id
        self.listeners: list[Listener] = [] if listeners is UNSET else listeners
        self.features: list[Feature] = [] if features is UNSET else features
        self.rack = rack
        self.is_migrating_zk_broker = is_migrating_zk_broker
        self.log_dirs: list[bytes] = [] if log_dirs is UNSET else log_dirs
        self.previous_broker_epoch = previous_broker_epoch


class Listener(Struct):
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


class Feature(Struct):
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
