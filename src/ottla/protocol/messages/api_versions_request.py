"""ApiVersionsRequest, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message


class ApiVersionsRequest(Message):
    API_KEY = 18
    MIN_VERSION = 0
    MAX_VERSION = 5
    MAX_STABLE_VERSION = 5
    FLEXIBLE_FROM = 3
    READERS = {}
    WRITERS = {}
    __slots__ = ("client_software_name", "client_software_version", "cluster_id", "node_id")
    SCHEMA = """
        client_software_name string 3+ ignorable
        client_software_version string 3+ ignorable
        cluster_id string 5+ null:5+ default:null ignorable
        node_id int32 5+ default:-1 ignorable
    """

    def __init__(self, *,
        client_software_name: str = "", client_software_version: str = "", cluster_id: str | None = None,
        node_id: int = -1,
    ) -> None:
        self.client_software_name = client_software_name
        self.client_software_version = client_software_version
        self.cluster_id = cluster_id
        self.node_id = node_id
