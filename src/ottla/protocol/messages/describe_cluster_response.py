"""DescribeClusterResponse, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message, Struct, UNSET


class DescribeClusterResponse(Message):
    API_KEY = 60
    MIN_VERSION = 0
    MAX_VERSION = 2
    MAX_STABLE_VERSION = 2
    FLEXIBLE_FROM = 0
    READERS = {}
    WRITERS = {}
    __slots__ = (
        "throttle_time_ms", "error_code", "error_message", "endpoint_type", "cluster_id", "controller_id",
        "brokers", "cluster_authorized_operations",
    )
    SCHEMA = """
        throttle_time_ms int32 0+
        error_code int16 0+
        error_message string 0+ null:0+ default:null
        endpoint_type int8 1+ default:1
        cluster_id string 0+
        controller_id int32 0+ default:-1
        brokers []DescribeClusterBroker 0+
        cluster_authorized_operations int32 0+ default:-2147483648
    """

    def __init__(self, *,
        throttle_time_ms: int = 0, error_code: int = 0, error_message: str | None = None,
        endpoint_type: int = 1, cluster_id: str = "", controller_id: int = -1,
        brokers: list[DescribeClusterBroker] = UNSET, cluster_authorized_operations: int = -2147483648,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.endpoint_type = endpoint_type
        self.cluster_id = cluster_id
        self.controller_id = controller_id
        self.brokers: list[DescribeClusterBroker] = [] if brokers is UNSET else brokers
        self.cluster_authorized_operations = cluster_authorized_operations


class DescribeClusterBroker(Struct):
    __slots__ = ("broker_id", "host", "port", "rack", "is_fenced")
    SCHEMA = """
        broker_id int32 0+
        host string 0+
        port int32 0+
        rack string 0+ null:0+ default:null
        is_fenced bool 2+
    """

    def __init__(self, *,
        broker_id: int = 0, host: str = "", port: int = 0, rack: str | None = None, is_fenced: bool = False,
    ) -> None:
        self.broker_id = broker_id
        self.host = host
        self.port = port
        self.rack = rack
        self.is_fenced = is_fenced
