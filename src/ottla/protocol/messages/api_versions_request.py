"""ApiVersionsRequest, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message


class ApiVersionsRequest(Message):
    API_KEY = 18
    MIN_VERSION = 0
    MAX_VERSION = 4
    MAX_STABLE_VERSION = 4
    FLEXIBLE_FROM = 3
    READERS = {}
    WRITERS = {}
    __slots__ = ("client_software_name", "client_software_version")
    SCHEMA = """
        client_software_name string 3+ ignorable
        client_software_version string 3+ ignorable
    """

    def __init__(self, *, client_software_name: str = "", client_software_version: str = "") -> None:
        self.client_software_name = client_software_name
        self.client_software_version = client_software_version
