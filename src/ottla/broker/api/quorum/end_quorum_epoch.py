"""EndQuorumEpoch (54): the leader of the quorum resigns."""

from __future__ import annotations

from ottla.broker.api.forwarding import raft_api
from ottla.protocol.api_keys import ApiKey

API = raft_api(ApiKey.END_QUORUM_EPOCH)
