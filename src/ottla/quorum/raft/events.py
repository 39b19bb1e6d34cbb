"""What can happen to a Raft machine. Each is handed to `RaftMachine.step` with the time it happened at."""

from __future__ import annotations

from ottla.protocol.message import Message
from ottla.quorum.raft.voters import VoterSet
from ottla.quorum.snapshot import SnapshotId


class Event:
    """Any of the classes below."""

    __slots__ = ()


class Tick(Event):
    """Time has passed: `next_wake_ms` is reached. Also the first event of all."""

    __slots__ = ()


class RequestReceived(Event):
    """A request of another node. `token` comes back in the Reply; it must be hashable and used once.

    Taken are VoteRequest, BeginQuorumEpochRequest, EndQuorumEpochRequest, FetchRequest (of the metadata topic
    and nothing else), FetchSnapshotRequest, DescribeQuorumRequest, AddRaftVoterRequest,
    RemoveRaftVoterRequest and UpdateRaftVoterRequest.
    """

    __slots__ = ("request", "token")

    def __init__(self, token: object, request: Message) -> None:
        self.token = token
        self.request = request


class RequestAbandoned(Event):
    """The sender of this request is gone: nothing needs to be kept for it any more."""

    __slots__ = ("token",)

    def __init__(self, token: object) -> None:
        self.token = token


class ResponseReceived(Event):
    """The answer to a `Send`, whose id it carries. Late and doubled answers are harmless."""

    __slots__ = ("request_id", "response")

    def __init__(self, request_id: int, response: Message) -> None:
        self.request_id = request_id
        self.response = response


class RequestFailed(Event):
    """A `Send` gets no answer: no connection, or it broke, or the answer could not be read.

    `disconnected` says that the peer's machine answered for it (refused, reset, closed) as happens when a
    process dies; silence is no sign of that.
    """

    __slots__ = ("disconnected", "request_id")

    def __init__(self, request_id: int, *, disconnected: bool = False) -> None:
        self.request_id = request_id
        self.disconnected = disconnected


class LocalAppended(Event):
    """The shell of the leader has written records of its own to the log."""

    __slots__ = ()


class Flushed(Event):
    """`flushed_offset` of the log has moved (or what had to be flushed is gone)."""

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
    """The snapshot that was being fetched cannot be used; it is fetched again from its beginning."""

    __slots__ = ()


class Resign(Event):
    """The active controller cannot continue: the machine resigns the leadership of `epoch`, if it has it."""

    __slots__ = ("epoch",)

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch


class Shutdown(Event):
    """The node is stopping. A leader first hands over: `ShutdownReady` reports that it may stop."""

    __slots__ = ()
