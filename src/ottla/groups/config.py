"""The settings of groups: those of the broker, and overrides of single groups."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

_MINUTE_MS = 60_000


class Values(Protocol):
    """The broker's properties, such as `BrokerConfig`."""

    def get_int(self, name: str) -> int: ...

    def get_str(self, name: str) -> str: ...

    def get_list(self, name: str) -> tuple[str, ...]: ...


def _none_set(group_id: str) -> Mapping[str, str]:
    return {}


class GroupsConfig:
    """`group_overrides` returns the configuration of a group (resource type GROUP) by Kafka's names."""

    __slots__ = (
        "consumer_assignment_interval_ms",
        "consumer_assignors",
        "consumer_heartbeat_interval_ms",
        "consumer_max_assignment_interval_ms",
        "consumer_max_heartbeat_interval_ms",
        "consumer_max_session_timeout_ms",
        "consumer_max_size",
        "consumer_migration_policy",
        "consumer_min_assignment_interval_ms",
        "consumer_min_heartbeat_interval_ms",
        "consumer_min_session_timeout_ms",
        "consumer_session_timeout_ms",
        "group_overrides",
        "initial_rebalance_delay_ms",
        "max_session_timeout_ms",
        "max_size",
        "min_session_timeout_ms",
        "new_member_join_timeout_ms",
        "offset_metadata_max_bytes",
        "offsets_retention_check_interval_ms",
        "offsets_retention_ms",
        "rebalance_history_length",
    )

    def __init__(
        self, config: Values, group_overrides: Callable[[str], Mapping[str, str]] = _none_set
    ) -> None:
        self.group_overrides = group_overrides
        self.read(config)

    def read(self, config: Values) -> None:
        """Read the broker's current properties."""
        get_int = config.get_int
        self.min_session_timeout_ms = get_int("group.min.session.timeout.ms")
        self.max_session_timeout_ms = get_int("group.max.session.timeout.ms")
        self.initial_rebalance_delay_ms = get_int("group.initial.rebalance.delay.ms")
        self.max_size = get_int("group.max.size")
        # How long the first response to a joining member may take, whatever its session timeout: clients
        # may not send heartbeats while they wait for it.
        self.new_member_join_timeout_ms = 5 * _MINUTE_MS
        self.offset_metadata_max_bytes = get_int("offset.metadata.max.bytes")
        self.offsets_retention_ms = get_int("offsets.retention.minutes") * _MINUTE_MS
        self.offsets_retention_check_interval_ms = get_int("offsets.retention.check.interval.ms")
        self.consumer_session_timeout_ms = get_int("group.consumer.session.timeout.ms")
        self.consumer_min_session_timeout_ms = get_int("group.consumer.min.session.timeout.ms")
        self.consumer_max_session_timeout_ms = get_int("group.consumer.max.session.timeout.ms")
        self.consumer_heartbeat_interval_ms = get_int("group.consumer.heartbeat.interval.ms")
        self.consumer_min_heartbeat_interval_ms = get_int("group.consumer.min.heartbeat.interval.ms")
        self.consumer_max_heartbeat_interval_ms = get_int("group.consumer.max.heartbeat.interval.ms")
        self.consumer_assignment_interval_ms = get_int("group.consumer.assignment.interval.ms")
        self.consumer_min_assignment_interval_ms = get_int("group.consumer.min.assignment.interval.ms")
        self.consumer_max_assignment_interval_ms = get_int("group.consumer.max.assignment.interval.ms")
        self.consumer_max_size = get_int("group.consumer.max.size")
        self.consumer_assignors = config.get_list("group.consumer.assignors")
        self.consumer_migration_policy = config.get_str("group.consumer.migration.policy")
        self.rebalance_history_length = 16
