"""ConsumerGroupDescribe (69): state, members and assignments of groups of the consumer protocol."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from ottla.broker.authorized_operations import GROUP_OPERATIONS
from ottla.broker.coordinators.groups import together
from ottla.broker.refusals import refused
from ottla.protocol.errors import ErrorCode
from ottla.protocol.message import Message
from ottla.protocol.messages.consumer_group_describe_request import ConsumerGroupDescribeRequest
from ottla.protocol.messages.consumer_group_describe_response import (
    ConsumerGroupDescribeResponse,
    DescribedGroup,
    Rebalance,
    RebalanceTrigger,
)

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.broker.connection import Request
    from ottla.groups import history
    from ottla.groups.shard import GroupShard

API_KEY = 69


def handle(broker: Broker, request: Request, message: ConsumerGroupDescribeRequest) -> Any:
    if not broker.groups.has_consumer_protocol:
        return refused(message, ErrorCode.UNSUPPORTED_VERSION)

    def describe(group_id: str, shard: GroupShard) -> DescribedGroup:
        described = shard.describe_consumer_group(group_id)
        if message.include_rebalances:
            described.rebalances = [_rebalance(each) for each in shard.rebalances(group_id)]
        return described

    def merge(groups: list[DescribedGroup]) -> Message:
        if message.include_authorized_operations:
            for group in groups:
                if group.error_code == ErrorCode.NONE:
                    group.authorized_operations = GROUP_OPERATIONS
        return ConsumerGroupDescribeResponse(groups=groups)

    answers = [
        broker.groups.look(group_id, partial(describe, group_id), partial(_refused, group_id))
        for group_id in dict.fromkeys(message.group_ids)
    ]
    return together(answers, merge)


def _rebalance(found: history.Rebalance) -> Rebalance:
    """For `ottla group describe`: a tagged field of our own, for those who ask for it."""
    return Rebalance(
        began_ms=found.began_ms,
        ended_ms=found.ended_ms,
        generation=found.generation,
        member_count=found.member_count,
        triggers=[RebalanceTrigger(**each._asdict()) for each in found.triggers],
        triggers_left_out=found.triggers_left_out,
    )


def _refused(group_id: str, code: int) -> DescribedGroup:
    return DescribedGroup(group_id=group_id, error_code=code)
