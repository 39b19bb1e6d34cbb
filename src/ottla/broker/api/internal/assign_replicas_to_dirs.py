"""AssignReplicasToDirs (73): a broker reports the log directories of its replicas."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.api.forwarding import controller_api
from ottla.protocol.api_keys import ApiKey

if TYPE_CHECKING:
    from ottla.broker.api.declaration import DecisionContext
    from ottla.controller.controller import Controller
    from ottla.machines.outcome import Outcome
    from ottla.protocol.messages.assign_replicas_to_dirs_request import AssignReplicasToDirsRequest


def decide(controller: Controller, message: AssignReplicasToDirsRequest, context: DecisionContext) -> Outcome:
    return controller.decide_assign_replicas_to_dirs(message, context.now_ms)


API = controller_api(ApiKey.ASSIGN_REPLICAS_TO_DIRS, decide=decide)
