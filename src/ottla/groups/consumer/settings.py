"""The settings of one consumer group: the broker's, or the group's own within the broker's bounds."""

from __future__ import annotations

from ottla.groups.config import GroupsConfig

# The heartbeat interval of a member that waits for partitions or for an assignment: at the cost of a few
# heartbeats, a rebalance ends seconds earlier.
WAITING_HEARTBEAT_INTERVAL_MS = 500


def session_timeout_ms(config: GroupsConfig, group_id: str) -> int:
    text = config.group_overrides(group_id).get("consumer.session.timeout.ms")
    if text is None:
        return config.consumer_session_timeout_ms
    return max(config.consumer_min_session_timeout_ms, min(int(text), config.consumer_max_session_timeout_ms))


def heartbeat_interval_ms(config: GroupsConfig, group_id: str) -> int:
    text = config.group_overrides(group_id).get("consumer.heartbeat.interval.ms")
    if text is None:
        return config.consumer_heartbeat_interval_ms
    return max(
        config.consumer_min_heartbeat_interval_ms, min(int(text), config.consumer_max_heartbeat_interval_ms)
    )


def assignment_interval_ms(config: GroupsConfig, group_id: str) -> int:
    """The minimum time between assignments of a group, so that many members that join at once cause two
    assignments and not one each. The first assignment, and one for a single member, is not delayed."""
    text = config.group_overrides(group_id).get("consumer.assignment.interval.ms")
    if text is None:
        return config.consumer_assignment_interval_ms
    low, high = config.consumer_min_assignment_interval_ms, config.consumer_max_assignment_interval_ms
    return max(low, min(int(text), high))
