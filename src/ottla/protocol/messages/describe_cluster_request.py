"""DescribeClusterRequest, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message


class DescribeClusterRequest(Message):
    API_KEY = 60
    MIN_VERSION = 0
    MAX_VERSION = 2
    MAX_STABLE_VERSION = 2
    FLEXIBLE_FROM = 0
    READERS = {}
    WRITERS = {}
    __slots__ = ("include_cluster_authorized_operations", "endpoint_type", "include_fenced_brokers")
    SCHEMA = """
        include_cluster_authorized_operations bool 0+
        endpoint_type int8 1+ default:1
        include_fenced_brokers bool 2+
    """

    def __init__(self, *,
        include_cluster_authorized_operations: bool = False, endpoint_type: int = 1,
        include_fenced_brokers: bool = False,
    ) -> None:
        self.include_cluster_authorized_operations = include_cluster_authorized_operations
        self.endpoint_type = endpoint_type
        self.include_fenced_brokers = include_fenced_brokers
