"""FetchSnapshot (59): a follower reads a part of a metadata snapshot."""

from __future__ import annotations

from ottla.broker.api.forwarding import raft_api
from ottla.protocol.api_keys import ApiKey

API = raft_api(ApiKey.FETCH_SNAPSHOT)
