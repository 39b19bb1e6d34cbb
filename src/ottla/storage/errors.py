"""Errors of the storage layer."""

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
    """The disk is full. Existing data is intact, and the write may be retried later."""


class OutOfDescriptors(DiskFull):
    """The process or the machine has no free file descriptor. As with a full disk, existing data is intact
    and the operation may be retried later; nothing is wrong with the directory."""


class StorageOffline(StorageError):
    """The log directory is offline; its partitions are not served until the process is restarted,
    or until a disk that does not answer answers again."""


class DirectoryStalled(StorageError):
    """The disk of a log directory does not answer. Nothing is lost, and it is used again once it answers."""


class CorruptLog(StorageError):
    """Synced data is no longer a valid log."""


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
    """A follower received batches that begin before its log end offset."""

    def __init__(self, first_offset: int, log_end_offset: int) -> None:
        super().__init__(f"batch at offset {first_offset} is below the log end offset {log_end_offset}")
        self.first_offset = first_offset
        self.log_end_offset = log_end_offset
