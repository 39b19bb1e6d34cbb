"""DescribeLogDirsResponse, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message, Struct, UNSET


class DescribeLogDirsResponse(Message):
    API_KEY = 35
    MIN_VERSION = 1
    MAX_VERSION = 5
    MAX_STABLE_VERSION = 5
    FLEXIBLE_FROM = 2
    READERS = {}
    WRITERS = {}
    __slots__ = ("throttle_time_ms", "error_code", "results")
    SCHEMA = """
        throttle_time_ms int32 0+
        error_code int16 3+ ignorable
        results []DescribeLogDirsResult 0+
    """

    def __init__(self, *,
        throttle_time_ms: int = 0, error_code: int = 0, results: list[DescribeLogDirsResult] = UNSET,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.results: list[DescribeLogDirsResult] = [] if results is UNSET else results


class DescribeLogDirsResult(Struct):
    __slots__ = ("error_code", "log_dir", "topics", "total_bytes", "usable_bytes", "is_cordoned")
    SCHEMA = """
        error_code int16 0+
        log_dir string 0+
        topics []DescribeLogDirsTopic 0+
        total_bytes int64 4+ default:-1 ignorable
        usable_bytes int64 4+ default:-1 ignorable
        is_cordoned bool 5+ ignorable
    """

    def __init__(self, *,
        error_code: int = 0, log_dir: str = "", topics: list[DescribeLogDirsTopic] = UNSET,
        total_bytes: int = -1, usable_bytes: int = -1, is_cordoned: bool = False,
    ) -> None:
        self.error_code = error_code
        self.log_dir = log_dir
        self.topics: list[DescribeLogDirsTopic] = [] if topics is UNSET else topics
        self.total_bytes = total_bytes
        self.usable_bytes = usable_bytes
        self.is_cordoned = is_cordoned


class DescribeLogDirsTopic(Struct):
    __slots__ = ("name", "partitions")
    SCHEMA = """
        name string 0+
        partitions []DescribeLogDirsPartition 0+
    """

    def __init__(self, *, name: str = "", partitions: list[DescribeLogDirsPartition] = UNSET) -> None:
        self.name = name
        self.partitions: list[DescribeLogDirsPartition] = [] if partitions is UNSET else partitions


class DescribeLogDirsPartition(Struct):
    __slots__ = ("partition_index", "partition_size", "offset_lag", "is_future_key")
    SCHEMA = """
        partition_index int32 0+
        partition_size int64 0+
        offset_lag int64 0+
        is_future_key bool 0+
    """

    def __init__(self, *,
        partition_index: int = 0, partition_size: int = 0, offset_lag: int = 0, is_future_key: bool = False,
    ) -> None:
        self.partition_index = partition_index
        self.partition_size = partition_size
        self.offset_lag = offset_lag
        self.is_future_key = is_future_key
