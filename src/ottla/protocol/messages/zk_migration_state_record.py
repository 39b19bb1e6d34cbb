"""ZkMigrationStateRecord, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message


class ZkMigrationStateRecord(Message):
    API_KEY = 21
    MIN_VERSION = 0
    MAX_VERSION = 0
    MAX_STABLE_VERSION = 0
    FLEXIBLE_FROM = 0
    READERS = {}
    WRITERS = {}
    __slots__ = ("zk_migration_state",)
    SCHEMA = """
        zk_migration_state int8 0+
    """

    def __init__(self, *, zk_migration_state: int = 0) -> None:
        self.zk_migration_state = zk_migration_state
