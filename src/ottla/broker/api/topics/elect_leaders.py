"""ElectLeaders (43): elect the preferred leaders of partitions, or any replica."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.api.forwarding import controller_api
from ottla.controller.partitions.elect_leaders import decide_elect_leaders
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages.elect_leaders_response import (
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from ottla.protocol.versions import ELECT_LEADERS_ERROR_CODE_SINCE

if TYPE_CHECKING:
    from ottla.protocol.messages.elect_leaders_request import ElectLeadersRequest


def refuse(message: ElectLeadersRequest, code: int, reason: str) -> ElectLeadersResponse:
    if message.topic_partitions is None:
        return ElectLeadersResponse(error_code=code)
    return ElectLeadersResponse(
        replica_election_results=[
            ReplicaElectionResult(
                topic=topic.topic,
                partition_result=[
                    PartitionResult(partition_id=index, error_code=code, error_message=reason)
                    for index in topic.partitions
                ],
            )
            for topic in message.topic_partitions
        ]
    )


def adapt(response: ElectLeadersResponse, version: int) -> None:
    """Version 0 has no top-level error: it is dropped, as in Kafka."""
    if version < ELECT_LEADERS_ERROR_CODE_SINCE:
        response.error_code = 0


API = controller_api(ApiKey.ELECT_LEADERS, decide=decide_elect_leaders, refuse=refuse, adapt=adapt)
