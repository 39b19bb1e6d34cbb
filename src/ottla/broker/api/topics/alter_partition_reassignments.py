"""AlterPartitionReassignments (45): move replicas to other brokers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.api.forwarding import controller_api
from ottla.controller.partitions.reassignments import decide_alter_partition_reassignments
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages.alter_partition_reassignments_response import (
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)

if TYPE_CHECKING:
    from ottla.protocol.messages.alter_partition_reassignments_request import (
        AlterPartitionReassignmentsRequest,
    )


def refuse(
    message: AlterPartitionReassignmentsRequest, code: int, reason: str
) -> AlterPartitionReassignmentsResponse:
    return AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=message.allow_replication_factor_change,
        error_code=code,
        error_message=reason,
        responses=[
            ReassignableTopicResponse(
                name=topic.name,
                partitions=[
                    ReassignablePartitionResponse(
                        partition_index=partition.partition_index, error_code=code, error_message=reason
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in message.topics
        ],
    )


API = controller_api(
    ApiKey.ALTER_PARTITION_REASSIGNMENTS, decide=decide_alter_partition_reassignments, refuse=refuse
)
