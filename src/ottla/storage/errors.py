"""What can go wrong below the log: each failure of a file, a directory or a stored batch has a name."""

from __future__ import annotations

from ottla.protocol.errors import ErrorCode


class StorageError(Exception):
    """A file could not be read or written; `path` says which."""

    code = ErrorCode.KAFKA_STORAGE_ERROR

    def __init__(self, path: str, reason: object) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = path
        self.reason = str(reason)


class DiskFull(StorageError):
    """No room left. What was there before is intact, and the same write may be tried again later."""


class StorageOffline(StorageError):
    """The log directory failed before; its partitions are not served until the process starts again."""


class CorruptLog(StorageError):
    """Stored bytes that were acknowledged as durable are no longer a valid log."""


class DirectoryInUse(StorageError):
    """Another process holds the lock of a log directory."""


class OffsetOutOfRange(Exception):
    """The offset is below the log start offset or beyond the log end offset."""

    code = ErrorCode.OFFSET_OUT_OF_RANGE

    def __init__(self, offset: int, log_start_offset: int, log_end_offset: int) -> None:
        super().__init__(f"offset {offset} is outside {log_start_offset}..{log_end_offset}")
        self.offset = offset
        self.log_start_offset = log_start_offset
        self.log_end_offset = log_end_offset


class UnexpectedAppendOffset(Exception):
    """A follower was given batches that begin before its log ends."""

    def __init__(self, first_offset: int, log_end_offset: int) -> None:
        super().__init__(f"batch at offset {first_offset} comes before the log end offset {log_end_offset}")
        self.first_offset = first_offset
        self.log_end_offset = log_end_offset
