"""Late requests of transactions, one at a time: the cases are fixed, only their details are random.

In each case one request is delayed on its connection while all others are fast: a write whose producer has
continued, the coordinator's verification of it, a second copy of a write, a write of a replaced instance,
the marker or the end of an older transaction, or the fetches of followers while only the leader has a
marker or an end. It is released before, during or after the next transaction, and must have no effect.

Cases that version 1 of the protocol cannot distinguish are left out: a late write or marker that arrives when
the next transaction of the same epoch has the same partition, without a change of the coordinator in between.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from ottla.client import Connection
from ottla.client.errors import ClientError
from ottla.protocol.messages.add_partitions_to_txn_request import AddPartitionsToTxnRequest
from ottla.protocol.messages.end_txn_request import EndTxnRequest
from ottla.protocol.messages.fetch_request import FetchRequest
from ottla.protocol.messages.produce_request import ProduceRequest
from ottla.protocol.messages.produce_response import ProduceResponse
from ottla.protocol.messages.write_txn_markers_request import WriteTxnMarkersRequest
from simulator.clients.admins import Admin, TopicChanger, facts
from simulator.clients.base import RetryLater
from simulator.faults import FaultInjector
from simulator.history.transactions import Pair, TxnEntry, TxnLedger
from simulator.inspection import leader_of
from simulator.runtime.request_hold import RequestHold
from simulator.transactions.client import PRODUCE_V1, V1, V2, Fenced, MustAbort, TxnClient
from simulator.transactions.final_state import FinalState
from simulator.transactions.readers import TxnReader
from simulator.world import CLIENT_PORT, Node, World

LEDGER = "accounts"
ACCOUNTS = 3
TRANSACTION_TOPIC = "__transaction_state"
TIMEOUT_MS = 25_000  # long: only abandoned transactions time out
WITHIN_S = (20.0, 20.0)
ANSWER_WITHIN_S = 3.0
HELD_WITHIN_S = 1.0
MOMENT_S = (0.005, 0.1)
READ_S = (0.3, 0.8)  # long enough for another fetch of a reader
FETCH_WAIT_MS = 50
PROPERTIES = {
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.replication.factor": "3",
    "offsets.topic.num.partitions": "1",
    "broker.session.timeout.ms": "1200",
    "broker.heartbeat.interval.ms": "300",
    "replica.lag.time.max.ms": "10000",
    "replica.fetch.wait.max.ms": str(FETCH_WAIT_MS),
    "leader.imbalance.check.interval.seconds": "300",
}
NO_ANSWER = -1


async def late_requests(world: World) -> None:
    await world.start_all(world.add_cluster(3, PROPERTIES))
    late = _LateRequests(world)
    await late.begin()
    rng = world.rng("acts")
    acts = (
        *(late.late_write, late.late_verification, late.late_copy, late.zombie),
        *(late.late_marker, late.unreplicated_marker, late.late_end, late.unreplicated_end),
    )
    program = [(act, version) for act in acts for version in (V1, V2)]
    rng.shuffle(program)
    for act, version in program:
        world.trace("act", "-", act.__name__)
        try:
            await act(await late.producer(version))
        except (Fenced, MustAbort, RetryLater) as error:
            world.history.surprise(act.__name__, repr(error))
            break
        finally:
            await late.injector.heal_all()
    await late.finish()


class LateWrite:
    """A batch in flight. `release_held` returns the response, or NO_ANSWER."""

    def __init__(
        self, producer: LateProducer, hold: RequestHold, index: int, batch: bytes, values: list[str]
    ) -> None:
        self.hold = hold
        self.index = index
        self.batch = batch
        self.values = values
        self._producer = producer
        self._pair = producer.pair
        self._sent_ns = producer.ledger.now_ns
        self._answer: asyncio.Task[ProduceResponse] | None = None

    async def send(self, host: str, port: int) -> None:
        producer = self._producer
        connection = await Connection.open(host, port, client_id=producer.name)
        at_most = PRODUCE_V1 if producer.version < V2 else None
        request = producer.produce_request(self.index, self.batch)
        self._answer = asyncio.ensure_future(connection.request(request, ProduceResponse, at_most=at_most))
        await asyncio.sleep(producer.rng.uniform(*MOMENT_S))

    async def release_held(self) -> int:
        assert self._answer is not None
        producer = self._producer
        self.hold.release_held()
        await asyncio.wait([self._answer], timeout=ANSWER_WITHIN_S)
        try:
            code = self._answer.result().responses[0].partition_responses[0].error_code
        except (ClientError, asyncio.InvalidStateError):
            return NO_ANSWER
        producer.ledger.trace(producer.instance, f"gets {code} for the late {self.values}")
        if not code:
            what = f"{self.values} to {self.index}, late"
            producer.ledger.acknowledge(
                producer.transactional_id, producer.instance, self._pair, self._sent_ns, what
            )
        return code


class LateProducer(TxnClient):
    gives_up = False
    hasty_chance = 0.0
    within_s = WITHIN_S

    def _values(self, entry: TxnEntry) -> list[str]:
        amount, number = self.rng.randint(1, 50), len(entry.values)
        return [f"{entry.name}.{number}:{amount}", f"{entry.name}.{number + 1}:{-amount}"]

    async def put(self, entry: TxnEntry, *indexes: int) -> None:
        await self.add_partitions(indexes)
        for index in indexes:
            await self.write(entry, index, self._values(entry))

    async def put_late(self, entry: TxnEntry, index: int, hold: RequestHold | None = None) -> LateWrite:
        """Start a late write. `hold`: another request is delayed, and delays the write."""
        await self.add_partitions([index])
        host, port = await self.leader_address(index)
        if hold is None:
            hold = RequestHold(self.world.network, self.name, host, ProduceRequest.API_KEY)
        values = self._values(entry)
        late_write = LateWrite(self, hold, index, self.new_batch(entry, index, values), values)
        await late_write.send(host, port)
        return late_write

    def take_back(self, late_write: LateWrite) -> None:
        """Reuse the sequence number of a rejected batch."""
        self._sequences[late_write.index] -= len(late_write.values)

    async def finish(self, entry: TxnEntry, *, commit: bool) -> None:
        await self.end(entry, commit=commit)
        await self.renew()


class _LateRequests:
    def __init__(self, world: World) -> None:
        self.world = world
        self.rng = world.rng("late")
        self.ledger = TxnLedger(world, LEDGER, ACCOUNTS)
        self.injector = FaultInjector(world, "late nemesis")
        self.reader = TxnReader(world, "rc", self.ledger)
        self.final_state = FinalState(world, self.ledger)
        self.admin = Admin(world, "admin")
        self.elector = TopicChanger(world, "elector", LEDGER, range(ACCOUNTS), "", replication_factor=3)
        self._ids = 0

    async def begin(self) -> None:
        configs = {"min.insync.replicas": str(self.rng.choice((1, 2)))}
        create = self.admin.create_topic(LEDGER, partitions=ACCOUNTS, replication_factor=3, configs=configs)
        await self.world.spawn(self.admin.process, create)
        self.world.spawn(self.reader.process, self.reader.run())

    async def finish(self) -> None:
        if await self.final_state.wait_until_idle():
            await self.final_state.read_all("auditor")
        found = await self.final_state.in_time(facts(self.admin, LEDGER), self.admin)
        self.world.history.final_facts = found or {}
        self.reader.stopping = True

    # -- building blocks

    def _coin(self) -> bool:
        return self.rng.random() < 0.5

    async def _moment(self) -> None:
        await asyncio.sleep(self.rng.uniform(*MOMENT_S))

    async def _as(self, producer: LateProducer, work: Coroutine[Any, Any, Any]) -> Any:
        return await self.world.spawn(producer.process, work)

    async def producer(self, version: int, *, like: LateProducer | None = None) -> LateProducer:
        """Start a new producer, or another instance of the same id."""
        if like is None:
            self._ids += 1
        transactional_id = f"late{self._ids}" if like is None else like.transactional_id
        producer = LateProducer(self.world, self.ledger, transactional_id, version, TIMEOUT_MS)
        producer.patience_s = self.rng.uniform(0.15, 0.5)
        await self._as(producer, producer.init())
        return producer

    def _two(self) -> tuple[int, int]:
        first, second = self.rng.sample(range(ACCOUNTS), 2)
        return first, second

    async def _coordinator_and_other_leader(self) -> tuple[Node, int, Node]:
        """Return the coordinator and a partition led by another node."""
        while True:
            coordinator = leader_of(self.world, TRANSACTION_TOPIC, 0)
            led = [(index, leader_of(self.world, LEDGER, index)) for index in range(ACCOUNTS)]
            index, leader = self.rng.choice(led)
            if coordinator is not None and leader not in (None, coordinator):
                assert leader is not None
                return coordinator, index, leader
            await self.world.spawn(self.elector.process, self.elector.elect())
            await self._moment()

    async def _is_caught(self, hold: RequestHold) -> None:
        until_s = self.world.loop.time() + HELD_WITHIN_S
        while not hold.caught and self.world.loop.time() < until_s:  # noqa: ASYNC110
            await asyncio.sleep(0.005)

    # -- cases

    async def late_write(self, producer: LateProducer) -> None:
        """The producer stops waiting for a write, aborts, and continues."""
        await self._as(producer, self._late_write(producer))

    async def _late_write(self, producer: LateProducer) -> None:
        a, b = self._two()
        if self._coin():
            before = producer.begin()
            await producer.put(before, a, b)
            await producer.finish(before, commit=self._coin())
        first = producer.begin()
        await producer.put(first, *((a, b) if self._coin() else (b,)))
        pair = producer.pair
        write = await producer.put_late(first, a)
        await producer.finish(first, commit=False)
        await self._go_on_without(producer, write, pair, a, b)

    async def _go_on_without(
        self, producer: LateProducer, write: LateWrite, pair: Pair, a: int, b: int
    ) -> None:
        moment = self.rng.randrange(3)
        if self._coin():
            await self._moment()
        code = await write.release_held() if moment == 0 else NO_ANSWER
        second = producer.begin()
        await producer.put(second, b)
        code = await write.release_held() if moment == 1 else code
        await producer.finish(second, commit=self._coin())
        code = await write.release_held() if moment == 2 else code
        if code != NO_ANSWER and self._coin():
            if code and producer.pair == pair:
                producer.take_back(write)
            third = producer.begin()
            await producer.put(third, a)
            await producer.finish(third, commit=self._coin())

    async def late_verification(self, producer: LateProducer) -> None:
        """The leader receives the coordinator's verification of a first write after the transaction ended."""
        coordinator, a, leader = await self._coordinator_and_other_leader()
        b = self.rng.choice([index for index in range(ACCOUNTS) if index != a])
        hold = RequestHold(
            self.world.network,
            leader.name,
            coordinator.name,
            AddPartitionsToTxnRequest.API_KEY,
            answers=True,
        )
        await self._as(producer, self._late_verification(producer, hold, a, b))

    async def _late_verification(self, producer: LateProducer, hold: RequestHold, a: int, b: int) -> None:
        first = producer.begin()
        await producer.add_partitions([b])
        pair = producer.pair
        write = await producer.put_late(first, a, hold)
        await producer.finish(first, commit=False)
        await self._go_on_without(producer, write, pair, a, b)

    async def late_copy(self, producer: LateProducer) -> None:
        """A write is retried on another connection, and the first copy arrives later."""
        await self._as(producer, self._late_copy(producer))

    async def _late_copy(self, producer: LateProducer) -> None:
        a, b = self._two()
        first = producer.begin()
        await producer.put(first, *((a, b) if self._coin() else (b,)))
        write = await producer.put_late(first, a)
        await producer.write_batch(first, a, write.values, write.batch)
        await producer.finish(first, commit=self._coin())
        last = self.rng.randrange(7)
        moment = 0 if self._coin() else self.rng.randint(1, last + 1)
        second = producer.begin()
        for number in range(last + 1):
            if number == moment:
                await write.release_held()
            await producer.put(second, a)
        await producer.finish(second, commit=self._coin())
        if moment > last:
            await write.release_held()

    async def zombie(self, old: LateProducer) -> None:
        """An instance is replaced while a write of it is in flight."""
        a, b = self._two()
        first = old.begin()
        if self._coin():
            await self._as(old, old.put(first, a))
        write = await self._as(old, old.put_late(first, self.rng.choice((a, b))))
        new = await self.producer(self.rng.choice((V1, V2)), like=old)
        moment = self.rng.randrange(3)
        second = new.begin()
        if moment == 0:
            await self._as(old, write.release_held())
        await self._as(new, new.put(second, a, b))
        if moment == 1:
            await self._as(old, write.release_held())
        await self._as(new, new.finish(second, commit=True))
        if moment == 2:
            await self._as(old, write.release_held())
        third = new.begin()
        await self._as(new, new.put(third, b, a))
        try:
            await self._as(old, old.end(first, commit=True))
        except Fenced as error:
            self.ledger.trace(old.instance, f"is fenced: {error}")
        await self._as(new, new.finish(third, commit=self._coin()))

    async def late_marker(self, producer: LateProducer) -> None:
        """A marker is in flight while another one is written in its place and the next transaction begins."""
        coordinator, index, leader = await self._coordinator_and_other_leader()
        first = producer.begin()
        await self._as(producer, producer.put(first, index))
        hold = RequestHold(self.world.network, coordinator.name, leader.name, WriteTxnMarkersRequest.API_KEY)
        commit = self._coin()
        await self._as(producer, producer.end(first, commit=commit))
        await self._is_caught(hold)
        await self._replace(coordinator, hold, may_keep=producer.version >= V2)
        await self._as(producer, producer.renew())
        second = producer.begin()
        await self._as(producer, producer.put(second, index))
        hold.release_held()
        await self._moment()
        if self._coin():
            await self._as(producer, producer.put(second, index))
        await self._as(producer, producer.finish(second, commit=not commit))

    async def _replace(self, coordinator: Node, hold: RequestHold, *, may_keep: bool) -> None:
        """Move the coordinator, or make it resend its markers."""
        way = "hang up" if may_keep and self._coin() else self.rng.choice(("kill", "stop", "pause"))
        self.world.trace("act", coordinator.name, way)
        if way == "kill":
            coordinator.kill()
        elif way == "stop":
            await coordinator.stop()
        elif way == "pause":
            coordinator.pause()
            while leader_of(self.world, TRANSACTION_TOPIC, 0) in (None, coordinator):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            if self._coin():
                coordinator.resume()
        else:
            hold.reset_senders()

    async def unreplicated_marker(self, producer: LateProducer) -> None:
        """The leader dies with a marker that no follower has.

        Readers fetch from the next leader before it has the marker, too.
        """
        network = self.world.network
        coordinator, index, leader = await self._coordinator_and_other_leader()
        first = producer.begin()
        await self._as(producer, producer.put(first, index))
        fetches = await self._without_followers(leader)
        await self._as(producer, producer.end(first, commit=self._coin()))
        await asyncio.sleep(self.rng.uniform(*READ_S))
        markers = [
            RequestHold(
                network, coordinator.name, node.name, WriteTxnMarkersRequest.API_KEY, all_of_them=True
            )
            for node in self.world.nodes.values()
        ]
        leader.kill()
        for hold in fetches:
            hold.release_held()
        while leader_of(self.world, LEDGER, index) in (None, leader):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        await asyncio.sleep(self.rng.uniform(*READ_S))
        for hold in markers:
            hold.release_held()
        await self._as(producer, producer.renew())
        second = producer.begin()
        await self._as(producer, producer.put(second, index))
        await self._as(producer, producer.finish(second, commit=self._coin()))

    async def _without_followers(self, leader: Node) -> list[RequestHold]:
        """Hold the fetches of all followers of a node."""
        network, key = self.world.network, FetchRequest.API_KEY
        fetches = [
            RequestHold(network, node.name, leader.name, key, port=CLIENT_PORT, all_of_them=True)
            for node in self.world.nodes.values()
            if node is not leader
        ]
        await asyncio.sleep(4 * FETCH_WAIT_MS / 1000)
        return fetches

    async def unreplicated_end(self, producer: LateProducer) -> None:
        """The coordinator dies with the end of a transaction that no follower has."""
        coordinator, index, _ = await self._coordinator_and_other_leader()
        first = producer.begin()
        await self._as(producer, producer.put(first, index))
        fetches = await self._without_followers(coordinator)
        ending = self.world.spawn(producer.process, producer.finish(first, commit=True))
        await asyncio.sleep(self.rng.uniform(*READ_S))
        coordinator.kill()
        for hold in fetches:
            hold.release_held()
        await ending
        second = producer.begin()
        await self._as(producer, producer.put(second, index))
        await self._as(producer, producer.finish(second, commit=False))

    async def late_end(self, producer: LateProducer) -> None:
        """EndTxn is sent twice, and the first request arrives after the second."""
        coordinator, _, _ = await self._coordinator_and_other_leader()
        await self._as(producer, self._late_end(producer, coordinator))

    async def _late_end(self, producer: LateProducer, coordinator: Node) -> None:
        a, b = self._two()
        first = producer.begin()
        await producer.put(first, a)
        hold = RequestHold(self.world.network, producer.name, coordinator.name, EndTxnRequest.API_KEY)
        commit = self._coin()
        await producer.finish(first, commit=commit)
        second = producer.begin()
        await producer.put(second, a)
        hold.release_held()
        await self._moment()
        await producer.put(second, b)
        await producer.finish(second, commit=not commit)
