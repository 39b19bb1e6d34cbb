"""One partition of a coordinator's topic for as long as this broker leads it.

The log is read into a machine (`LOADING`); then (`ACTIVE`) requests and timers are decided by it at once. The
records of one turn of the loop go into the log together, and replies are given in order when everything that
the machine had decided until then is committed. A reply that has nothing to wait for is given on the spot.

What can go wrong:
- Somebody else leads: everybody who waits is told NOT_COORDINATOR.
- The log cannot be written: the machine is ahead of it and is given up; the coordinator makes another.
- The disk is full: nothing is lost, the write is tried again; new requests that write are refused meanwhile.
- Too few replicas are in sync: the same, and who waits for too long is told COORDINATOR_NOT_AVAILABLE.

Others than the shard write nothing into its log, but for the ends of transactions: see `append_marker`.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from ottla.broker.coordinators.writing import Encode, Ticket, Turn, build_batches
from ottla.protocol.errors import ErrorCode
from ottla.records.batch import CorruptBatch, RecordsError
from ottla.storage.errors import DiskFull, StorageError

if TYPE_CHECKING:
    from ottla.broker.replicas.partition import Partition

log = logging.getLogger("ottla.coordinators")

IDLE, LOADING, ACTIVE, ENDED = range(4)
NEVER_MS = 1 << 62
WAITING_MAX = 50_000  # requests of one shard that are not answered yet
WRITE_AGAIN_MS = 500
# A timer that comes so late was held up together with everything else, the heartbeats of members too: these
# are read first.
LATE_MS = 1000
LATE_GRACE_MS = 500
# The clock of the machine may be set. What is more than that, against the time that has passed, is a jump: a
# session may end so much too early.
JUMP_MS = 50


class Machine(Protocol):
    """The core of a shard: what `ottla.groups.shard.GroupShard` is. Outcomes are those of
    `ottla.groups.outcome`, or of `ottla.transactions.outcome`, which have markers too.

    One whose deadlines are spans of time has `clock_jumped(by_ms)`, and is told before it is asked anything.
    """

    def apply_bytes(
        self, key: bytes, value: bytes | None, timestamp_ms: int, producer_id: int = -1
    ) -> None: ...

    def apply_marker(self, producer_id: int, committed: bool) -> None: ...

    def loaded(self, now_ms: int) -> Any: ...

    def abandon(self, code: ErrorCode) -> list[tuple[Any, Any]]: ...

    @property
    def next_wake_ms(self) -> int | None: ...

    def tick(self, now_ms: int) -> Any: ...


# The machine, the ticket and the time; gives an outcome.
Decide = Callable[[Any, Ticket, int], Any]
Event = Callable[[Any, int], Any]


class Means:
    """What all shards of a coordinator are given."""

    __slots__ = (
        "clock",
        "codec",
        "encode",
        "hand_out",
        "make_machine",
        "shard_ended",
        "shard_failed",
        "shard_wakes",
        "write_timeout_ms",
    )

    def __init__(
        self,
        *,
        make_machine: Callable[[Partition], Machine],
        encode: Encode,
        clock: Callable[[], int],
        write_timeout_ms: int,
        codec: int = 0,
        shard_failed: Callable[[HostedShard], None],
        shard_wakes: Callable[[HostedShard], None],
        shard_ended: Callable[[HostedShard], None] = lambda _: None,
        hand_out: Callable[[HostedShard, list[Any]], None] = lambda *_: None,
    ) -> None:
        self.make_machine = make_machine
        self.encode = encode
        self.clock = clock
        self.write_timeout_ms = write_timeout_ms
        self.codec = codec  # of what it writes
        self.shard_failed = shard_failed  # it cannot go on, but may be made anew
        self.shard_wakes = shard_wakes  # it was idle, and has a log to load
        self.shard_ended = shard_ended
        self.hand_out = hand_out  # markers whose decision is committed


class HostedShard:
    __slots__ = (
        "_clock_jumped",
        "_clock_offset_ms",
        "_events",
        "_expiry",
        "_flush_soon",
        "_is_late",
        "_loop",
        "_machine",
        "_means",
        "_queue",
        "_retry",
        "_turn",
        "_unwritten",
        "_waiting",
        "_wake",
        "_wake_ms",
        "epoch",
        "partition",
        "state",
    )

    def __init__(self, partition: Partition, means: Means) -> None:
        self.partition = partition
        self.epoch = partition.leader_epoch
        self._means = means
        self._loop = asyncio.get_running_loop()
        self._machine: Any = None
        self._clock_jumped: Callable[[int], None] | None = None  # of the machine
        self._clock_offset_ms = 0.0  # of the clock to the loop's time, which only goes on
        # Without a single record there is nothing to load: most of many shards are never used.
        self.state = LOADING if self._has_records else IDLE
        self._queue: deque[Turn] = deque()  # decided and not yet released, in order
        self._unwritten: deque[Turn] = deque()  # the last of these: not yet in the log
        self._turn: Turn | None = None  # the one that is still open
        self._flush_soon: asyncio.Handle | None = None
        self._waiting = 0
        self._wake: asyncio.TimerHandle | None = None
        self._wake_ms = NEVER_MS
        self._is_late = False
        self._expiry: asyncio.TimerHandle | None = None
        self._retry: asyncio.TimerHandle | None = None
        self._events: list[Event] = []  # that came while it was loading

    def __repr__(self) -> str:
        state = ("idle", "loading", "active", "ended")[self.state]
        return f"HostedShard({self.partition.topic}-{self.partition.index}, epoch {self.epoch}, {state})"

    @property
    def _has_records(self) -> bool:
        return self.partition.log.log_end_offset > self.partition.log.log_start_offset

    # -- life

    async def load(self) -> None:
        """Read the log; what goes wrong is told to `shard_failed`."""
        from ottla.broker.coordinators.replay import Replay

        assert self.state == LOADING, self
        began = self._loop.time()
        try:
            machine = self._means.make_machine(self.partition)
            replay = Replay(self.partition.log, machine)
            while self.state == LOADING and replay.step():  # noqa: ASYNC110
                await asyncio.sleep(0)
        except Exception as error:
            expected = isinstance(error, StorageError | CorruptBatch)
            log.error("not loaded: partition=%s error=%s", self._name, error, exc_info=not expected)
            self._fail(ErrorCode.COORDINATOR_NOT_AVAILABLE)
            return
        if self.state == LOADING:
            took_ms = (self._loop.time() - began) * 1000
            log.info("loaded: partition=%s records=%d ms=%d", self._name, replay.records, took_ms)
            self._begin(machine)

    @property
    def _name(self) -> str:
        return f"{self.partition.topic}-{self.partition.index}"

    def _begin(self, machine: Machine) -> None:
        self._machine = machine
        self._clock_jumped = getattr(machine, "clock_jumped", None)
        self._clock_offset_ms = self._means.clock() - self._loop.time() * 1000
        self.state = ACTIVE
        self._add_barrier()
        self.event(lambda machine, now_ms: machine.loaded(now_ms))
        events, self._events = self._events, []
        for event in events:
            self.event(event)

    def _add_barrier(self) -> None:
        """What the machine knows from the log is not all committed: whoever sees it waits for that."""
        partition = self.partition
        end_offset = partition.log.log_end_offset
        if partition.high_watermark < end_offset:
            barrier = Turn(self._means.clock() + self._means.write_timeout_ms)
            barrier.end_offset = end_offset
            self._queue.append(barrier)
            partition.when_committed(end_offset, _Commit(self))

    def end(self, code: ErrorCode) -> None:
        """The shard is given up: whoever waits is told."""
        if self.state == ENDED:
            return
        machine, self._machine = self._machine, None
        self.state = ENDED
        for handle in (self._wake, self._expiry, self._retry, self._flush_soon):
            if handle is not None:
                handle.cancel()
        queue, self._queue = self._queue, deque()
        self._unwritten.clear()
        self._turn = None
        for turn in queue:
            self._refuse(turn, code)
        if machine is not None:
            for ticket, reply in machine.abandon(code):
                self._answer(ticket, reply)
        self._means.shard_ended(self)

    def _fail(self, code: ErrorCode) -> None:
        if self.state != ENDED:
            self.end(code)
            self._means.shard_failed(self)

    # -- decisions

    def submit(self, decide: Decide, refuse: Callable[[int], Any], *, writes: bool = True) -> Any:
        """The reply to a request, or a future of it. `refuse` makes the reply that tells an error."""
        machine = self._machine
        if machine is None:
            code = self._wake_up()
            if code:
                return refuse(code)
            machine = self._machine
        if writes and not self._may_write:
            return refuse(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        ticket = Ticket(refuse)
        now_ms = self._now_ms()
        try:
            outcome = decide(machine, ticket, now_ms)
        except Exception:
            # What it had done until then is in no log.
            log.exception("decision failed: partition=%s", self._name)
            self._fail(ErrorCode.COORDINATOR_NOT_AVAILABLE)
            return refuse(ErrorCode.UNKNOWN_SERVER_ERROR)
        wake_ms = machine.next_wake_ms
        if wake_ms is not None and wake_ms < self._wake_ms:
            self._arm(wake_ms, now_ms)
        if outcome.reply is not None and not (self._queue or outcome.records or outcome.replies):
            return outcome.reply
        ticket.future = self._loop.create_future()
        self._waiting += 1
        self._take(outcome, now_ms, ticket)
        return ticket.future

    def event(self, decide: Event) -> None:
        """Something has happened that nobody asked for; while the shard is loading it is kept for later."""
        machine = self._machine
        if machine is None:
            if self.state == LOADING:
                self._events.append(decide)
            return
        now_ms = self._now_ms()
        try:
            outcome = decide(machine, now_ms)
        except Exception:
            log.exception("decision failed: partition=%s", self._name)
            self._fail(ErrorCode.COORDINATOR_NOT_AVAILABLE)
            return
        wake_ms = machine.next_wake_ms
        if wake_ms is not None and wake_ms < self._wake_ms:
            self._arm(wake_ms, now_ms)
        if outcome.records or outcome.replies or outcome.effects:
            self._take(outcome, now_ms, None)

    @property
    def machine(self) -> Any:
        """The core, to look at; None unless the shard is active."""
        return self._machine

    def _wake_up(self) -> ErrorCode:
        """The shard is not active: why, or nothing if it is now."""
        if self.state == IDLE:
            if not self._has_records:
                self._begin(self._means.make_machine(self.partition))
                return ErrorCode.COORDINATOR_NOT_AVAILABLE if self._machine is None else ErrorCode.NONE
            self.state = LOADING  # somebody has written to its log
            self._means.shard_wakes(self)
        if self.state == LOADING:
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        return ErrorCode.COORDINATOR_NOT_AVAILABLE

    @property
    def _may_write(self) -> bool:
        if self.partition.is_under_min_isr:
            return False
        return self._retry is None and self._waiting < WAITING_MAX

    # -- from the decision to the reply

    def _take(self, outcome: Any, now_ms: int, ticket: Ticket | None) -> None:
        turn = self._turn
        if turn is None:
            turn = self._turn = Turn(now_ms + self._means.write_timeout_ms)
            self._queue.append(turn)
            self._unwritten.append(turn)
            if self._flush_soon is None:
                self._flush_soon = self._loop.call_soon(self._flush)
            if self._expiry is None:
                self._expiry = self._loop.call_later(self._means.write_timeout_ms / 1000, self._expire)
        if outcome.records:
            turn.add(outcome.records, outcome.producer)
        if ticket is not None and outcome.reply is not None:
            turn.replies.append((ticket, outcome.reply))
        turn.replies += outcome.replies
        if outcome.effects:
            turn.markers += outcome.effects

    def append_marker(self, batch: bytearray, producer_id: int, committed: bool) -> None:
        """The end of a producer's transaction, behind everything that was decided before it came.

        Raises RecordsError and StorageError; then it is not in the log.
        """
        if self._unwritten:
            if self._flush_soon is not None:
                self._flush_soon.cancel()
            self._flush()
            if self._unwritten:
                raise DiskFull(self._name, "what comes before the marker is not written yet")
        self.partition.append_internal(batch, self._means.clock())
        if self._machine is not None:
            self._machine.apply_marker(producer_id, committed)
            self._add_barrier()

    def _flush(self) -> None:
        """Write what was decided, in order."""
        self._flush_soon = self._retry = self._turn = None
        unwritten = self._unwritten
        try:
            while unwritten:
                turn = unwritten[0]
                self._write(turn)
                if self.state == ENDED:
                    return
                turn.end_offset = self.partition.log.log_end_offset
                unwritten.popleft()
        except DiskFull as error:
            log.error("disk full: partition=%s error=%s", self._name, error)
            self._retry = self._loop.call_later(WRITE_AGAIN_MS / 1000, self._flush)
        except (StorageError, RecordsError) as error:
            log.error("append failed: partition=%s error=%s", self._name, error)
            self._fail(ErrorCode.COORDINATOR_NOT_AVAILABLE)
            return
        self._release()
        if self._queue and self._queue[-1].end_offset >= 0:
            self.partition.when_committed(self._queue[-1].end_offset, _Commit(self))

    def _write(self, turn: Turn) -> None:
        partition, means = self.partition, self._means
        if not partition.is_leader:
            self.end(ErrorCode.NOT_COORDINATOR)
            return
        while turn.parts:
            producer, records = turn.parts[0]
            now_ms = means.clock()
            bytes_max = partition.rules.max_message_bytes
            batches = bytearray()
            for batch in build_batches(records, producer, means.encode, now_ms, bytes_max, means.codec):
                batches += batch
            partition.append_internal(batches, now_ms)  # all of it or nothing
            turn.parts.popleft()

    def _release(self) -> None:
        """Give the replies whose records are committed."""
        queue = self._queue
        high_watermark = self.partition.high_watermark
        while queue and 0 <= queue[0].end_offset <= high_watermark:
            turn = queue.popleft()
            for ticket, reply in turn.replies:
                self._answer(ticket, reply)
            if turn.markers:
                self._means.hand_out(self, turn.markers)

    def _answer(self, ticket: Ticket, reply: Any) -> None:
        self._waiting -= 1
        if not ticket.future.done():  # who asked may have left
            ticket.future.set_result(reply)

    def _refuse(self, turn: Turn, code: ErrorCode) -> None:
        replies, turn.replies = turn.replies, []
        for ticket, _ in replies:
            self._answer(ticket, ticket.refuse(code))

    def commit_failed(self, error: BaseException) -> None:
        code = getattr(error, "code", ErrorCode.KAFKA_STORAGE_ERROR)
        if code == ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND:
            self._release()  # it is committed all the same
        elif isinstance(error, RecordsError):
            self.end(ErrorCode.NOT_COORDINATOR)  # the partition is gone, or led elsewhere
        else:
            log.error("commit failed: partition=%s error=%s", self._name, error)
            self._fail(ErrorCode.COORDINATOR_NOT_AVAILABLE)

    def committed(self) -> None:
        self._release()

    def _expire(self) -> None:
        """Nobody waits for a commit for longer than that; the record may still become committed."""
        self._expiry = None
        now_ms = self._means.clock()
        for turn in self._queue:
            if turn.deadline_ms > now_ms:
                break
            self._refuse(turn, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        if self._queue:
            self._expiry = self._loop.call_later(self._means.write_timeout_ms / 1000, self._expire)

    # -- time

    def _now_ms(self) -> int:
        now_ms = self._means.clock()
        if self._clock_jumped is not None:
            offset_ms = now_ms - self._loop.time() * 1000
            jump_ms = round(offset_ms - self._clock_offset_ms)
            self._clock_offset_ms = offset_ms
            if abs(jump_ms) > JUMP_MS:
                if abs(jump_ms) > LATE_MS:
                    log.warning("the clock was set: partition=%s by_ms=%d", self._name, jump_ms)
                self._clock_jumped(jump_ms)
                if self._wake_ms != NEVER_MS:
                    self._wake_ms += jump_ms
        return now_ms

    def _arm(self, wake_ms: int, now_ms: int) -> None:
        if self._wake is not None:
            self._wake.cancel()
        self._wake_ms = wake_ms
        self._wake = self._loop.call_later(max(1, wake_ms - now_ms) / 1000, self._tick)

    def _tick(self) -> None:
        now_ms = self._now_ms()
        was_late, self._is_late = self._is_late, now_ms - self._wake_ms > LATE_MS
        if (self._is_late and not was_late) or not self._may_write:
            self._wake = self._loop.call_later(LATE_GRACE_MS / 1000, self._tick)
            return
        self._is_late = False
        self._wake, self._wake_ms = None, NEVER_MS
        self.event(lambda machine, now_ms: machine.tick(now_ms))


class _Commit:
    """Waits for the partition on behalf of a shard."""

    __slots__ = ("_shard",)

    def __init__(self, shard: HostedShard) -> None:
        self._shard = shard

    def done(self) -> bool:
        return self._shard.state == ENDED

    def set_result(self, result: None, /) -> None:
        self._shard.committed()

    def set_exception(self, error: BaseException, /) -> None:
        self._shard.commit_failed(error)
