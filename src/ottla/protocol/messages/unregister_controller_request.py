"""UnregisterControllerRequest, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message


class UnregisterControllerRequest(Message):
    API_KEY = 94
    MIN_VERSION = 0
    MAX_VERSION = 0
    MAX_STABLE_VERSION = 0
    FLEXIBLE_FROM = 0
    READERS = {}
    WRITERS = {}
    __slots__ = ("controller_id",)
    SCHEMA = """
        controller_id int32 0+
    """

    def __init__(self, *, controller_id: int = 0) -> None:
        self.controller_id = controller_id
