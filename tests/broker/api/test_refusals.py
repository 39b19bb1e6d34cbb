"""Every request that the controller or the quorum decides can be refused, in every version."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from ottla.broker.api.declaration import THIS_NODE
from ottla.broker.api.registry import declaration, declarations, refuse
from ottla.protocol.api import API_BY_KEY
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.frames import encode_response
from ottla.protocol.messages.alter_partition_reassignments_request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.protocol.messages.elect_leaders_request import ElectLeadersRequest, TopicPartitions
from ottla.protocol.messages.heartbeat_request import HeartbeatRequest

FORWARDED = [api.key for api in declarations() if api.decided_by != THIS_NODE]
REFUSED_BY_ITEM = (
    ApiKey.CREATE_TOPICS,
    ApiKey.DELETE_TOPICS,
    ApiKey.ALTER_CONFIGS,
    ApiKey.CREATE_PARTITIONS,
    ApiKey.ELECT_LEADERS,
    ApiKey.INCREMENTAL_ALTER_CONFIGS,
)


def adapted(response: Any, version: int) -> Any:
    adapt = declaration(response.API_KEY).adapt
    if adapt is not None:
        adapt(response, version)
    return response


@pytest.mark.parametrize("key", FORWARDED)
def test_an_empty_request_is_refused_in_every_version(key: int) -> None:
    api = API_BY_KEY[key]
    message: Any = api.request_class()()
    answer = refuse(message, ErrorCode.NOT_CONTROLLER, "not here")
    assert type(answer) is api.response_class()
    for version in range(api.min_version, api.max_version + 1):
        assert encode_response(key, version, 1, adapted(deepcopy(answer), version))
    if key not in REFUSED_BY_ITEM:
        assert answer.error_code == ErrorCode.NOT_CONTROLLER


def test_elections_are_refused_one_by_one_or_all() -> None:
    request = ElectLeadersRequest(topic_partitions=[TopicPartitions(topic="t", partitions=[1, 2])])
    answer = refuse(request, ErrorCode.REQUEST_TIMED_OUT, "too late")
    (topic,) = answer.replica_election_results
    assert topic.topic == "t"
    assert [(each.partition_id, each.error_code) for each in topic.partition_result] == [(1, 7), (2, 7)]
    assert topic.partition_result[0].error_message == "too late"
    request.topic_partitions = None
    answer = refuse(request, ErrorCode.REQUEST_TIMED_OUT, "too late")
    assert adapted(answer, 1).error_code == 7
    assert adapted(answer, 0).error_code == 0  # version 0 has no field for it


def test_a_heartbeat_succeeds_while_the_group_is_loaded() -> None:
    beat = HeartbeatRequest(group_id="g")
    assert refuse(beat, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS).error_code == ErrorCode.NONE
    assert refuse(beat, ErrorCode.NOT_COORDINATOR).error_code == ErrorCode.NOT_COORDINATOR


def test_reassignments_are_refused_one_by_one() -> None:
    topic = ReassignableTopic(name="t", partitions=[ReassignablePartition(partition_index=3)])
    request = AlterPartitionReassignmentsRequest(topics=[topic])
    answer = refuse(request, ErrorCode.NOT_CONTROLLER, "no")
    assert (answer.error_code, answer.error_message) == (ErrorCode.NOT_CONTROLLER, "no")
    (refusal,) = answer.responses[0].partitions
    assert (refusal.partition_index, refusal.error_code) == (3, ErrorCode.NOT_CONTROLLER)
