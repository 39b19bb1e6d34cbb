"""ShareGroupMemberMetadataValue, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message, UNSET


class ShareGroupMemberMetadataValue(Message):
    API_KEY = 10
    MIN_VERSION = 0
    MAX_VERSION = 0
    MAX_STABLE_VERSION = 0
    FLEXIBLE_FROM = 0
    READERS = {}
    WRITERS = {}
    __slots__ = ("rack_id", "client_id", "client_host", "subscribed_topic_names")
    SCHEMA = """
        rack_id string 0+ null:0+
        client_id string 0+
        client_host string 0+
        subscribed_topic_names []string 0+
    """

    def __init__(self, *,
        rack_id: str | None = "", client_id: str = "", client_host: str = "",
        subscribed_topic_names: list[str] = UNSET,
    ) -> None:
        self.rack_id = rack_id
        self.client_id = client_id
        self.client_host = client_host
        self.subscribed_topic_names: list[str] = [] if subscribed_topic_names is UNSET else subscribed_topic_names
