"""AlterReplicaLogDirsRequest, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message, Struct, UNSET


class AlterReplicaLogDirsRequest(Message):
    API_KEY = 34
    MIN_VERSION = 1
    MAX_VERSION = 2
    MAX_STABLE_VERSION = 2
    FLEXIBLE_FROM = 2
    READERS = {}
    WRITERS = {}
    __slots__ = ("dirs",)
    SCHEMA = """
        dirs []AlterReplicaLogDir 0+
    """

    def __init__(self, *, dirs: list[AlterReplicaLogDir] = UNSET) -> None:
        self.dirs: list[AlterReplicaLogDir] = [] if dirs is UNSET else dirs


class AlterReplicaLogDir(Struct):
    __slots__ = ("path", "topics")
    SCHEMA = """
        path string 0+
        topics []AlterReplicaLogDirTopic 0+
    """

    def __init__(self, *, path: str = "", topics: list[AlterReplicaLogDirTopic] = UNSET) -> None:
        self.path = path
        self.topics: list[AlterReplicaLogDirTopic] = [] if topics is UNSET else topics


class AlterReplicaLogDirTopic(Struct):
    __slots__ = ("name", "partitions")
    SCHEMA = """
        name string 0+
        partitions []int32 0+
    """

    def __init__(self, *, name: str = "", partitions: list[int] = UNSET) -> None:
        self.name = name
        self.partitions: list[int] = [] if partitions is UNSET else partitions
