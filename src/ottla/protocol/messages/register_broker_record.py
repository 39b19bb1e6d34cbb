"""RegisterBrokerRecord, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message, Struct, UNSET, ZERO_UUID


class RegisterBrokerRecord(Message):
    API_KEY = 0
    MIN_VERSION = 0
    MAX_VERSION = 4
    MAX_STABLE_VERSION = 4
    FLEXIBLE_FROM = 0
    READERS = {}
    WRITERS = {}
    __slots__ = (
        "broker_id", "is_migrating_zk_broker", "incarnation_id", "broker_epoch", "end_points", "features",
        "rack", "fenced", "in_controlled_shutdown", "log_dirs", "cordoned_log_dirs",
    )
    SCHEMA = """
        broker_id int32 0+
        is_migrating_zk_broker bool 2+
        incarnation_id uuid 0+
        broker_epoch int64 0+
        end_points []BrokerEndpoint 0+
        features []BrokerFeature 0+
        rack string 0+ null:0+
        fenced bool 0+ default:true
        in_controlled_shutdown bool 1+
        log_dirs []uuid 3+ tag:0:3+
        cordoned_log_dirs []uuid 4+ null:4+ tag:1:4+ default:null
    """

    def __init__(self, *,
        broker_id: int = 0, is_migrating_zk_broker: bool = False, incarnation_id: bytes = ZERO_UUID,
        broker_epoch: int = 0, end_points: list[BrokerEndpoint] = UNSET,
        features: list[BrokerFeature] = UNSET, rack: str | None = "", fenced: bool = True,
        in_controlled_shutdown: bool = False, log_dirs: list[bytes] = UNSET,
        cordoned_log_dirs: list[bytes] | None = None,
    ) -> None:
        self.broker_id = broker_id
        self.is_migrating_zk_broker = is_migrating_zk_broker
        self.incarnation_id = incarnation_id
        self.broker_epoch = broker_epoch
        self.end_points: list[BrokerEndpoint] = [] if end_points is UNSET else end_points
        self.features: list[BrokerFeature] = [] if features is UNSET else features
        self.rack = rack
        self.fenced = fenced
        self.in_controlled_shutdown = in_controlled_shutdown
        self.log_dirs: list[bytes] = [] if log_dirs is UNSET else log_dirs
        self.cordoned_log_dirs = cordoned_log_dirs


class BrokerEndpoint(Struct):
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


class BrokerFeature(Struct):
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
