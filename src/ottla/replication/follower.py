"""A partition on one of its followers: what to request from the leader, and what to do with the responses.

The rules:

1.  A follower fetches at its own log end and names the epoch of its last record. Only the response to that
    request counts: the caller (`fetch_plan.py`) drops responses to requests from before a truncation or
    a change of the epoch.
2.  The leader's response is one of
    - records (or none): APPEND, then call `appended`. High watermark = min(leader's, own log end), and it
      only rises: committed records stay committed. The log start follows the leader's.
    - a diverging epoch: truncate the log where the two diverge (`divergence.py`) and continue fetching.
    - OFFSET_OUT_OF_RANGE: list the leader's start and end (`offsets_answered`). Longer than the leader's
      log (only after an unclean election): truncate to its end. Ends before the leader's start: restart
      there.
    - FENCED_LEADER_EPOCH: the leader is newer than we know: stop until new metadata (`new_leader`).
    - any other error: wait, shortly at first (the leader may be about to apply the same metadata), twice as
      long each time, up to replica.fetch.backoff.ms.
3.  With a flush policy, appended records go to the disk before the next fetch claims to have them
    (`wait_for_flush`, `flush_done`).
4.  A log that cannot be written stops the follower; a corrupt batch is fetched again after a wait.

Events return one instruction. Truncations must be carried out before the next event: the machine reads the
log through a view.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.protocol.errors import ErrorCode
from ottla.protocol.message import Value
from ottla.replication.divergence import NO_EPOCH, truncation_point

if TYPE_CHECKING:
    from ottla.protocol.messages.fetch_response import PartitionData
    from ottla.replication.divergence import LogView

BACKOFF_MS_MIN = 20

# Phases.
FETCHING = 0  # to be in the next fetch
LISTING_OFFSETS = 1  # waits for ListOffsets of the leader
DELAYED = 2  # waits until `retry_at_ms`
STOPPED = 3  # waits for new metadata
FLUSHING = 4  # waits for a flush: the next fetch tells the leader that everything appended is durable

_RETRIABLE_APPEND = frozenset((ErrorCode.CORRUPT_MESSAGE, ErrorCode.INVALID_RECORD))


class Instruction(Value):
    """What the shell has to do."""

    __slots__: tuple[str, ...] = ()

    def __repr__(self) -> str:
        fields = ", ".join(str(getattr(self, name)) for name in self.__slots__)
        return f"{type(self).__name__}({fields})"


class Append(Instruction):
    """Append the answer's records (if any) as a follower, then call `appended`."""

    __slots__ = ()


class Fetch(Instruction):
    """Be in the next fetch; there is nothing else to do."""

    __slots__ = ()


class TruncateTo(Instruction):
    """Drop everything from `offset` on (`PartitionLog.truncate_to`), and continue fetching."""

    __slots__ = ("offset",)

    def __init__(self, offset: int) -> None:
        self.offset = offset


class TruncateFullyAndStartAt(Instruction):
    """Drop everything; the next record is at `offset`. Continue fetching."""

    __slots__ = ("offset",)

    def __init__(self, offset: int) -> None:
        self.offset = offset


class AdvanceLogStart(Instruction):
    """Everything below `offset` was deleted at the leader."""

    __slots__ = ("offset",)

    def __init__(self, offset: int) -> None:
        self.offset = offset


class ListLeaderOffsets(Instruction):
    """Send ListOffsets for the earliest (-2) and the latest (-1) offset as a replica, then
    `offsets_answered`.
    """

    __slots__ = ("leader_epoch",)

    def __init__(self, leader_epoch: int) -> None:
        self.leader_epoch = leader_epoch


class DelayUntil(Instruction):
    """Leave the partition out of fetches until `at_ms`."""

    __slots__ = ("at_ms",)

    def __init__(self, at_ms: int) -> None:
        self.at_ms = at_ms


class Stop(Instruction):
    """Leave the partition out of fetches until metadata has changed."""

    __slots__ = ()


APPEND = Append()
FETCH = Fetch()
STOP = Stop()


class FollowerState:
    """One partition for as long as this node follows; `new_leader` carries it from one leader to the next."""

    __slots__ = (
        "_delay_ms",
        "backoff_ms_max",
        "high_watermark",
        "in_isr",
        "leader_epoch",
        "leader_id",
        "log",
        "phase",
        "retry_at_ms",
    )

    def __init__(
        self,
        log: LogView,
        leader_id: int,
        leader_epoch: int,
        high_watermark: int,
        *,
        in_isr: bool = False,
        backoff_ms_max: int = 1000,
    ) -> None:
        self.log = log
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch
        self.high_watermark = min(max(high_watermark, log.log_start_offset), log.log_end_offset)
        self.in_isr = in_isr  # as the metadata say; members are not throttled: the leader waits for them
        self.backoff_ms_max = backoff_ms_max
        self.phase = FETCHING
        self.retry_at_ms = 0
        self._delay_ms = 0

    def __repr__(self) -> str:
        return (
            f"FollowerState(of {self.leader_id} in epoch {self.leader_epoch}, phase {self.phase},"
            f" end {self.log.log_end_offset}, high watermark {self.high_watermark})"
        )

    @property
    def fetch_offset(self) -> int:
        return self.log.log_end_offset

    @property
    def last_fetched_epoch(self) -> int:
        """The epoch of the log's last record, -1 for an empty log.

        Not the latest epoch of the cache: a leader that wrote nothing has an entry there, but no record that
        could diverge.
        """
        log = self.log
        end_offset = log.log_end_offset
        if end_offset == log.log_start_offset:
            return NO_EPOCH
        return log.leader_epochs.epoch_for_offset(end_offset - 1)

    def next_step(self) -> Instruction:
        """What this follower waits for now, as an instruction."""
        if self.phase == FETCHING:
            return FETCH
        if self.phase == DELAYED:
            return DelayUntil(self.retry_at_ms)
        if self.phase == LISTING_OFFSETS:
            return ListLeaderOffsets(self.leader_epoch)
        return FETCH if self.phase == FLUSHING else STOP

    # -- events

    def new_leader(self, leader_id: int, leader_epoch: int, in_isr: bool = False) -> Instruction:
        """Apply the leader from the metadata; if the epoch is unchanged, only the ISR is updated."""
        self.in_isr = in_isr
        if leader_epoch > self.leader_epoch:
            self.leader_id = leader_id
            self.leader_epoch = leader_epoch
            self._delay_ms = 0
            if self.phase != FLUSHING:
                self.phase = FETCHING
        return self.next_step()

    def due(self, now_ms: int) -> Instruction:
        """The delay may be over."""
        if self.phase == DELAYED and now_ms >= self.retry_at_ms:
            self.phase = FETCHING
        return self.next_step()

    def answered(self, data: PartitionData, now_ms: int) -> Instruction:
        """The leader's answer to the fetch at the log's present end, in the present leader epoch."""
        error_code = data.error_code
        if error_code == ErrorCode.NONE:
            diverging = data.diverging_epoch
            self._delay_ms = 0
            if diverging.end_offset >= 0:
                return self._truncate(diverging.epoch, diverging.end_offset)
            return APPEND
        if error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            if self.last_fetched_epoch > self.leader_epoch:
                # No leader has written that. The checksum does not cover the epoch: a damaged one may get
                # through the recovery of a log, and the leader has nothing to compare it with.
                return self._truncate(self.leader_epoch, self.log.log_end_offset)
            self.phase = LISTING_OFFSETS
            return ListLeaderOffsets(self.leader_epoch)
        return self._error(error_code, now_ms)

    def appended(self, leader_high_watermark: int, leader_log_start_offset: int) -> AdvanceLogStart | None:
        """The answer's records are in the log."""
        committed = min(leader_high_watermark, self.log.log_end_offset)
        self.high_watermark = max(self.high_watermark, committed)
        start_offset = min(leader_log_start_offset, self.high_watermark)
        return AdvanceLogStart(start_offset) if start_offset > self.log.log_start_offset else None

    def wait_for_flush(self) -> None:
        """The last append is not flushed yet: no fetch until `flush_done`."""
        assert self.phase == FETCHING, self.phase
        self.phase = FLUSHING

    def flush_done(self) -> bool:
        """Everything appended is on disk; False if the follower did not wait for it."""
        if self.phase != FLUSHING:
            return False
        self.phase = FETCHING
        return True

    def append_failed(self, error_code: int, now_ms: int, *, is_retriable: bool = False) -> Instruction:
        """The records could not be appended: they are corrupt, or the write failed. `is_retriable`: the disk
        is full, and may have space later."""
        if is_retriable or error_code in _RETRIABLE_APPEND:
            return self._delay(now_ms)
        self.phase = STOPPED
        return STOP

    def offsets_answered(
        self, error_code: int, leader_start_offset: int, leader_end_offset: int, now_ms: int
    ) -> Instruction:
        """The answer to ListLeaderOffsets."""
        if self.phase != LISTING_OFFSETS:
            return self.next_step()
        if error_code != ErrorCode.NONE:
            return self._error(error_code, now_ms)
        self.phase = FETCHING
        if leader_end_offset < self.log.log_end_offset:
            return self._truncate_at(leader_end_offset)
        if leader_start_offset > self.log.log_end_offset:
            self.high_watermark = leader_start_offset
            return TruncateFullyAndStartAt(leader_start_offset)
        # In range by now: the leader's log has changed. The delay prevents a loop.
        return self._delay(now_ms)

    def connection_lost(self, now_ms: int) -> None:
        """The connection ended: other requests than fetches will not be answered."""
        if self.phase == LISTING_OFFSETS:
            self._delay(now_ms)

    # -- inside

    def _truncate(self, epoch: int, end_offset: int) -> Instruction:
        return self._truncate_at(truncation_point(self.log, epoch, end_offset, self.high_watermark))

    def _truncate_at(self, offset: int) -> Instruction:
        self.high_watermark = min(self.high_watermark, offset)
        if offset < self.log.log_start_offset:
            return TruncateFullyAndStartAt(offset)
        return TruncateTo(offset)

    def _error(self, error_code: int, now_ms: int) -> Instruction:
        if error_code == ErrorCode.FENCED_LEADER_EPOCH:
            self.phase = STOPPED
            return STOP
        return self._delay(now_ms)

    def _delay(self, now_ms: int) -> Instruction:
        self._delay_ms = min(max(2 * self._delay_ms, BACKOFF_MS_MIN), self.backoff_ms_max)
        self.phase = DELAYED
        self.retry_at_ms = now_ms + self._delay_ms
        return DelayUntil(self.retry_at_ms)
