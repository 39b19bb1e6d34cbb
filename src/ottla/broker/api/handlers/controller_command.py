"""Everything that the active controller decides: topics, configurations, elections, reassignments, features,
and the life of brokers and controllers.

The broker does nothing about these requests but to carry them to the controller, which may be in this process
or elsewhere, and the answer back. What each means is in `ottla.controller`, one file per decision.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.api.fitting import fitted
from ottla.protocol.message import Message

if TYPE_CHECKING:
    from ottla.broker.net.request import Request
    from ottla.broker.node import Node

API_KEYS = (
    19,  # CreateTopics
    20,  # DeleteTopics
    33,  # AlterConfigs
    37,  # CreatePartitions
    43,  # ElectLeaders
    44,  # IncrementalAlterConfigs
    45,  # AlterPartitionReassignments
    46,  # ListPartitionReassignments
    56,  # AlterPartition
    57,  # UpdateFeatures
    62,  # BrokerRegistration
    64,  # UnregisterBroker
    67,  # AllocateProducerIds
    70,  # ControllerRegistration
    73,  # AssignReplicasToDirs
)


async def handle(broker: Node, request: Request, message: Message) -> Message:
    return fitted(await broker.change(request, message), request.version)
