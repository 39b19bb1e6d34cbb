"""DescribeTransactionsRequest, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message, UNSET


class DescribeTransactionsRequest(Message):
    API_KEY = 65
    MIN_VERSION = 0
    MAX_VERSION = 0
    MAX_STABLE_VERSION = 0
    FLEXIBLE_FROM = 0
    READERS = {}
    WRITERS = {}
    __slots__ = ("transactional_ids",)
    SCHEMA = """
        transactional_ids []string 0+
    """

    def __init__(self, *, transactional_ids: list[str] = UNSET) -> None:
        self.transactional_ids: list[str] = [] if transactional_ids is UNSET else transactional_ids
