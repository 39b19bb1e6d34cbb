"""Requests refused as a whole: every item of the request gets the same error."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ottla.protocol.api import API_BY_KEY
from ottla.protocol.errors import ErrorCode
from ottla.protocol.message import Message


def refused(message: Message, code: int, reason: str = "") -> Any:
    """The response to `message` in which everything failed for one reason."""
    return _BUILDERS[message.API_KEY](message, code, reason)


def _create_topics(message: Any, code: int, reason: str) -> Message:
    from ottla.protocol.messages.create_topics_response import CreatableTopicResult, CreateTopicsResponse

    return CreateTopicsResponse(
        topics=[
            CreatableTopicResult(name=topic.name, error_code=code, error_message=reason, configs=None)
            for topic in message.topics
        ]
    )


def _delete_topics(message: Any, code: int, reason: str) -> Message:
    from ottla.protocol.messages.delete_topics_response import DeletableTopicResult, DeleteTopicsResponse

    by_name = [
        DeletableTopicResult(name=name, error_code=code, error_message=reason) for name in message.topic_names
    ]
    by_either = [
        DeletableTopicResult(name=each.name, topic_id=each.topic_id, error_code=code, error_message=reason)
        for each in message.topics
    ]
    return DeleteTopicsResponse(responses=by_name + by_either)


def _create_partitions(message: Any, code: int, reason: str) -> Message:
    from ottla.protocol.messages.create_partitions_response import (
        CreatePartitionsResponse,
        CreatePartitionsTopicResult,
    )

    return CreatePartitionsResponse(
        results=[
            CreatePartitionsTopicResult(name=topic.name, error_code=code, error_message=reason)
            for topic in message.topics
        ]
    )


def _alter_configs(message: Any, code: int, reason: str) -> Message:
    from ottla.protocol.messages import alter_configs_response, incremental_alter_configs_response

    responses: Any = (
        alter_configs_response
        if message.API_KEY == alter_configs_response.AlterConfigsResponse.API_KEY
        else incremental_alter_configs_response
    )
    whole: type[Message] = API_BY_KEY[message.API_KEY].response_class()
    return whole(
        responses=[  # type: ignore[call-arg]
            responses.AlterConfigsResourceResponse(
                error_code=code,
                error_message=reason,
                resource_type=each.resource_type,
                resource_name=each.resource_name,
            )
            for each in message.resources
        ]
    )


def _elect_leaders(message: Any, code: int, reason: str) -> Message:
    from ottla.protocol.messages.elect_leaders_response import (
        ElectLeadersResponse,
        PartitionResult,
        ReplicaElectionResult,
    )

    if message.topic_partitions is None:
        return ElectLeadersResponse(error_code=code)
    return ElectLeadersResponse(
        replica_election_results=[
            ReplicaElectionResult(
                topic=each.topic,
                partition_result=[
                    PartitionResult(partition_id=number, error_code=code, error_message=reason)
                    for number in each.partitions
                ],
            )
            for each in message.topic_partitions
        ]
    )


def _reassign(message: Any, code: int, reason: str) -> Message:
    from ottla.protocol.messages.alter_partition_reassignments_response import (
        AlterPartitionReassignmentsResponse,
        ReassignablePartitionResponse,
        ReassignableTopicResponse,
    )

    return AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=message.allow_replication_factor_change,
        error_code=code,
        error_message=reason,
        responses=[
            ReassignableTopicResponse(
                name=topic.name,
                partitions=[
                    ReassignablePartitionResponse(
                        partition_index=each.partition_index, error_code=code, error_message=reason
                    )
                    for each in topic.partitions
                ],
            )
            for topic in message.topics
        ],
    )


def _offset_commit(message: Any, code: int, reason: str) -> Message:
    from ottla.protocol.messages import offset_commit_response as answers

    return answers.OffsetCommitResponse(
        topics=[
            answers.OffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    answers.OffsetCommitResponsePartition(
                        partition_index=each.partition_index, error_code=code
                    )
                    for each in topic.partitions
                ],
            )
            for topic in message.topics
        ]
    )


def _txn_offset_commit(message: Any, code: int, reason: str) -> Message:
    from ottla.protocol.messages import txn_offset_commit_response as answers

    return answers.TxnOffsetCommitResponse(
        topics=[
            answers.TxnOffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    answers.TxnOffsetCommitResponsePartition(
                        partition_index=each.partition_index, error_code=code
                    )
                    for each in topic.partitions
                ],
            )
            for topic in message.topics
        ]
    )


def _join_group(message: Any, code: int, reason: str) -> Message:
    from ottla.protocol.messages.join_group_response import JoinGroupResponse

    return JoinGroupResponse(error_code=code, member_id=message.member_id)


def _describe_groups(message: Any, code: int, reason: str) -> Message:
    from ottla.protocol.messages.describe_groups_response import DescribedGroup, DescribeGroupsResponse

    groups = [DescribedGroup(group_id=group_id, error_code=code) for group_id in message.groups]
    return DescribeGroupsResponse(groups=groups)


def _delete_groups(message: Any, code: int, reason: str) -> Message:
    from ottla.protocol.messages.delete_groups_response import DeletableGroupResult, DeleteGroupsResponse

    results = [DeletableGroupResult(group_id=group_id, error_code=code) for group_id in message.groups_names]
    return DeleteGroupsResponse(results=results)


def _consumer_group_describe(message: Any, code: int, reason: str) -> Message:
    from ottla.protocol.messages.consumer_group_describe_response import (
        ConsumerGroupDescribeResponse,
        DescribedGroup,
    )

    groups = [DescribedGroup(group_id=group_id, error_code=code) for group_id in message.group_ids]
    return ConsumerGroupDescribeResponse(groups=groups)


def _as_a_whole(message: Any, code: int, reason: str) -> Message:
    """For answers with one error for everything, with or without words to it."""
    answer: Any = API_BY_KEY[message.API_KEY].response_class()()
    answer.error_code = code
    if "error_message" in type(answer).__slots__:
        answer.error_message = reason
    return answer  # type: ignore[no-any-return]


def _heartbeat(message: Any, code: int, reason: str) -> Message:
    """While a group is read from the log its members live on, as Kafka has it: some clients end over a word
    of it."""
    loading = code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    return _as_a_whole(message, ErrorCode.NONE if loading else code, reason)


_BUILDERS: dict[int, Callable[[Any, int, str], Message]] = {
    8: _offset_commit,
    11: _join_group,
    12: _heartbeat,
    13: _as_a_whole,  # LeaveGroup
    14: _as_a_whole,  # SyncGroup
    15: _describe_groups,
    16: _as_a_whole,  # ListGroups
    19: _create_topics,
    20: _delete_topics,
    25: _as_a_whole,  # AddOffsetsToTxn
    26: _as_a_whole,  # EndTxn
    28: _txn_offset_commit,
    33: _alter_configs,
    37: _create_partitions,
    42: _delete_groups,
    43: _elect_leaders,
    44: _alter_configs,
    45: _reassign,
    46: _as_a_whole,  # ListPartitionReassignments
    47: _as_a_whole,  # OffsetDelete
    55: _as_a_whole,  # DescribeQuorum
    56: _as_a_whole,  # AlterPartition
    57: _as_a_whole,  # UpdateFeatures
    58: _as_a_whole,  # Envelope
    62: _as_a_whole,  # BrokerRegistration
    63: _as_a_whole,  # BrokerHeartbeat
    64: _as_a_whole,  # UnregisterBroker
    67: _as_a_whole,  # AllocateProducerIds
    68: _as_a_whole,  # ConsumerGroupHeartbeat
    69: _consumer_group_describe,
    70: _as_a_whole,  # ControllerRegistration
    73: _as_a_whole,  # AssignReplicasToDirs
    80: _as_a_whole,  # AddRaftVoter
    81: _as_a_whole,  # RemoveRaftVoter
}
