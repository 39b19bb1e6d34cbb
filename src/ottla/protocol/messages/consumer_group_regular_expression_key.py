"""ConsumerGroupRegularExpressionKey, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message


class ConsumerGroupRegularExpressionKey(Message):
    API_KEY = 16
    MIN_VERSION = 0
    MAX_VERSION = 0
    MAX_STABLE_VERSION = 0
    FLEXIBLE_FROM = 32767
    READERS = {}
    WRITERS = {}
    __slots__ = ("group_id", "regular_expression")
    SCHEMA = """
        group_id string 0
        regular_expression string 0
    """

    def __init__(self, *, group_id: str = "", regular_expression: str = "") -> None:
        self.group_id = group_id
        self.regular_expression = regular_expression
