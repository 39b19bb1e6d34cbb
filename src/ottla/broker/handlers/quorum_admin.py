"""What administrators ask of the quorum: DescribeQuorum (55), AddRaftVoter (80), RemoveRaftVoter (81).

The quorum's leader answers. Clients ask any broker, which hands the request on; who asks a controller has
chosen it, and is told if it does not lead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.protocol.message import Message
from ottla.protocol.messages.describe_quorum_response import DescribeQuorumResponse
from ottla.protocol.uuids import ZERO_UUID

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.broker.connection import Request

API_KEYS = (55, 80, 81)
FIRST_VERSION_WITH_DIRECTORIES = 2


async def handle(broker: Broker, request: Request, message: Message) -> Message:
    if request.on_controller_listener:
        answer = await broker.quorum.request(message)
    else:
        answer = await broker.change(request, message)
    return fitted(answer, request.version)


def fitted(answer: Message, version: int) -> Message:
    """The answer as it can be written in that version: old ones have no place for where the voters are."""
    if isinstance(answer, DescribeQuorumResponse) and version < FIRST_VERSION_WITH_DIRECTORIES:
        _forget_directories(answer)
    return answer


def _forget_directories(answer: DescribeQuorumResponse) -> None:
    answer.nodes = []
    for topic in answer.topics:
        for partition in topic.partitions:
            for state in (*partition.current_voters, *partition.observers):
                state.replica_directory_id = ZERO_UUID
