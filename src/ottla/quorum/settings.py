"""The configuration of the metadata log."""

from __future__ import annotations

from ottla.config.load import BrokerConfig
from ottla.storage.log_config import LogConfig


class MetadataLogSettings:
    """Segments, snapshots and their retention."""

    __slots__ = (
        "retention_bytes",
        "retention_ms",
        "segment_bytes",
        "segment_ms",
        "snapshot_after_bytes",
        "snapshot_interval_ms",
    )

    def __init__(self, config: BrokerConfig) -> None:
        self.segment_bytes = config.get_int("metadata.log.segment.bytes")
        self.segment_ms = config.get_int("metadata.log.segment.ms")
        self.retention_bytes = config.get_int("metadata.max.retention.bytes")
        self.retention_ms = config.get_int("metadata.max.retention.ms")
        self.snapshot_after_bytes = config.get_int("metadata.log.max.record.bytes.between.snapshots")
        self.snapshot_interval_ms = config.get_int("metadata.log.max.snapshot.interval.ms")

    def log_config(self) -> LogConfig:
        """Disable retention by age and size: only data below a snapshot may be deleted."""
        return LogConfig(
            {
                "segment.bytes": self.segment_bytes,
                "segment.ms": self.segment_ms,
                "retention.ms": -1,
                "retention.bytes": -1,
                "file.delete.delay.ms": 0,
            }
        )
