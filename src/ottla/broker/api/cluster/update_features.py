"""UpdateFeatures (57): raise or lower the feature levels of the cluster."""

from __future__ import annotations

from ottla.broker.api.forwarding import controller_api
from ottla.controller.cluster.update_features import decide_update_features
from ottla.protocol.api_keys import ApiKey

API = controller_api(ApiKey.UPDATE_FEATURES, decide=decide_update_features)
