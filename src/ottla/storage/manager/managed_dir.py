"""A log directory of a node: its lock, its identity, and the offsets that its checkpoint files contained."""

from __future__ import annotations

import threading

from ottla.storage import checkpoints
from ottla.storage.checkpoints import CorruptCheckpoint, TopicPartition
from ottla.storage.directory_names import parent
from ottla.storage.errors import DirectoryInUse, StorageError
from ottla.storage.files import Files, Lock
from ottla.storage.log_dir import LogDir
from ottla.storage.logger import logger

LOCK_NAME = ".lock"


class ManagedDir(LogDir):
    """`clean`: the last process to use the directory closed all of its logs."""

    __slots__ = (
        "broker_epoch",
        "checkpoint_lock",
        "clean",
        "cleaned",
        "high_watermarks",
        "lock",
        "log_starts",
        "lowered",
        "meta",
        "partition_count",
        "recovery_points",
        "stale",
    )

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.lock: Lock | None = None
        # A truncation writes recovery points while another thread may be writing checkpoints: one at a time,
        # and what was collected before the truncation must not be written after it. `lowered` counts
        # truncations.
        self.checkpoint_lock = threading.Lock()
        self.lowered = 0
        self.clean = False
        self.broker_epoch = -1
        self.meta: checkpoints.MetaProperties | None = None
        self.recovery_points: dict[TopicPartition, int] = {}
        self.log_starts: dict[TopicPartition, int] = {}
        self.high_watermarks: dict[TopicPartition, int] = {}
        self.cleaned: dict[TopicPartition, int] = {}
        self.partition_count = 0
        # Deleted partitions that the checkpoint files may still contain.
        self.stale: dict[TopicPartition, None] = {}

    def open(self, files: Files) -> None:
        """Create and lock the directory, and read its files. A failure takes it offline.

        Raises DirectoryInUse if another process holds the lock.
        """
        try:
            _make_dir(files, self.path)
            self.lock = files.lock(f"{self.path}/{LOCK_NAME}")
            self.meta = checkpoints.read_meta_properties(files, self.path)
            self.clean, self.broker_epoch = checkpoints.take_clean_shutdown(files, self.path)
            self.recovery_points = self._read_offsets(files, checkpoints.RECOVERY_POINTS)
            self.log_starts = self._read_offsets(files, checkpoints.LOG_STARTS)
            self.high_watermarks = self._read_offsets(files, checkpoints.HIGH_WATERMARKS)
            self.cleaned = self._read_cleaned(files)
        except DirectoryInUse:
            raise
        except StorageError as error:
            self.fail(error)

    def _read_offsets(self, files: Files, name: str) -> dict[TopicPartition, int]:
        try:
            return checkpoints.read_offsets(files, self.path, name)
        except CorruptCheckpoint as error:
            # Without it the logs are scanned in full: slow, but correct.
            logger.error("%s/%s is unreadable, recovering without it: %s", self.path, name, error)
            self.clean = False
            return {}

    def _read_cleaned(self, files: Files) -> dict[TopicPartition, int]:
        if files.size(f"{self.path}/{checkpoints.CLEANED_OFFSETS}") == 0:
            return {}  # Kafka creates the file when it starts, and writes it after the first compaction
        try:
            return checkpoints.read_offsets(files, self.path, checkpoints.CLEANED_OFFSETS)
        except CorruptCheckpoint as error:
            logger.error("%s: compacting all logs from their start: %s", self.path, error)
            return {}

    def forget(self, key: TopicPartition) -> None:
        """Drop the offsets of a deleted partition: a new partition of the same name must not inherit them."""
        for offsets in (self.recovery_points, self.log_starts, self.high_watermarks, self.cleaned):
            offsets.pop(key, None)
        self.stale[key] = None

    def known_partitions(self) -> set[TopicPartition]:
        """The partitions that the checkpoints mention."""
        return {*self.recovery_points, *self.log_starts, *self.high_watermarks, *self.cleaned}

    def release_lock(self) -> None:
        if self.lock is not None:
            self.lock.release()
            self.lock = None


def _make_dir(files: Files, path: str) -> None:
    """Create a directory durably: the entry of each new parent has to be synced as well."""
    if not files.is_dir(path):
        above = parent(path)
        if above != path:
            _make_dir(files, above)
        files.mkdir(path)
        files.sync_dir(above)
