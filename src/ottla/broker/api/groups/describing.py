"""Code shared by DescribeGroups and ConsumerGroupDescribe."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING, Any

from ottla.broker.api.authorized_operations import GROUP_OPERATIONS
from ottla.broker.coordinators.replies import merge_replies
from ottla.protocol.errors import ErrorCode
from ottla.protocol.message import Message

if TYPE_CHECKING:
    from ottla.broker.coordinators.hosted_shards import HostedShards
    from ottla.groups.history import Rebalance
    from ottla.groups.shard import GroupShard


def describe_groups(
    shards: HostedShards[GroupShard],
    message: Any,
    group_ids: Iterable[str],
    view: Callable[[GroupShard, str], Any],
    respond: Callable[[list[Any]], Message],
    wire: ModuleType,
) -> Any:
    """The response or its future. `view` describes one group; `wire` is the module of the response."""

    def describe(group_id: str, shard: GroupShard, now_ms: int) -> Any:
        described = view(shard, group_id)
        if message.include_rebalances:
            described.rebalances = [_rebalance(wire, each) for each in shard.rebalances(group_id)]
        return described

    def refuse(group_id: str, code: int) -> Any:
        return wire.DescribedGroup(group_id=group_id, error_code=code)

    def merge(groups: list[Any]) -> Message:
        if message.include_authorized_operations:
            for group in groups:
                if group.error_code == ErrorCode.NONE:
                    group.authorized_operations = GROUP_OPERATIONS
        return respond(groups)

    replies = [
        shards.read(group_id, partial(describe, group_id), partial(refuse, group_id))
        for group_id in dict.fromkeys(group_ids)
    ]
    return merge_replies(replies, merge)


def _rebalance(wire: ModuleType, found: Rebalance) -> Any:
    """For `ottla group describe`: a tagged field that Kafka does not have."""
    return wire.Rebalance(
        began_ms=found.began_ms,
        ended_ms=found.ended_ms,
        generation=found.generation,
        member_count=found.member_count,
        triggers=[wire.RebalanceTrigger(**each._asdict()) for each in found.triggers],
        triggers_left_out=found.triggers_left_out,
    )
