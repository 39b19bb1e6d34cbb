"""BeginQuorumEpoch (53): a new leader of the quorum announces itself."""

from __future__ import annotations

from ottla.broker.api.forwarding import raft_api
from ottla.protocol.api_keys import ApiKey

API = raft_api(ApiKey.BEGIN_QUORUM_EPOCH)
