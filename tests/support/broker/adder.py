"""A machine that adds numbers, and a partition to host it in."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from ottla.broker.coordinators.hosted_shard import ACTIVE, HostedShard, ShardSettings
from ottla.broker.io_threads import IoThreads
from ottla.broker.replicas.flusher import Flusher
from ottla.broker.replicas.partition import Partition
from ottla.broker.replicas.topic_settings import TopicSettings
from ottla.config.load import broker_config
from ottla.config.topic_config import ConfigLayers
from ottla.controller.image.parts import PartitionImage
from ottla.machines.outcome import Outcome, RequestContext
from ottla.protocol.errors import ErrorCode
from ottla.records.batch import iter_headers
from ottla.replication.leader import LeaderState
from ottla.storage.log import open_log
from ottla.testing.files import FaultyFiles
from tests.support.broker.background import strict_tasks

NOW = 1_700_000_000_000
TIMEOUT_MS = 60


class Adder:
    """`sum` of the records, apart from those of open transactions. Waiting requests are answered by
    `tell`."""

    def __init__(self) -> None:
        self.sum = 0
        self.pending: dict[int, int] = {}
        self.waiting: list[Any] = []
        self.next_wake_ms: int | None = None
        self.ticks: list[int] = []
        self.loads = 0

    def apply_bytes(self, key: bytes, value: bytes | None, timestamp_ms: int, producer_id: int = -1) -> None:
        if producer_id >= 0:
            self.pending[producer_id] = self.pending.get(producer_id, 0) + int(value or b"")
        else:
            self.sum += int(value or b"")

    def apply_marker(self, producer_id: int, committed: bool) -> None:
        number = self.pending.pop(producer_id, 0)
        self.sum += number if committed else 0

    def loaded(self, now_ms: int) -> Any:
        self.loads += 1
        return Outcome()

    def abandon(self, code: ErrorCode) -> list[tuple[Any, Any]]:
        return [(token, f"left: {code.name}") for token in self.waiting]

    def tick(self, now_ms: int) -> Any:
        self.ticks.append(now_ms)
        self.next_wake_ms = None
        return Outcome()

    # Requests.

    def add(self, number: int, producer: tuple[int, int] | None = None) -> Any:
        outcome: Any = Outcome()
        outcome.records.append(number)
        outcome.producer = producer
        self.sum += number
        outcome.reply = self.sum
        return outcome

    def look(self) -> Any:
        outcome: Any = Outcome()
        outcome.reply = self.sum
        return outcome

    def wait(self, token: Any) -> Any:
        self.waiting.append(token)
        return Outcome()

    def tell(self) -> Any:
        outcome: Any = self.add(1)
        outcome.replies += [(token, f"told {self.sum}") for token in self.waiting]
        self.waiting = []
        return outcome


class Replicas:
    """Replaces the replica manager."""

    def isr_change_wanted(self, partition: Partition) -> None: ...

    def follower_may_fetch(self, partition: Partition) -> None: ...


class Harness:
    """One shard and its requests. With `followers` commits wait for `fetched`."""

    def __init__(self, files: FaultyFiles, *, followers: bool) -> None:
        settings = TopicSettings(ConfigLayers(broker_config({})).topic_values({"cleanup.policy": "compact"}))
        files.mkdir("/data")
        self.files = files
        self.log = open_log(files, "/data/t-0", settings.log, now_ms=NOW)
        self.now_ms = NOW
        self.executor = ThreadPoolExecutor(1)
        flusher = Flusher(IoThreads(["/data"], lambda *_: self.executor), self.clock, strict_tasks())
        self.partition = Partition("t", b"\1" * 16, 0, self.log, settings.rules, flusher, Replicas())
        self.leader = self._leader() if followers else None
        self.partition.make_leader(1, 0, self.leader)
        self.failed: list[HostedShard] = []
        self.settings = ShardSettings(
            make_machine=lambda partition: Adder(),
            encode=lambda number: (b"key", b"%d" % number),
            clock=self.clock,
            monotonic_ms=self.clock,
            write_timeout_ms=TIMEOUT_MS,
            on_failed=self.failed.append,
            on_records_found=lambda shard: None,
        )
        self.shard = HostedShard(self.partition, self.settings)

    def restart(self) -> None:
        """Host the partition with a new shard, for example after a change of `settings`."""
        self.shard.end(ErrorCode.NOT_COORDINATOR)
        self.shard = HostedShard(self.partition, self.settings)

    def clock(self) -> int:
        return self.now_ms

    def _leader(self) -> LeaderState:
        state = PartitionImage()
        state.leader, state.replicas, state.isr = 1, (1, 2, 3), (1, 2)
        return LeaderState(
            1,
            state,
            log_start_offset=self.log.log_start_offset,
            log_end_offset=self.log.log_end_offset,
            high_watermark=0,
            min_isr=2,
            lag_time_max_ms=1000,
            eligible=lambda *_: True,
            now_ms=NOW,
        )

    def fetched(self, offset: int | None = None) -> None:
        """Report that the follower has everything below the offset."""
        assert self.leader is not None
        end = self.log.log_end_offset if offset is None else offset
        flags = self.leader.follower_fetched(2, end, 0, self.log.log_end_offset, -1, NOW)
        self.partition.react(flags)

    def add(self, number: int, **options: Any) -> Any:
        return self.shard.submit(lambda machine, now_ms: machine.add(number, **options), _refused)

    def look(self) -> Any:
        return self.shard.submit(lambda machine, now_ms: machine.look(), _refused, writes=False)

    def wait(self) -> Any:
        context = RequestContext()
        return self.shard.submit(lambda machine, now_ms: machine.wait(context.token), _refused, context)

    def tell(self) -> Any:
        return self.shard.submit(lambda machine, now_ms: machine.tell(), _refused)

    async def load(self) -> None:
        await self.shard.load()
        assert self.shard.state == ACTIVE

    def batches(self) -> list[int]:
        """Return the number of records of each batch in the log."""
        data = self.log.read(self.log.log_start_offset, 1 << 30).read()
        return [header.records_count for _, header in iter_headers(data)]

    def close(self) -> None:
        self.shard.end(ErrorCode.NOT_COORDINATOR)
        self.log.abandon()
        self.executor.shutdown()


def _refused(code: int) -> str:
    return ErrorCode(code).name


def play(
    scene: Callable[[Harness], Awaitable[None]], *, files: FaultyFiles | None = None, followers: bool = False
) -> None:
    async def main() -> None:
        harness = Harness(files or FaultyFiles(), followers=followers)
        try:
            await asyncio.wait_for(scene(harness), 10)
        finally:
            harness.close()

    asyncio.run(main())


async def turns(count: int = 3) -> None:
    for _ in range(count):
        await asyncio.sleep(0)
