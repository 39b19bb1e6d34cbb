"""The events of a Raft machine. Each is passed to `RaftMachine.step` with its time."""

from __future__ import annotations

from ottla.protocol.message import Message
from ottla.quorum.raft.voters import VoterSet
from ottla.quorum.snapshot import SnapshotId


class Event:
    """Base class of the events."""

    __slots__ = ()


class Tick(Event):
    """`next_wake_ms` is reached. Also the first event of all."""

    __slots__ = ()


class RequestReceived(Event):
    """A request of another node. The Reply returns `token`, which must be hashable and unique.

    Supported are VoteRequest, BeginQuorumEpochRequest, EndQuorumEpochRequest, FetchRequest (of the metadata
    topic alone), FetchSnapshotRequest, DescribeQuorumRequest, AddRaftVoterRequest,
    RemoveRaftVoterRequest and UpdateRaftVoterRequest.
    """

    __slots__ = ("request", "token")

    def __init__(self, token: object, request: Message) -> None:
        self.token = token
        self.request = request


class RequestAbandoned(Event):
    """The sender of this request has disconnected: drop its state."""

    __slots__ = ("token",)

    def __init__(self, token: object) -> None:
        self.token = token


class ResponseReceived(Event):
    """The response to a `Send`, with the same id. Late and duplicate responses are harmless."""

    __slots__ = ("request_id", "response")

    def __init__(self, request_id: int, response: Message) -> None:
        self.request_id = request_id
        self.response = response


class RequestFailed(Event):
    """A `Send` gets no response: no connection, a lost connection, or an invalid response.

    `disconnected`: the peer's host refused, reset or closed the connection, as happens when a process ends. A
    time-out does not count.
    """

    __slots__ = ("disconnected", "request_id")

    def __init__(self, request_id: int, *, disconnected: bool = False) -> None:
        self.request_id = request_id
        self.disconnected = disconnected


class LocalAppended(Event):
    """The leader's shell has written records to the log."""

    __slots__ = ()


class Flushed(Event):
    """`flushed_offset` of the log has changed (or the records to flush were truncated)."""

    __slots__ = ()


class SnapshotInstalled(Event):
    """The snapshot of an `InstallSnapshot` is durable, and the log begins and ends at its end.

    `kraft_version` and `voters` are in the first batch of a snapshot of a dynamic quorum.
    """

    __slots__ = ("kraft_version", "snapshot_id", "voters")

    def __init__(
        self, snapshot_id: SnapshotId, *, kraft_version: int = 0, voters: VoterSet | None = None
    ) -> None:
        self.snapshot_id = snapshot_id
        self.kraft_version = kraft_version
        self.voters = voters


class SnapshotFailed(Event):
    """The fetched snapshot is unusable; it is fetched again from its beginning."""

    __slots__ = ()


class Resign(Event):
    """The active controller cannot continue: resign the leadership of `epoch`, if this node has it."""

    __slots__ = ("epoch",)

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch


class Shutdown(Event):
    """The node is stopping. A leader hands over first; `ShutdownReady` reports that the node may stop."""

    __slots__ = ()
