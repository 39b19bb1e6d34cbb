"""DescribeQuorum (55): the leader, voters and observers of the metadata quorum, and their offsets."""

from __future__ import annotations

from ottla.broker.api.forwarding import quorum_leader_api
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages.describe_quorum_response import DescribeQuorumResponse
from ottla.protocol.uuids import ZERO_UUID
from ottla.protocol.versions import DESCRIBE_QUORUM_DIRECTORIES_SINCE


def adapt(response: DescribeQuorumResponse, version: int) -> None:
    """Old versions have no directory ids and no nodes."""
    if version >= DESCRIBE_QUORUM_DIRECTORIES_SINCE:
        return
    response.nodes = []
    for topic in response.topics:
        for partition in topic.partitions:
            for state in (*partition.current_voters, *partition.observers):
                state.replica_directory_id = ZERO_UUID


API = quorum_leader_api(ApiKey.DESCRIBE_QUORUM, adapt=adapt)
