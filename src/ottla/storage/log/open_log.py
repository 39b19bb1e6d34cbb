"""Opening a partition log: load what is on disk, and compose a PartitionLog of it."""

from __future__ import annotations

from ottla.storage.directory_names import parent
from ottla.storage.files import Files
from ottla.storage.log.durability import Durability
from ottla.storage.log.partition_log import PartitionLog
from ottla.storage.log.recovery import load_log
from ottla.storage.log_config import LogConfig
from ottla.storage.log_dir import LogDir
from ottla.storage.producers.log_producers import LogProducers


def open_log(
    files: Files,
    directory: str,
    config: LogConfig,
    *,
    now_ms: int,
    clean: bool = False,
    recovery_point: int | None = None,
    log_start_offset: int = 0,
    cleaned_offset: int = 0,
    log_dir: LogDir | None = None,
) -> PartitionLog:
    """Open or create the log in `directory`. `clean`: it was closed by a clean shutdown, so nothing is
    scanned.

    Raises CorruptLog if data below the recovery point is damaged.
    """
    files.mkdir(directory)
    loaded = load_log(
        files,
        directory,
        config,
        now_ms,
        clean=clean,
        recovery_point=recovery_point,
        start=log_start_offset,
        cleaned_offset=cleaned_offset,
    )
    log_dir = log_dir or LogDir(parent(directory))
    durability = Durability(
        files,
        directory,
        log_dir,
        loaded.segments,
        loaded.leader_epochs,
        recovery_point=loaded.recovery_point,
        now_ms=now_ms,
    )
    durability.changed = loaded.recovered or loaded.created
    if loaded.recovered:
        durability.txn_indexes_changed(loaded.log_start_offset)
    return PartitionLog(
        files,
        directory,
        config,
        log_dir,
        segments=loaded.segments,
        leader_epochs=loaded.leader_epochs,
        producers=LogProducers(loaded.segments, loaded.snapshots, loaded.producer_state),
        durability=durability,
        log_start_offset=loaded.log_start_offset,
        log_end_offset=loaded.log_end_offset,
        cleaned_offset=cleaned_offset,
    )
