"""RemoveRaftVoter (81): remove a controller from the voters of the quorum."""

from __future__ import annotations

from ottla.broker.api.forwarding import quorum_leader_api
from ottla.protocol.api_keys import ApiKey

API = quorum_leader_api(ApiKey.REMOVE_RAFT_VOTER)
