"""The effects of a Raft machine. The shell carries out all effects of a step, in order, before the next step.

`Persist`, `Truncate`, `AppendControl` and `AppendFetched` must be complete before the next effect starts;
`Flushed` reports later that an append is on disk.
"""

from __future__ import annotations

from ottla.protocol.message import Message, Records
from ottla.protocol.messages.fetch_response import FetchResponse
from ottla.protocol.messages.fetch_snapshot_response import FetchSnapshotResponse
from ottla.quorum.quorum_state import QuorumState
from ottla.quorum.raft.voters import Endpoint, VoterSet
from ottla.quorum.snapshot import SnapshotId


class Effect:
    """Base class of the effects. Their repr shows all fields, for transcripts."""

    __slots__: tuple[str, ...] = ()

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__slots__)
        return f"{type(self).__name__}({fields})"


class Persist(Effect):
    """Write the quorum-state file durably before the next effect."""

    __slots__ = ("state",)

    def __init__(self, state: QuorumState) -> None:
        self.state = state


class Send(Effect):
    """Send a request to another node; ResponseReceived or RequestFailed has the same id.

    `node_id` is negative for a bootstrap server, whose id is not known: -2 is the first, -3 the second.
    """

    __slots__ = ("endpoint", "node_id", "request", "request_id")

    def __init__(self, request_id: int, node_id: int, endpoint: Endpoint, request: Message) -> None:
        self.request_id = request_id
        self.node_id = node_id
        self.endpoint = endpoint
        self.request = request


class Reply(Effect):
    """Send the complete response to the request of `token`."""

    __slots__ = ("response", "token")

    def __init__(self, token: object, response: Message) -> None:
        self.token = token
        self.response = response


class ReplyWithRecords(Effect):
    """Send a Fetch response; the shell adds the batches from `offset` on to its only partition.

    Everything that is written may be sent, flushed or not. The first batch may exceed `max_bytes`.
    """

    __slots__ = ("max_bytes", "offset", "response", "token")

    def __init__(self, token: object, response: FetchResponse, offset: int, max_bytes: int) -> None:
        self.token = token
        self.response = response
        self.offset = offset
        self.max_bytes = max_bytes


class ReplyWithSnapshot(Effect):
    """Send a FetchSnapshot response; the shell puts the bytes from `position` on into `unaligned_records`."""

    __slots__ = ("max_bytes", "position", "response", "snapshot_id", "token")

    def __init__(
        self,
        token: object,
        response: FetchSnapshotResponse,
        snapshot_id: SnapshotId,
        position: int,
        max_bytes: int,
    ) -> None:
        self.token = token
        self.response = response
        self.snapshot_id = snapshot_id
        self.position = position
        self.max_bytes = max_bytes


class AppendControl(Effect):
    """Append a control batch of the leader to the log, with offset and epoch set."""

    __slots__ = ("batch", "epoch")

    def __init__(self, batch: bytearray, epoch: int) -> None:
        self.batch = batch
        self.epoch = epoch


class AppendFetched(Effect):
    """Append the leader's batches unchanged (complete, checked, at the end of the log); then flush."""

    __slots__ = ("records",)

    def __init__(self, records: Records) -> None:
        self.records = records


class Truncate(Effect):
    """Drop everything from `offset` on."""

    __slots__ = ("offset",)

    def __init__(self, offset: int) -> None:
        self.offset = offset


class BeginSnapshot(Effect):
    """Create an empty temporary file for a snapshot to fetch; drop any other."""

    __slots__ = ("snapshot_id",)

    def __init__(self, snapshot_id: SnapshotId) -> None:
        self.snapshot_id = snapshot_id


class WriteSnapshot(Effect):
    """Append `data` at `position` (its current end) to the temporary file."""

    __slots__ = ("data", "position", "snapshot_id")

    def __init__(self, snapshot_id: SnapshotId, position: int, data: Records) -> None:
        self.snapshot_id = snapshot_id
        self.position = position
        self.data = data


class InstallSnapshot(Effect):
    """Check the complete file, rename it, start the log at its end, then send SnapshotInstalled."""

    __slots__ = ("snapshot_id",)

    def __init__(self, snapshot_id: SnapshotId) -> None:
        self.snapshot_id = snapshot_id


class BecameLeader(Effect):
    """This node leads in `epoch`. The controller may act once the high watermark is above `start_offset`,
    where the epoch begins, and everything below the high watermark is applied.
    """

    __slots__ = ("epoch", "start_offset")

    def __init__(self, epoch: int, start_offset: int) -> None:
        self.epoch = epoch
        self.start_offset = start_offset


class LostLeadership(Effect):
    """This node no longer leads; the outcome of its records above the high watermark is unknown."""

    __slots__ = ("epoch",)

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch


class LeaderChanged(Effect):
    """The leader known to this node (-1: unknown), and its endpoint."""

    __slots__ = ("endpoint", "epoch", "leader_id")

    def __init__(self, leader_id: int, epoch: int, endpoint: Endpoint | None) -> None:
        self.leader_id = leader_id
        self.epoch = epoch
        self.endpoint = endpoint


class HighWatermark(Effect):
    """Everything below `offset` is committed."""

    __slots__ = ("offset",)

    def __init__(self, offset: int) -> None:
        self.offset = offset


class VotersChanged(Effect):
    """The new voters, committed or not."""

    __slots__ = ("voters",)

    def __init__(self, voters: VoterSet) -> None:
        self.voters = voters


class ShutdownReady(Effect):
    """The leadership is handed over, or there was none: the node may stop."""

    __slots__ = ()
