"""FindCoordinatorRequest, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message, UNSET


class FindCoordinatorRequest(Message):
    API_KEY = 10
    MIN_VERSION = 0
    MAX_VERSION = 6
    MAX_STABLE_VERSION = 6
    FLEXIBLE_FROM = 3
    READERS = {}
    WRITERS = {}
    __slots__ = ("key", "key_type", "coordinator_keys")
    SCHEMA = """
        key string 0-3
        key_type int8 1+
        coordinator_keys []string 4+
    """

    def __init__(self, *, key: str = "", key_type: int = 0, coordinator_keys: list[str] = UNSET) -> None:
        self.key = key
        self.key_type = key_type
        self.coordinator_keys: list[str] = [] if coordinator_keys is UNSET else coordinator_keys
