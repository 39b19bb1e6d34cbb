"""The quorum's own requests, between its nodes: the Raft machine answers all of them, in whatever role it is.

Fetch (1) is here the fetch of `__cluster_metadata` alone, and the machine refuses everything else. A fetch
that waits for news answers with a future, so that what comes behind it on the connection goes on.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ottla.protocol.message import Message

if TYPE_CHECKING:
    from ottla.broker.net.request import Request
    from ottla.broker.node import Node

API_KEYS = (
    1,  # Fetch
    52,  # Vote
    53,  # BeginQuorumEpoch
    54,  # EndQuorumEpoch
    59,  # FetchSnapshot
    82,  # UpdateRaftVoter
)


def handle(broker: Node, request: Request, message: Message) -> asyncio.Future[Message]:
    return broker.quorum.request(message)
