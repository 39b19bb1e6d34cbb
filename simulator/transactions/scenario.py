"""The scenario of transactions: producers of both protocol versions, workers, two-phase commit, faults."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from simulator.clients.base import RetryLater
from simulator.faults import FaultInjector
from simulator.groups.members import GroupClient
from simulator.groups.scenario import CoordinatorMover
from simulator.history.groups import GROUP_TOPIC, GroupHistory
from simulator.history.operations import PartitionName
from simulator.history.transactions import COMMITTED, TxnLedger
from simulator.inspection import leaders
from simulator.scenarios.cluster import drawn_properties
from simulator.scenarios.workload import FLUSHED, SHORT_SEGMENTS, TOPIC, Workload
from simulator.transactions.client import V1, V2
from simulator.transactions.faults import TxnFaultInjector, slow_random_links
from simulator.transactions.final_state import FinalState
from simulator.transactions.instances import ProducerSlot
from simulator.transactions.readers import OpenReader, TxnReader
from simulator.transactions.two_phase import Resource, TxnPreparer
from simulator.transactions.writers import TxnWorker, TxnWriter
from simulator.world import Script, World

LEDGER = "accounts"
ACCOUNTS = 4  # partitions of the ledger
INPUTS = 2  # partitions of the workers' input
SHARDS = 2  # partitions of the transaction state and offsets topics
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
    injectors: Sequence[int] = (1, 1, 2),
) -> Script:
    async def script(world: World) -> None:
        await world.start_all(world.add_cluster(3, _properties(world, flushed=flushed)))
        txn_workload = _TxnWorkload(world, flushed=flushed)
        await txn_workload.begin()
        rng = world.rng("transactions")
        await asyncio.sleep(rng.uniform(0.2, 1.5))
        topics = (LEDGER, TRANSACTION_TOPIC, TRANSACTION_TOPIC, GROUP_TOPIC)
        running: list[Awaitable[None]] = [
            TxnFaultInjector(world, f"nemesis{n}", topics, flushed=flushed).run(duration_s, faults)
            for n in range(rng.choice(injectors))
        ]
        running += [slow_random_links(world, n, duration_s) for n in range(slow_links)]
        await asyncio.gather(*running)
        await FaultInjector(world, "the last", flushed=flushed).heal_all()
        await txn_workload.finish()

    return script


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


class _TxnWorkload:
    """All clients of the scenario."""

    def __init__(self, world: World, *, flushed: bool) -> None:
        self.world = world
        rng = world.rng("txn play")
        self.ledger = TxnLedger(world, LEDGER, ACCOUNTS)
        self.ledger.input_topic = TOPIC
        self.group = GroupHistory(world, GROUP, TOPIC, INPUTS, SHARDS)
        self.configs = {**SHORT_SEGMENTS, "min.insync.replicas": str(rng.choice((1, 2)))}
        self.workload = Workload(
            world,
            partitions=INPUTS,
            producers=1,
            consumers=0,
            replication_factor=REPLICAS,
            pause_s=PAUSE_S,
            configs=self.configs,
        )
        for topic in (TRANSACTION_TOPIC, GROUP_TOPIC):
            mover = CoordinatorMover(
                world, f"mover{topic}", topic, range(SHARDS), "", replication_factor=REPLICAS
            )
            self.workload.others.append(mover)
        self.resource = Resource()
        self.writers = [
            self._slot("w1", lambda: self._writer("w1", V1)),
            self._slot("w2", lambda: self._writer("w2", V2)),
            self._slot("w3", lambda: self._writer("w3", rng.choice((V1, V2)))),
        ]
        self.workers = [self._worker_slot(index) for index in range(INPUTS)]
        self.preparer = self._slot("prepared", self._prepared)
        self.readers = [
            TxnReader(world, "rc1", self.ledger),
            TxnReader(world, "rc2", self.ledger),
            OpenReader(world, "ru", self.ledger),
        ]
        self.final_state = FinalState(world, self.ledger)
        self._running: list[asyncio.Task[None]] = []

    @property
    def slots(self) -> list[ProducerSlot]:
        return [*self.writers, *self.workers, self.preparer]

    def _slot(self, transactional_id: str, make: Callable[[], TxnWriter]) -> ProducerSlot:
        return ProducerSlot(self.world, self.ledger, transactional_id, make)

    def _timeout_ms(self) -> int:
        return self.world.rng(f"timeout {len(self.ledger.entries)}").choice(TIMEOUTS_MS)

    def _writer(self, transactional_id: str, version: int) -> TxnWriter:
        return TxnWriter(self.world, self.ledger, transactional_id, version, self._timeout_ms())

    def _worker_slot(self, index: int) -> ProducerSlot:
        name = f"worker{index}"
        rng = self.world.rng(f"version {name}")

        def make() -> TxnWriter:
            version = rng.choice((V1, V2))
            return TxnWorker(self.world, self.ledger, name, version, self._timeout_ms(), self.group, index)

        return self._slot(name, make)

    def _prepared(self) -> TxnWriter:
        preparer = TxnPreparer(self.world, self.ledger, "prepared", V2, TIMEOUT_MAX_MS)
        preparer.resource = self.resource
        return preparer

    async def begin(self) -> None:
        world = self.world
        await self.workload.begin()
        create = self.workload.admin.create_topic(
            LEDGER, partitions=ACCOUNTS, replication_factor=REPLICAS, configs=self.configs
        )
        await world.spawn(self.workload.admin.process, create)
        self._running = [world.spawn(world.process, slot.run()) for slot in self.slots]
        for reader in self.readers:
            world.spawn(reader.process, reader.run())

    async def finish(self) -> None:
        """After healing: kill the writers, let the others finish, wait until idle, and read everything."""
        for slot in self.slots:
            slot.stopping = True
        await asyncio.gather(*self._running)
        for slot in self.writers:
            slot.close()
        await self.workload.finish()
        self.ledger.is_ending = True
        await self._finish_work([*self.workers, self.preparer])
        if await self.final_state.wait_until_idle():
            await self._finish_work(self.writers)
        if await self.final_state.wait_until_idle():
            await self._read_all("auditor")
            await self._lose_a_coordinator()
        for reader in self.readers:
            reader.stopping = True

    async def _finish_work(self, slots: Sequence[ProducerSlot]) -> None:
        async def one(slot: ProducerSlot) -> None:
            operation = self.world.history.invoke(slot.transactional_id, "final-read", "last word")
            if await slot.finish_work(self._has_finished_work):
                operation.ok()
            else:
                operation.fail("did not finish its work")

        await asyncio.gather(*(one(slot) for slot in slots))

    def _has_finished_work(self, member: TxnWriter) -> bool:
        """Return whether a worker has read all input, or another producer has committed a transaction."""
        if isinstance(member, TxnWorker):
            records = self.world.history.final.get(PartitionName(TOPIC, member.index), [])
            return member.position > records[-1][0] if records else True
        return any(
            entry.instance == member.instance and entry.fate == COMMITTED
            for entry in self.ledger.entries.values()
        )

    async def _read_all(self, name: str) -> None:
        """Read the final records, the logs and the group's offsets."""
        if not await self.final_state.read_all(name):
            return
        operation = self.world.history.invoke(name, "final-read", GROUP)
        client = GroupClient(self.world, f"{name} group", self.group)
        offsets = await self.final_state.in_time(self._offsets(client), self.workload.admin)
        if offsets is None:
            operation.fail("timed out")
        else:
            operation.ok(offsets)
            self.ledger.final_offsets = offsets

    async def _offsets(self, client: GroupClient) -> dict[int, int]:
        while True:
            try:
                return await client.committed_offsets(range(INPUTS))
            except RetryLater:
                await client.back_off()

    async def _lose_a_coordinator(self) -> None:
        """Kill a coordinator: commits must survive the loss of any single broker."""
        world = self.world
        node = world.rng("last coordinator").choice(leaders(world, TRANSACTION_TOPIC))
        node.kill()
        await asyncio.sleep(0.3)
        await self._read_all("heir")
        await FaultInjector(world, "the very last").bring_up(node, may_interrupt=False, required=True)
