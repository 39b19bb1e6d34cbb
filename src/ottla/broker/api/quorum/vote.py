"""Vote (52): a candidate requests the vote of a voter."""

from __future__ import annotations

from ottla.broker.api.forwarding import raft_api
from ottla.protocol.api_keys import ApiKey

API = raft_api(ApiKey.VOTE)
