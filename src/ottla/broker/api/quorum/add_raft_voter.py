"""AddRaftVoter (80): add a controller to the voters of the quorum."""

from __future__ import annotations

from ottla.broker.api.forwarding import quorum_leader_api
from ottla.protocol.api_keys import ApiKey

API = quorum_leader_api(ApiKey.ADD_RAFT_VOTER)
