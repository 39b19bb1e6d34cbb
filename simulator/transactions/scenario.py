"""Stories of transactions: producers of both versions of the protocol, workers, two-phase commit, trouble."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from simulator.clients.base import NotNow
from simulator.faults import Nemesis
from simulator.groups.history import GROUP_TOPIC, GroupHistory
from simulator.groups.members import GroupClient
from simulator.groups.scenario import Mover
from simulator.history import PartitionName
from simulator.inspection import leaders
from simulator.scenarios.cluster import drawn_properties
from simulator.scenarios.workload import FLUSHED, SHORT_SEGMENTS, TOPIC, Cast
from simulator.transactions.client import V1, V2
from simulator.transactions.faults import TxnNemesis, weather
from simulator.transactions.final_state import Closing
from simulator.transactions.instances import TxnSeat
from simulator.transactions.ledger import COMMITTED, TxnLedger
from simulator.transactions.readers import OpenReader, TxnReader
from simulator.transactions.two_phase import Resource, TxnPreparer
from simulator.transactions.writers import TxnWorker, TxnWriter
from simulator.world import Story, World

LEDGER = "accounts"
ACCOUNTS = 4  # partitions of the ledger
INPUTS = 2  # partitions of the workers' input
SHARDS = 2  # partitions of the topics of transactions and of offsets
REPLICAS = 3
GROUP = "workers"
TRANSACTION_TOPIC = "__transaction_state"
TIMEOUTS_MS = (1_500, 3_000)
TIMEOUT_MAX_MS = 5_000
PAUSE_S = (0.1, 0.8)


def transactions(
    faults: Sequence[str],
    *,
    flushed: bool = False,
    duration_s: float = 12.0,
    slow_links: int = 2,
    nemeses: Sequence[int] = (1, 1, 2),
) -> Story:
    async def story(world: World) -> None:
        await world.start_all(world.add_cluster(3, _properties(world, flushed=flushed)))
        play = _Play(world, flushed=flushed)
        await play.begin()
        rng = world.rng("transactions")
        await asyncio.sleep(rng.uniform(0.2, 1.5))
        topics = (LEDGER, TRANSACTION_TOPIC, TRANSACTION_TOPIC, GROUP_TOPIC)
        troubles: list[Awaitable[None]] = [
            TxnNemesis(world, f"nemesis{n}", topics, flushed=flushed).run(duration_s, faults)
            for n in range(rng.choice(nemeses))
        ]
        troubles += [weather(world, n, duration_s) for n in range(slow_links)]
        await asyncio.gather(*troubles)
        await Nemesis(world, "the last", flushed=flushed).make_good()
        await play.finish()

    return story


def _properties(world: World, *, flushed: bool) -> dict[str, str]:
    given = {
        **drawn_properties(world.rng("properties")),
        "offsets.topic.num.partitions": str(SHARDS),
        "offsets.topic.replication.factor": str(REPLICAS),
        "transaction.state.log.num.partitions": str(SHARDS),
        "transaction.state.log.replication.factor": str(REPLICAS),
        "transaction.max.timeout.ms": str(TIMEOUT_MAX_MS),
        "transaction.two.phase.commit.enable": "true",
    }
    if flushed:
        given["log.flush.interval.messages"] = FLUSHED["flush.messages"]
    return given


class _Play:
    """Everybody who takes part in a story of transactions."""

    def __init__(self, world: World, *, flushed: bool) -> None:
        self.world = world
        rng = world.rng("txn play")
        self.ledger = TxnLedger(world, LEDGER, ACCOUNTS)
        self.ledger.input_topic = TOPIC
        self.group = GroupHistory(world, GROUP, TOPIC, INPUTS, SHARDS)
        self.configs = {**SHORT_SEGMENTS, "min.insync.replicas": str(rng.choice((1, 2)))}
        self.cast = Cast(
            world,
            partitions=INPUTS,
            producers=1,
            consumers=0,
            replication_factor=REPLICAS,
            pause_s=PAUSE_S,
            configs=self.configs,
        )
        for topic in (TRANSACTION_TOPIC, GROUP_TOPIC):
            mover = Mover(world, f"mover{topic}", topic, range(SHARDS), "", replication_factor=REPLICAS)
            self.cast.others.append(mover)
        self.resource = Resource()
        self.writers = [
            self._seat("w1", lambda: self._writer("w1", V1)),
            self._seat("w2", lambda: self._writer("w2", V2)),
            self._seat("w3", lambda: self._writer("w3", rng.choice((V1, V2)))),
        ]
        self.workers = [self._worker_seat(index) for index in range(INPUTS)]
        self.preparer = self._seat("prepared", self._prepared)
        self.readers = [
            TxnReader(world, "rc1", self.ledger),
            TxnReader(world, "rc2", self.ledger),
            OpenReader(world, "ru", self.ledger),
        ]
        self.closing = Closing(world, self.ledger)
        self._playing: list[asyncio.Task[None]] = []

    @property
    def seats(self) -> list[TxnSeat]:
        return [*self.writers, *self.workers, self.preparer]

    def _seat(self, transactional_id: str, make: Callable[[], TxnWriter]) -> TxnSeat:
        return TxnSeat(self.world, self.ledger, transactional_id, make)

    def _timeout_ms(self) -> int:
        return self.world.rng(f"timeout {len(self.ledger.entries)}").choice(TIMEOUTS_MS)

    def _writer(self, transactional_id: str, version: int) -> TxnWriter:
        return TxnWriter(self.world, self.ledger, transactional_id, version, self._timeout_ms())

    def _worker_seat(self, index: int) -> TxnSeat:
        name = f"worker{index}"
        rng = self.world.rng(f"version {name}")

        def make() -> TxnWriter:
            version = rng.choice((V1, V2))
            return TxnWorker(self.world, self.ledger, name, version, self._timeout_ms(), self.group, index)

        return self._seat(name, make)

    def _prepared(self) -> TxnWriter:
        preparer = TxnPreparer(self.world, self.ledger, "prepared", V2, TIMEOUT_MAX_MS)
        preparer.resource = self.resource
        return preparer

    async def begin(self) -> None:
        world = self.world
        await self.cast.begin()
        create = self.cast.admin.create_topic(
            LEDGER, partitions=ACCOUNTS, replication_factor=REPLICAS, configs=self.configs
        )
        await world.spawn(self.cast.admin.process, create)
        self._playing = [world.spawn(world.process, seat.run()) for seat in self.seats]
        for reader in self.readers:
            world.spawn(reader.process, reader.run())

    async def finish(self) -> None:
        """All is healed: writers die in the middle, the others finish their work, and all comes to rest."""
        for seat in self.seats:
            seat.stopping = True
        await asyncio.gather(*self._playing)
        for seat in self.writers:
            seat.close()
        await self.cast.finish()
        self.ledger.is_ending = True
        await self._last_words([*self.workers, self.preparer])
        if await self.closing.comes_to_rest():
            await self._last_words(self.writers)
        if await self.closing.comes_to_rest():
            await self._read_all("auditor")
            await self._lose_a_coordinator()
        for reader in self.readers:
            reader.stopping = True

    async def _last_words(self, seats: Sequence[TxnSeat]) -> None:
        async def one(seat: TxnSeat) -> None:
            operation = self.world.history.invoke(seat.transactional_id, "final-read", "last word")
            if await seat.last_word(self._has_done_its_work):
                operation.ok()
            else:
                operation.fail("did not get its work done")

        await asyncio.gather(*(one(seat) for seat in seats))

    def _has_done_its_work(self, member: TxnWriter) -> bool:
        """A worker has seen all of the input; others have committed something."""
        if isinstance(member, TxnWorker):
            records = self.world.history.final.get(PartitionName(TOPIC, member.index), [])
            return member.position > records[-1][0] if records else True
        return any(
            entry.instance == member.instance and entry.fate == COMMITTED
            for entry in self.ledger.entries.values()
        )

    async def _read_all(self, name: str) -> None:
        """What is there under read_committed, in the log, and of the group."""
        if not await self.closing.read_all(name):
            return
        operation = self.world.history.invoke(name, "final-read", GROUP)
        client = GroupClient(self.world, f"{name} group", self.group)
        offsets = await self.closing.in_time(self._offsets(client), self.cast.admin)
        if offsets is None:
            operation.fail("not within its time")
        else:
            operation.ok(offsets)
            self.ledger.final_offsets = offsets

    async def _offsets(self, client: GroupClient) -> dict[int, int]:
        while True:
            try:
                return await client.committed_offsets(range(INPUTS))
            except NotNow:
                await client.back_off()

    async def _lose_a_coordinator(self) -> None:
        """What was committed stays so without any single broker."""
        world = self.world
        node = world.rng("last coordinator").choice(leaders(world, TRANSACTION_TOPIC))
        node.kill()
        await asyncio.sleep(0.3)
        await self._read_all("heir")
        await Nemesis(world, "the very last").revive(node, cut_short=False, must=True)
