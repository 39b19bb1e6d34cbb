"""What administrators ask of the quorum: DescribeQuorum (55), AddRaftVoter (80), RemoveRaftVoter (81).

The quorum's leader answers. Clients ask any broker, which hands the request on; who asks a controller has
chosen it, and is told if it does not lead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.api.fitting import fitted
from ottla.protocol.message import Message

if TYPE_CHECKING:
    from ottla.broker.net.request import Request
    from ottla.broker.node import Node

API_KEYS = (55, 80, 81)


async def handle(broker: Node, request: Request, message: Message) -> Message:
    if request.on_controller_listener:
        answer = await broker.quorum.request(message)
    else:
        answer = await broker.change(request, message)
    return fitted(answer, request.version)
