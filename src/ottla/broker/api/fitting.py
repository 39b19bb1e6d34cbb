"""Answers cut to what an old version of theirs can say."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from ottla.protocol.uuids import ZERO_UUID

if TYPE_CHECKING:
    from ottla.protocol.messages.describe_quorum_response import DescribeQuorumResponse

Answer = TypeVar("Answer", bound=Any)

ELECT_LEADERS, DESCRIBE_QUORUM = 43, 55
FIRST_ELECTION_WITH_ERROR = 1
FIRST_QUORUM_WITH_DIRECTORIES = 2


def fitted(answer: Answer, version: int) -> Answer:
    """The answer as it can be written in that version."""
    if answer.API_KEY == DESCRIBE_QUORUM and version < FIRST_QUORUM_WITH_DIRECTORIES:
        _forget_directories(answer)
    elif answer.API_KEY == ELECT_LEADERS and version < FIRST_ELECTION_WITH_ERROR:
        # It has no place for a refusal of all elections: it says, as Kafka's does, that none was held.
        answer.error_code = 0
    return answer


def _forget_directories(answer: DescribeQuorumResponse) -> None:
    answer.nodes = []
    for topic in answer.topics:
        for partition in topic.partitions:
            for state in (*partition.current_voters, *partition.observers):
                state.replica_directory_id = ZERO_UUID
