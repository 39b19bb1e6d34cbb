"""UpdateFeatures (57): raise or lower the feature levels of the cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.api.forwarding import controller_api
from ottla.protocol.api_keys import ApiKey

if TYPE_CHECKING:
    from ottla.broker.api.declaration import DecisionContext
    from ottla.controller.controller import Controller
    from ottla.machines.outcome import Outcome
    from ottla.protocol.messages.update_features_request import UpdateFeaturesRequest


def decide(controller: Controller, message: UpdateFeaturesRequest, context: DecisionContext) -> Outcome:
    return controller.decide_update_features(message, context.now_ms)


API = controller_api(ApiKey.UPDATE_FEATURES, decide=decide)
