"""File system access: the interface (base) and its implementation on the operating system (os_files)."""

from ottla.storage.files.base import Bytes, File, Files, Lock, SyncHandle
from ottla.storage.files.os_files import OsFile, OsFiles, OsLock, OsSyncHandle, storage_error

__all__ = [
    "Bytes",
    "File",
    "Files",
    "Lock",
    "OsFile",
    "OsFiles",
    "OsLock",
    "OsSyncHandle",
    "SyncHandle",
    "storage_error",
]
