"""Every request that the controller or the quorum answers can be refused, in every version."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from ottla.broker.api.fitting import fitted
from ottla.broker.api.handlers import CONTROLLER_HANDLERS, HANDLERS
from ottla.broker.api.refusals import refused
from ottla.protocol.api import API_BY_KEY
from ottla.protocol.errors import ErrorCode
from ottla.protocol.frames import encode_response
from ottla.protocol.messages.alter_partition_reassignments_request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.protocol.messages.elect_leaders_request import ElectLeadersRequest, TopicPartitions
from ottla.protocol.messages.heartbeat_request import HeartbeatRequest

CARRIED = sorted(
    key
    for key, module in {**HANDLERS, **CONTROLLER_HANDLERS}.items()
    if module in ("controller_command", "quorum_admin", "broker_heartbeat")
)


@pytest.mark.parametrize("key", CARRIED)
def test_an_empty_request_is_refused_in_every_version(key: int) -> None:
    api = API_BY_KEY[key]
    message: Any = api.request_class()()
    answer = refused(message, ErrorCode.NOT_CONTROLLER, "not here")
    assert type(answer) is api.response_class()
    for version in range(api.min_version, api.max_version + 1):
        assert encode_response(key, version, 1, fitted(deepcopy(answer), version))
    if key not in (19, 20, 33, 37, 43, 44):
        assert answer.error_code == ErrorCode.NOT_CONTROLLER


def test_elections_are_refused_one_by_one_or_all() -> None:
    request = ElectLeadersRequest(topic_partitions=[TopicPartitions(topic="t", partitions=[1, 2])])
    answer = refused(request, ErrorCode.REQUEST_TIMED_OUT, "too late")
    (topic,) = answer.replica_election_results
    assert topic.topic == "t"
    assert [(each.partition_id, each.error_code) for each in topic.partition_result] == [(1, 7), (2, 7)]
    assert topic.partition_result[0].error_message == "too late"
    request.topic_partitions = None
    answer = refused(request, ErrorCode.REQUEST_TIMED_OUT, "too late")
    assert fitted(answer, 1).error_code == 7
    assert fitted(answer, 0).error_code == 0  # version 0 has no place for it


def test_a_heartbeat_is_well_while_the_group_is_loaded() -> None:
    beat = HeartbeatRequest(group_id="g")
    assert refused(beat, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS).error_code == ErrorCode.NONE
    assert refused(beat, ErrorCode.NOT_COORDINATOR).error_code == ErrorCode.NOT_COORDINATOR


def test_reassignments_are_refused_one_by_one() -> None:
    topic = ReassignableTopic(name="t", partitions=[ReassignablePartition(partition_index=3)])
    request = AlterPartitionReassignmentsRequest(topics=[topic])
    answer = refused(request, ErrorCode.NOT_CONTROLLER, "no")
    assert (answer.error_code, answer.error_message) == (ErrorCode.NOT_CONTROLLER, "no")
    (refusal,) = answer.responses[0].partitions
    assert (refusal.partition_index, refusal.error_code) == (3, ErrorCode.NOT_CONTROLLER)
