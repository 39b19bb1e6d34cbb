"""The topic properties that the log uses."""

from __future__ import annotations

from collections.abc import Mapping

LONG_MAX = (1 << 63) - 1


class LogConfig:
    """Created from the properties of a topic, with Kafka's defaults. Shared by the partitions of the
    topic."""

    __slots__ = (
        "cleanup_compact",
        "cleanup_delete",
        "delete_retention_ms",
        "file_delete_delay_ms",
        "flush_messages",
        "flush_ms",
        "has_flush_policy",
        "index_interval_bytes",
        "max_compaction_lag_ms",
        "min_cleanable_dirty_ratio",
        "min_compaction_lag_ms",
        "producer_id_expiration_ms",
        "retention_bytes",
        "retention_ms",
        "segment_bytes",
        "segment_index_bytes",
        "segment_jitter_ms",
        "segment_ms",
    )

    def __init__(self, configs: Mapping[str, object] | None = None) -> None:
        configs = configs or {}

        def number(name: str, default: int) -> int:
            return int(str(configs.get(name, default)))

        policy = configs.get("cleanup.policy", "delete")
        names = policy.split(",") if isinstance(policy, str) else policy
        assert isinstance(names, list | tuple | set | frozenset)
        policies = {str(name).strip() for name in names}
        self.cleanup_delete = "delete" in policies
        self.cleanup_compact = "compact" in policies
        self.file_delete_delay_ms = number("file.delete.delay.ms", 60_000)
        self.flush_messages = number("flush.messages", LONG_MAX)
        self.flush_ms = number("flush.ms", LONG_MAX)
        self.has_flush_policy = self.flush_messages != LONG_MAX or self.flush_ms != LONG_MAX
        self.index_interval_bytes = number("index.interval.bytes", 4096)
        self.producer_id_expiration_ms = number("producer.id.expiration.ms", 86_400_000)
        self.retention_bytes = number("retention.bytes", -1)
        self.retention_ms = number("retention.ms", 604_800_000)
        self.segment_bytes = number("segment.bytes", 1_073_741_824)
        self.segment_index_bytes = number("segment.index.bytes", 10_485_760)
        self.segment_jitter_ms = number("segment.jitter.ms", 0)
        self.segment_ms = number("segment.ms", 604_800_000)
        self.delete_retention_ms = number("delete.retention.ms", 86_400_000)
        self.max_compaction_lag_ms = number("max.compaction.lag.ms", LONG_MAX)
        self.min_compaction_lag_ms = number("min.compaction.lag.ms", 0)
        self.min_cleanable_dirty_ratio = float(str(configs.get("min.cleanable.dirty.ratio", 0.5)))
        if self.cleanup_compact:
            # The active segment is not compacted, so records must not stay in it for longer.
            self.segment_ms = min(self.segment_ms, self.max_compaction_lag_ms)
