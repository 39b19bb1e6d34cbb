"""A topic's properties, as the log, the validation of produced records and replication use them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ottla.records.validate import AppendRules
from ottla.replication.throttle import ThrottledReplicas
from ottla.storage.log_config import LogConfig

CODECS_WITH_LEVEL = ("gzip", "lz4", "zstd")


class TopicSettings:
    """Created once per change of a topic's configuration and shared by its partitions."""

    __slots__ = ("log", "min_isr", "rules", "throttled_followers", "throttled_leaders")

    def __init__(self, values: Mapping[str, Any]) -> None:
        self.log = LogConfig(values)
        self.min_isr: int = values["min.insync.replicas"]
        self.throttled_leaders = ThrottledReplicas(values["leader.replication.throttled.replicas"])
        self.throttled_followers = ThrottledReplicas(values["follower.replication.throttled.replicas"])
        codec = values["compression.type"]
        self.rules = AppendRules(
            max_message_bytes=values["max.message.bytes"],
            compression_type="none" if codec == "uncompressed" else codec,
            compression_level=values[f"compression.{codec}.level"] if codec in CODECS_WITH_LEVEL else None,
            timestamp_type=values["message.timestamp.type"],
            before_max_ms=values["message.timestamp.before.max.ms"],
            after_max_ms=values["message.timestamp.after.max.ms"],
            compacted="compact" in values["cleanup.policy"],
            segment_bytes=values["segment.bytes"],
        )
