"""AlterPartition (56): a leader changes the in-sync replicas of its partitions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.api.forwarding import controller_api
from ottla.protocol.api_keys import ApiKey

if TYPE_CHECKING:
    from ottla.broker.api.declaration import DecisionContext
    from ottla.controller.controller import Controller
    from ottla.machines.outcome import Outcome
    from ottla.protocol.messages.alter_partition_request import AlterPartitionRequest


def decide(controller: Controller, message: AlterPartitionRequest, context: DecisionContext) -> Outcome:
    return controller.decide_alter_partition(message, context.now_ms)


API = controller_api(ApiKey.ALTER_PARTITION, decide=decide)
