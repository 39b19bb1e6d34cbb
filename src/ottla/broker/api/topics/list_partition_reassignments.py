"""ListPartitionReassignments (46): the replica moves in progress."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.api.forwarding import controller_api
from ottla.protocol.api_keys import ApiKey

if TYPE_CHECKING:
    from ottla.broker.api.declaration import DecisionContext
    from ottla.controller.controller import Controller
    from ottla.machines.outcome import Outcome
    from ottla.protocol.messages.list_partition_reassignments_request import ListPartitionReassignmentsRequest


def decide(
    controller: Controller, message: ListPartitionReassignmentsRequest, context: DecisionContext
) -> Outcome:
    return controller.decide_list_partition_reassignments(message, context.now_ms)


API = controller_api(ApiKey.LIST_PARTITION_REASSIGNMENTS, decide=decide)
