"""UpdateRaftVoter (82): a voter reports its endpoints and versions."""

from __future__ import annotations

from ottla.broker.api.forwarding import raft_api
from ottla.protocol.api_keys import ApiKey

API = raft_api(ApiKey.UPDATE_RAFT_VOTER)
