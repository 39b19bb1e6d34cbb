"""The configuration of a Raft machine."""

from __future__ import annotations

from collections.abc import Sequence

from ottla.protocol.uuids import ZERO_UUID
from ottla.quorum.quorum_state import QuorumState
from ottla.quorum.raft.voters import NO_VOTERS, Endpoint, VoterHistory, VoterSet

KRAFT_VERSION_MAX = 1


class RaftConfig:
    """This node, the nodes it can contact, and its time-outs. Defaults are Kafka's."""

    __slots__ = (
        "bootstrap",
        "can_vote",
        "cluster_id",
        "directory_id",
        "disconnect_grace_ms",
        "election_backoff_max_ms",
        "election_timeout_ms",
        "fetch_max_bytes",
        "fetch_max_wait_ms",
        "fetch_timeout_ms",
        "listeners",
        "node_id",
        "request_timeout_ms",
        "retry_backoff_ms",
        "snapshot_chunk_bytes",
        "static_voters",
    )

    def __init__(
        self,
        *,
        node_id: int,
        cluster_id: str,
        directory_id: bytes = ZERO_UUID,
        can_vote: bool = True,
        static_voters: VoterSet = NO_VOTERS,
        bootstrap: Sequence[Endpoint] = (),
        listeners: Sequence[Endpoint] = (),
        election_timeout_ms: int = 1000,
        election_backoff_max_ms: int = 1000,
        fetch_timeout_ms: int = 2000,
        request_timeout_ms: int = 2000,
        retry_backoff_ms: int = 20,
        fetch_max_wait_ms: int = 500,
        fetch_max_bytes: int = 8 * 1024 * 1024,
        snapshot_chunk_bytes: int = 1024 * 1024,
        disconnect_grace_ms: int | None = None,
    ) -> None:
        """`can_vote`: process.roles has controller; only then the node may become a voter.

        `static_voters` is controller.quorum.voters, `bootstrap` controller.quorum.bootstrap.servers,
        `listeners` where this node's controller is reached. `disconnect_grace_ms`: if the process of the
        leader has ended (see RequestFailed), an election starts after this time instead of
        `fetch_timeout_ms`; None: never.
        """
        self.node_id = node_id
        self.cluster_id = cluster_id
        self.directory_id = directory_id
        self.can_vote = can_vote
        self.static_voters = static_voters
        self.bootstrap = tuple(bootstrap)
        self.listeners = tuple(listeners)
        self.election_timeout_ms = election_timeout_ms
        self.election_backoff_max_ms = election_backoff_max_ms
        self.fetch_timeout_ms = fetch_timeout_ms
        self.request_timeout_ms = request_timeout_ms
        self.retry_backoff_ms = retry_backoff_ms
        # A long poll of a voter must end well within the fetch timeout.
        self.fetch_max_wait_ms = min(fetch_max_wait_ms, fetch_timeout_ms // 2)
        self.fetch_max_bytes = fetch_max_bytes
        self.snapshot_chunk_bytes = snapshot_chunk_bytes
        self.disconnect_grace_ms = disconnect_grace_ms


class RaftState:
    """Durable state of an earlier run: the quorum-state file, and the voters in the log."""

    __slots__ = ("quorum_state", "voters")

    def __init__(self, quorum_state: QuorumState | None = None, voters: VoterHistory | None = None) -> None:
        self.quorum_state = quorum_state
        self.voters = voters
