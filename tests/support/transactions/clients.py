"""Clients that write transactions as real ones do, in a simulation in which anything may fail."""

from __future__ import annotations

from collections.abc import Callable, Generator
from itertools import count
from typing import Any

from ottla.machines.outcome import RequestContext
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.add_partitions_to_txn_request import (
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from ottla.protocol.messages.end_txn_request import EndTxnRequest
from ottla.protocol.messages.init_producer_id_request import InitProducerIdRequest
from ottla.transactions.markers import TopicPartition
from tests.support.transactions.world import Answer, Txn, World

NO_PAIR = (-1, -1)
FENCED = (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_ID_MAPPING)
Question = Callable[[Answer], None]
# Yields a request and receives its response; a number is a pause.
Story = Generator[Question | int, Any, Any]


class Dead(Exception):
    """Fenced, or aborted: the instance does nothing more."""


class Client:
    """One instance. `name` is its transactional id: another instance may have the same."""

    def __init__(self, crowd: Crowd, name: str, timeout_ms: int) -> None:
        self.crowd = crowd
        self.world = crowd.world
        self.name = name
        self.timeout_ms = timeout_ms
        self.is_alive = True
        self.pair = NO_PAIR
        self.sequences: dict[TopicPartition, int] = {}
        self._story = self.story()
        self._asked = count()
        self._waits_for = -1
        self.world.at(1, lambda: self._go_on(-1, None))

    def _go_on(self, asked: int, answer: Any) -> None:
        if not self.is_alive or asked != self._waits_for:
            return
        self._waits_for = asked = next(self._asked)
        try:
            step = self._story.send(answer)
        except (Dead, StopIteration):
            self.is_alive = False
            return
        if isinstance(step, int):
            self.world.at(step, lambda: self._go_on(asked, None))
        else:
            step(lambda reply: self._go_on(asked, reply))

    def story(self) -> Story:
        yield from self.init()
        while not self.crowd.is_over:
            yield from self.transact()
            yield self.world.random.randrange(1, 100)

    # Requests.

    def _coordinator(self, request: Any, api: str, version: int) -> Question:
        request = type(request).decode(version, request.encode(version))
        ctx = RequestContext(api_version=version)

        def released(reply: Any) -> None:
            if getattr(reply, "producer_id", -1) >= 0:
                self.crowd.given(self, (reply.producer_id, reply.producer_epoch))

        def decide(shard: Any, now_ms: int, fresh_id: int) -> Any:
            return getattr(shard, f"decide_{api}")(request, ctx, now_ms, fresh_id)

        return lambda answer: self.world.call(decide, answer, released)

    def init(
        self, expected: tuple[int, int] = NO_PAIR, *, keep: bool = False, two_phase: bool = False
    ) -> Story:
        request = InitProducerIdRequest(
            transactional_id=self.name,
            transaction_timeout_ms=self.timeout_ms,
            producer_id=expected[0],
            producer_epoch=expected[1],
            enable2_pc=two_phase,
            keep_prepared_txn=keep,
        )
        while True:
            reply = yield self._coordinator(request, "init_producer_id", 6)
            if reply is not None and not reply.error_code:
                self._take_pair((reply.producer_id, reply.producer_epoch))
                return reply
            if reply is not None and reply.error_code != ErrorCode.CONCURRENT_TRANSACTIONS:
                assert reply.error_code == ErrorCode.PRODUCER_FENCED, ErrorCode(reply.error_code)
                assert expected != NO_PAIR
                raise Dead
            yield 50

    def _take_pair(self, pair: tuple[int, int]) -> None:
        if pair != self.pair:
            self.sequences.clear()
        self.pair = pair

    def _add(self, where: TopicPartition) -> Story:
        """Add a partition, which clients do explicitly in version 1."""
        topic, index = where
        asked = AddPartitionsToTxnTransaction(
            transactional_id=self.name,
            producer_id=self.pair[0],
            producer_epoch=self.pair[1],
            topics=[AddPartitionsToTxnTopic(name=topic, partitions=[index])],
        )
        ctx = RequestContext(api_version=3)
        for _ in range(20):
            reply = yield lambda answer: self.world.call(
                lambda shard, now_ms, fresh_id: shard.decide_add_partitions(asked, ctx, now_ms), answer
            )
            if reply is not None:
                code = reply.topic_results[0].results_by_partition[0].partition_error_code
                if code != ErrorCode.CONCURRENT_TRANSACTIONS:
                    if code:
                        assert code in FENCED, ErrorCode(code)
                        raise Dead
                    return True
            yield 20
        return False

    def write(self, txn: Txn, where: TopicPartition) -> Story:
        """Return whether the write is acknowledged."""
        sequence = self.sequences.get(where, 0)
        leader = self.world.leaders[where]
        for _ in range(4):
            code = yield lambda answer: self.world.send(
                lambda reply: leader.produce(txn, sequence, reply), answer
            )
            if code == ErrorCode.NONE:
                self.sequences[where] = sequence + 1
                txn.acked[where, sequence] = None
                return True
            if code in (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.INVALID_PRODUCER_ID_MAPPING):
                raise Dead
            yield 20
        return False

    def end(self, txn: Txn, committed: bool) -> Story:
        request = EndTxnRequest(
            transactional_id=self.name,
            producer_id=self.pair[0],
            producer_epoch=self.pair[1],
            committed=committed,
        )
        txn.asked_to_commit = committed
        version = 5 if self.world.version == 2 else 4
        while True:
            reply = yield self._coordinator(request, "end_txn", version)
            if reply is None or reply.error_code == ErrorCode.CONCURRENT_TRANSACTIONS:
                yield 30
                continue
            if reply.error_code:
                assert reply.error_code in FENCED, ErrorCode(reply.error_code)
                raise Dead
            txn.commit_acked = committed
            if version == 5:
                self._take_pair((reply.producer_id, reply.producer_epoch))
            return

    # One transaction.

    def write_some(self, txn: Txn) -> Story:
        """Return whether all writes are acknowledged."""
        random = self.world.random
        for _ in range(random.randrange(1, 5)):
            where = random.choice([*self.world.leaders])
            if self.world.version == 1 and not (yield from self._add(where)):
                raise Dead
            if not (yield from self.write(txn, where)):
                return False
            if random.random() < 0.1:
                yield random.randrange(1, 2 * self.timeout_ms)
        return True

    def transact(self) -> Story:
        random = self.world.random
        txn = self.crowd.begin(self)
        is_whole = yield from self.write_some(txn)
        yield from self.end(txn, is_whole and random.random() < 0.7)
        if not is_whole or random.random() < 0.1:
            # The write may be in the log or not: continue with another epoch.
            yield from self.init(self.pair)


class TwoPhaseClient(Client):
    """Records its decision in a database in one atomic step, and ends the transaction accordingly.

    A new instance locks the others out of the database before it reads it.
    """

    def story(self) -> Story:
        database = self.crowd.database
        database.owner = self
        reply = yield from self.init(keep=True, two_phase=True)
        ongoing = (reply.ongoing_txn_producer_id, reply.ongoing_txn_producer_epoch)
        if ongoing != NO_PAIR:
            txn = self.crowd.latest_with(self.name, ongoing)
            yield from self.end(txn, ongoing in database.noted)
        while not self.crowd.is_over:
            txn = self.crowd.begin(self)
            is_whole = yield from self.write_some(txn)
            if is_whole:
                yield self.world.random.randrange(1, 3 * self.timeout_ms)
                if database.owner is not self:
                    raise Dead
                if self.world.random.random() < 0.7:
                    database.noted[txn.pair] = txn
            if self.world.random.random() < 0.3:
                raise Dead
            yield from self.end(txn, txn.pair in database.noted)


class Database:
    def __init__(self) -> None:
        self.owner: Client | None = None
        self.noted: dict[tuple[int, int], Txn] = {}


class Crowd:
    def __init__(self, seed: int, version: int) -> None:
        self.world = World(seed, version)
        self.clients: list[Client] = []
        self.txns: list[Txn] = []
        self.is_over = False
        self.owners: dict[tuple[int, int], Client] = {}
        self.database = Database()
        self.unrest_ms = self.world.random.choice([150, 600])
        self.world.at(1, self.world.tick)
        self.world.at(1, self._disturb)

    def begin(self, client: Client) -> Txn:
        txn = Txn(client, client.pair)
        self.txns.append(txn)
        return txn

    def latest_with(self, name: str, pair: tuple[int, int]) -> Txn:
        return next(each for each in reversed(self.txns) if each.client.name == name and each.pair == pair)

    def given(self, client: Client, pair: tuple[int, int]) -> None:
        owner = self.owners.setdefault(pair, client)
        assert owner is client, f"{pair} was given to two instances of {client.name}"

    def _disturb(self) -> None:
        if self.is_over:
            return
        random = self.world.random
        draw = random.random()
        alive = [each for each in self.clients if each.is_alive]
        if draw < 0.25 or not alive:
            kind: type[Client] = Client
            name = random.choice(["a", "b"])
            if self.world.version == 2 and random.random() < 0.3:
                kind, name = TwoPhaseClient, "p"
            if sum(each.name == name for each in alive) < 2:
                self.clients.append(kind(self, name, random.choice([300, 2_000])))
        elif draw < 0.32:
            random.choice(alive).is_alive = False
        elif draw < 0.40:
            self.world.fail_over()
        elif draw < 0.44:
            self.world.remake()
        elif draw < 0.55:
            self.world.move_a_leader()
        self.world.at(random.randrange(1, self.unrest_ms), self._disturb)

    def play(self, duration_ms: int) -> None:
        world = self.world
        world.run(duration_ms)
        self.is_over = True
        for client in self.clients:
            client.is_alive = False
        world.calm_down()
        world.run(60_000)
        # Prepared transactions do not expire: a client must end them.
        self.clients.append(TwoPhaseClient(self, "p", 1_000))
        world.run(60_000)
        world.check_rest()
        world.check_results(self.txns)
        results = world.results()
        for pair, txn in self.database.noted.items():
            assert {*results[txn].values()} == {True}, f"{pair} is recorded as committed"
