"""One partition of a coordinator's topic, for as long as this broker leads it.

    IDLE --first request--> ACTIVE           a log without records: most of many shards are never used
    LOADING --log replayed--> ACTIVE         requests are answered COORDINATOR_LOAD_IN_PROGRESS until then
    any --leadership lost, failure--> ENDED  the coordinator builds another shard

An active shard decides requests and timers at once; its `MachineHost` appends the records and replies when
they are committed. Failures:

- Another broker leads: waiting requests are answered NOT_COORDINATOR.
- The log cannot be written: the machine is ahead of its log. The shard ends and is rebuilt from the log.
- The disk is full: nothing is lost and the append is retried; meanwhile requests that write are refused.
- Too few replicas are in sync: the same; a request that waits too long gets COORDINATOR_NOT_AVAILABLE.

Only the shard writes to its log, apart from transaction markers: see `append_marker`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from ottla.broker.coordinators.replies import Refuse, Reply, Result
from ottla.broker.coordinators.shard_log import Encode, ShardLog
from ottla.broker.hosting.host import MachineHost
from ottla.broker.hosting.machine_clock import MachineClock
from ottla.broker.hosting.machine_log import NotLeader
from ottla.machines.outcome import Outcome, RequestContext, Token
from ottla.protocol.errors import ErrorCode
from ottla.records.batch import CorruptBatch, RecordsError
from ottla.storage.errors import DiskFull, StorageError

if TYPE_CHECKING:
    from ottla.broker.replicas.partition import Partition

log = logging.getLogger("ottla.coordinators")

IDLE, LOADING, ACTIVE, ENDED = range(4)
WAITING_MAX = 50_000  # requests of one shard without a reply
DISK_FULL_RETRY_MS = 500


class Machine(Protocol):
    """A machine that a shard hosts, such as `ottla.groups.shard.GroupShard`.

    A machine whose deadlines are spans of time also has `clock_jumped(by_ms)`.
    """

    def apply_bytes(
        self, key: bytes, value: bytes | None, timestamp_ms: int, producer_id: int = -1
    ) -> None: ...

    def apply_marker(self, producer_id: int, committed: bool) -> None: ...

    def loaded(self, now_ms: int) -> Outcome: ...

    def abandon(self, code: ErrorCode) -> list[tuple[Token, Any]]: ...

    @property
    def next_wake_ms(self) -> int | None: ...

    def tick(self, now_ms: int) -> Outcome: ...


# Machine and time.
Decide = Callable[[Any, int], Outcome]


class ShardSettings:
    """Settings and callbacks shared by all shards of a coordinator."""

    __slots__ = (
        "clock",
        "codec",
        "encode",
        "make_machine",
        "monotonic_ms",
        "on_effects",
        "on_ended",
        "on_failed",
        "on_records_found",
        "write_timeout_ms",
    )

    def __init__(
        self,
        *,
        make_machine: Callable[[Partition], Machine],
        encode: Encode,
        clock: Callable[[], int],
        monotonic_ms: Callable[[], int],
        write_timeout_ms: int,
        on_failed: Callable[[HostedShard], None],
        on_records_found: Callable[[HostedShard], None],
        on_ended: Callable[[HostedShard], None] = lambda _: None,
        on_effects: Callable[[HostedShard, list[Any]], None] = lambda *_: None,
        codec: int = 0,
    ) -> None:
        self.make_machine = make_machine
        self.encode = encode
        self.clock = clock  # the wall clock
        self.monotonic_ms = monotonic_ms
        self.write_timeout_ms = write_timeout_ms
        self.codec = codec  # of the records that it appends
        self.on_failed = on_failed  # ended by a failure: it may be rebuilt
        self.on_records_found = on_records_found  # was idle, and now has a log to load
        self.on_ended = on_ended
        self.on_effects = on_effects  # their decision is committed


class CoordinatorRequest:
    """A request that waits for its reply; its token in the machine."""

    __slots__ = ("_refusal", "future")

    def __init__(self, refusal: Refuse[Any]) -> None:
        self._refusal = refusal
        self.future: Any = None

    def answer(self, reply: Any, /) -> None:
        if not self.future.done():  # the client may have disconnected
            self.future.set_result(reply)

    def refuse(self, code: ErrorCode, /) -> None:
        self.answer(self._refusal(code))


class HostedShard:
    __slots__ = (
        "_clock",
        "_events",
        "_host",
        "_log",
        "_loop",
        "_machine",
        "_settings",
        "epoch",
        "partition",
        "state",
    )

    def __init__(self, partition: Partition, settings: ShardSettings) -> None:
        self.partition = partition
        self.epoch = partition.leader_epoch
        self._settings = settings
        self._loop = asyncio.get_running_loop()
        self._log = ShardLog(partition, settings.encode, settings.clock, settings.codec)
        self.state = LOADING if self._log.has_records else IDLE
        self._machine: Any = None
        self._host = MachineHost(
            self._log,
            monotonic_ms=settings.monotonic_ms,
            on_append_error=self._append_failed,
            on_commit_error=self._commit_failed,
            on_effects=self._effects_committed,
            write_timeout_ms=settings.write_timeout_ms,
            disk_full_retry_ms=DISK_FULL_RETRY_MS,
        )
        self._clock = MachineClock(
            settings.clock, name=self._name, may_run=self._may_write, wake=self._timer_due
        )
        self._events: list[Decide] = []  # that came during loading

    def __repr__(self) -> str:
        state = ("idle", "loading", "active", "ended")[self.state]
        return f"HostedShard({self._name}, epoch {self.epoch}, {state})"

    @property
    def _name(self) -> str:
        return f"{self.partition.topic}-{self.partition.index}"

    @property
    def machine(self) -> Any:
        """The machine, to read from; None unless the shard is active."""
        return self._machine

    # -- loading and ending

    async def load(self) -> None:
        """Replay the log; failures go to `on_failed`."""
        from ottla.broker.coordinators.replay import Replay

        assert self.state == LOADING, self
        began = self._loop.time()
        try:
            machine = self._settings.make_machine(self.partition)
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
            self._activate(machine)

    def _activate(self, machine: Machine) -> None:
        self._machine = machine
        self._clock.start(getattr(machine, "clock_jumped", None))
        self.state = ACTIVE
        self._host.add_barrier()  # the end of the log may not be committed yet
        self.event(lambda machine, now_ms: machine.loaded(now_ms))
        events, self._events = self._events, []
        for event in events:
            self.event(event)

    def _activate_or_refuse(self) -> ErrorCode:
        """Activate an idle shard; else return the error for the client."""
        if self.state == IDLE:
            if not self._log.has_records:
                self._activate(self._settings.make_machine(self.partition))
                return ErrorCode.COORDINATOR_NOT_AVAILABLE if self._machine is None else ErrorCode.NONE
            self.state = LOADING  # a marker was written to its log
            self._settings.on_records_found(self)
        if self.state == LOADING:
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        return ErrorCode.COORDINATOR_NOT_AVAILABLE

    def end(self, code: ErrorCode) -> None:
        """Drop the machine; refuse all waiting requests."""
        if self.state == ENDED:
            return
        machine, self._machine = self._machine, None
        self.state = ENDED
        self._clock.stop()
        self._host.close(code)
        if machine is not None:
            for request, reply in machine.abandon(code):
                self._host.waiting -= 1
                request.answer(reply)
        self._settings.on_ended(self)

    def _fail(self, code: ErrorCode) -> None:
        if self.state != ENDED:
            self.end(code)
            self._settings.on_failed(self)

    # -- decisions

    def submit(
        self,
        decide: Decide,
        refuse: Refuse[Result],
        context: RequestContext | None = None,
        *,
        writes: bool = True,
    ) -> Reply[Result]:
        """Return the reply to a request, or a future of it. `context` gets the token of the request."""
        machine = self._machine
        if machine is None:
            code = self._activate_or_refuse()
            if code:
                return refuse(code)
            machine = self._machine
        if writes and not self._may_write():
            return refuse(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        request = CoordinatorRequest(refuse)
        if context is not None:
            context.token = request
        clock, host = self._clock, self._host
        now_ms = clock.now_ms()
        try:
            outcome = decide(machine, now_ms)
        except Exception:
            # Changes that the machine has applied before the failure are in no log.
            log.exception("decision failed: partition=%s", self._name)
            self._fail(ErrorCode.COORDINATOR_NOT_AVAILABLE)
            return refuse(ErrorCode.UNKNOWN_SERVER_ERROR)
        wake_ms = machine.next_wake_ms
        if wake_ms is not None and wake_ms < clock.wake_ms:
            clock.arm(wake_ms, now_ms)
        if outcome.reply is not None and host.is_idle and not (outcome.records or outcome.replies):
            reply: Result = outcome.reply
            return reply
        future: asyncio.Future[Result] = self._loop.create_future()
        request.future = future
        host.add(outcome, request)
        host.flush_soon()
        return future

    def event(self, decide: Decide) -> None:
        """Decide an internal event; during loading it is queued."""
        machine = self._machine
        if machine is None:
            if self.state == LOADING:
                self._events.append(decide)
            return
        now_ms = self._clock.now_ms()
        try:
            outcome = decide(machine, now_ms)
        except Exception:
            log.exception("decision failed: partition=%s", self._name)
            self._fail(ErrorCode.COORDINATOR_NOT_AVAILABLE)
            return
        wake_ms = machine.next_wake_ms
        if wake_ms is not None and wake_ms < self._clock.wake_ms:
            self._clock.arm(wake_ms, now_ms)
        if outcome.records or outcome.replies or outcome.effects:
            self._host.add(outcome)
            self._host.flush_soon()

    def _timer_due(self) -> None:
        self.event(lambda machine, now_ms: machine.tick(now_ms))

    def _may_write(self) -> bool:
        if self.partition.is_under_min_isr:
            return False
        return not self._host.disk_is_full and self._host.waiting < WAITING_MAX

    def append_marker(self, batch: bytearray, producer_id: int, committed: bool) -> None:
        """Append the end of a producer's transaction, after all earlier decisions.

        Raises RecordsError or StorageError if it was not appended.
        """
        if self._host.has_unwritten:
            self._host.flush()
            if self._host.has_unwritten:
                raise DiskFull(self._name, "decisions before the marker are not written yet")
        self._log.append_marker(batch)
        if self._machine is not None:
            self._machine.apply_marker(producer_id, committed)
            self._host.add_barrier()

    # -- the log

    def _append_failed(self, error: Exception) -> None:
        if isinstance(error, DiskFull):
            log.error("disk full: partition=%s error=%s", self._name, error)
        elif isinstance(error, NotLeader):
            self.end(ErrorCode.NOT_COORDINATOR)
        else:
            log.error("append failed: partition=%s error=%s", self._name, error)
            self._fail(ErrorCode.COORDINATOR_NOT_AVAILABLE)

    def _commit_failed(self, error: BaseException) -> None:
        if self.state == ENDED:
            return
        code = getattr(error, "code", ErrorCode.KAFKA_STORAGE_ERROR)
        if code == ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND:
            self._host.release()  # committed, although the ISR has shrunk since
        elif isinstance(error, RecordsError):
            self.end(ErrorCode.NOT_COORDINATOR)  # the partition was deleted, or has another leader
        else:
            log.error("commit failed: partition=%s error=%s", self._name, error)
            self._fail(ErrorCode.COORDINATOR_NOT_AVAILABLE)

    def _effects_committed(self, effects: list[Any]) -> None:
        self._settings.on_effects(self, effects)
