"""A simulation from one seed: a coordinator that fails over, leaders that move, a lossy and slow network.

Time is virtual. In version 2 of the protocol, messages may arrive long after their sender has dropped them.
In version 1 they may only be lost, because it cannot detect late ones.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count
from random import Random
from typing import Any

from ottla.config.load import broker_config
from ottla.machines.outcome import Outcome, RequestContext
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.add_partitions_to_txn_request import (
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from ottla.protocol.messages.write_txn_markers_response import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersResponse,
)
from ottla.records.batch import CONTROL_BIT, TRANSACTIONAL_BIT, BatchHeader, RecordsError
from ottla.storage.producers.state import ProducerState
from ottla.transactions import partition as partition_rules
from ottla.transactions.config import TransactionsConfig
from ottla.transactions.marker_queue import NO_LEADER, MarkerQueue, MarkerRequest
from ottla.transactions.markers import NEEDS_PRODUCER_ID, TopicPartition
from ottla.transactions.partition import VerificationGuard, VerificationGuards
from ottla.transactions.record_codec import decode_record, encode_record
from ottla.transactions.shard import TransactionShard
from ottla.transactions.transaction import ONGOING, PREPARE_COMMIT, PREPARED, Transaction
from tests.support.transactions.harness import START_MS, state_of

OWNER = 0
LATE_MS = 3_000
TRIES = 6
Answer = Callable[[Any], Any]


def header_of(
    producer_id: int, producer_epoch: int, sequence: int, *, is_control: bool = False
) -> BatchHeader:
    attributes = TRANSACTIONAL_BIT | (CONTROL_BIT if is_control else 0)
    return BatchHeader(0, 0, 0, 2, 0, attributes, 0, 0, 0, producer_id, producer_epoch, sequence, 1)


class Txn:
    """A transaction as its client sees it."""

    def __init__(self, client: Any, pair: tuple[int, int]) -> None:
        self.client = client
        self.pair = pair
        self.acked: dict[tuple[TopicPartition, int], None] = {}  # and the sequence
        self.asked_to_commit = False
        self.commit_acked = False

    def __repr__(self) -> str:
        return f"Txn({self.client.name} {self.pair})"


class Leader:
    """A partition: its log as (producer id, epoch, sequence, transaction) and (producer id, committed)."""

    def __init__(self, world: World, where: TopicPartition) -> None:
        self.world = world
        self.where = where
        self.broker_id = 1
        self.state = ProducerState()
        self.verification_guards = VerificationGuards()
        self.log: list[tuple[Any, ...]] = []

    def move(self, broker_id: int) -> None:
        self.broker_id = broker_id
        self.verification_guards = VerificationGuards()

    def produce(self, txn: Txn, sequence: int, answer: Answer) -> None:
        producer_id, producer_epoch = txn.pair
        entry = self.state.entries.get(producer_id)
        if not partition_rules.needs_verification(entry, producer_epoch):
            answer(self._append(txn, sequence))
            return
        adds = self.world.version == 2
        now_ms = self.world.now_ms
        guard = self.verification_guards.take(producer_id, producer_epoch, sequence, now_ms, adds=adds)
        if guard is None:
            answer(ErrorCode.INVALID_PRODUCER_EPOCH)
            return
        self._ask(txn, sequence, guard, answer, TRIES)

    def _ask(self, txn: Txn, sequence: int, guard: VerificationGuard, answer: Answer, tries: int) -> None:
        topic, index = self.where
        requested = AddPartitionsToTxnTransaction(
            transactional_id=txn.client.name,
            producer_id=txn.pair[0],
            producer_epoch=txn.pair[1],
            verify_only=not guard.adds,
            topics=[AddPartitionsToTxnTopic(name=topic, partitions=[index])],
        )
        guards = self.verification_guards

        def answered(result: Any) -> None:
            code = ErrorCode.NETWORK_EXCEPTION
            if result is not None:
                code = result.topic_results[0].results_by_partition[0].partition_error_code
            if code == ErrorCode.CONCURRENT_TRANSACTIONS and guard.adds and tries:
                self.world.at(30, lambda: self._ask(txn, sequence, guard, answer, tries - 1))
            elif code:
                answer(partition_rules.refusal_of_write(code, adds=guard.adds, knows_abortable=True))
            elif guards is not self.verification_guards:
                answer(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            else:
                entry = self.state.entries.get(guard.producer_id)
                answer(self.verification_guards.check(guard, entry, sequence) or self._append(txn, sequence))

        ctx = RequestContext(api_version=5)
        self.world.call(
            lambda shard, now_ms, fresh_id: shard.decide_add_partitions(requested, ctx, now_ms), answered
        )

    def _append(self, txn: Txn, sequence: int) -> ErrorCode:
        header = header_of(*txn.pair, sequence)
        try:
            duplicate = self.state.check(header)
        except RecordsError as error:
            return error.code
        if duplicate is None:
            entry = self.state.entries.get(header.producer_id)
            if entry is not None and entry.current_txn_first_offset >= 0:
                assert entry.producer_epoch == header.producer_epoch, f"{txn} writes into another transaction"
            self.state.update(header, len(self.log))
            self.verification_guards.opened(header.producer_id)
            self.log.append((*txn.pair, sequence, txn))
        return ErrorCode.NONE

    def mark(self, marker: Any, broker_id: int) -> ErrorCode:
        if broker_id != self.broker_id:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        entry = self.state.entries.get(marker.producer_id)
        code = partition_rules.check_marker(
            entry, marker.producer_epoch, marker.coordinator_epoch, marker.transaction_version
        )
        if code:
            return code
        decided = (marker.producer_id, marker.producer_epoch, marker.transaction_result)
        assert decided in self.world.prepared, f"marker {decided} of what was not prepared"
        header = header_of(marker.producer_id, marker.producer_epoch, -1, is_control=True)
        aborted = not marker.transaction_result
        self.state.end_transaction(header, len(self.log), marker.coordinator_epoch, aborted=aborted)
        self.verification_guards.ended(marker.producer_id, marker.producer_epoch)
        self.log.append((marker.producer_id, marker.transaction_result))
        return ErrorCode.NONE


class Coordinator:
    """A shard and its marker queue while they lead. Replies and markers wait for the commit."""

    def __init__(self, world: World, epoch: int, queue: MarkerQueue | None = None) -> None:
        self.world = world
        self.epoch = epoch
        self.shard = world.replayed(epoch)
        self.queue = queue or MarkerQueue(lambda topic, index: world.leaders[topic, index].broker_id)
        self.pending: deque[tuple[int, Outcome, Answer]] = deque()
        self.is_deposed = False
        self.take(self.shard.loaded(world.now_ms), lambda reply: None)

    def take(self, outcome: Outcome, answer: Answer) -> None:
        world = self.world
        world.log += [encode_record(key, value) for key, value in outcome.records]
        end = len(world.log)
        self.pending.append((end, outcome, answer))
        if outcome.records:
            world.at(world.random.randrange(1, 60), lambda: self.commit(end))
        self.release()

    def commit(self, end: int) -> None:
        if not self.is_deposed:
            self.world.commit(end)
            self.release()

    def release(self) -> None:
        while self.pending and self.pending[0][0] <= self.world.committed:
            _, outcome, answer = self.pending.popleft()
            for markers in outcome.effects:
                self.queue.add(OWNER, markers, self.world.now_ms)
            answer(outcome.reply)
        self.pump()

    def pump(self) -> None:
        if self.is_deposed:
            return
        for request in self.queue.take_requests(self.world.now_ms):
            self.world.send_markers(self, request)
        for owner, markers in self.queue.take_done():
            assert owner == OWNER
            self.take(self.shard.markers_written(markers, self.world.now_ms), lambda reply: None)

    def wake(self) -> None:
        wake_ms = self.shard.next_wake_ms
        if wake_ms is not None and wake_ms <= self.world.now_ms:
            self.take(self.shard.tick(self.world.now_ms), lambda reply: None)
        self.pump()

    def depose(self) -> None:
        """Stop leading; waiting clients get no response and find the next coordinator."""
        self.is_deposed = True
        for _, _, answer in self.pending:
            answer(None)
        self.pending.clear()


class World:
    def __init__(self, seed: int, version: int, partitions: int = 3) -> None:
        self.random = Random(seed)
        self.version = version
        self.config = TransactionsConfig(
            broker_config({"node.id": "1", "transaction.two.phase.commit.enable": "true"})
        )
        self.now_ms = START_MS
        self.is_calm = False
        self.remakes = 0
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._sequence = count()
        self.fresh_ids = count(100)
        self.log: list[tuple[bytes, bytes | None]] = []
        self.committed = 0
        # What committed records have decided: producer id, epoch of the markers, commit or abort.
        self.prepared: dict[tuple[int, int, bool], None] = {}
        self.leaders = {("x", index): Leader(self, ("x", index)) for index in range(partitions)}
        self.coordinator = Coordinator(self, 1)

    # Time.

    def at(self, delay_ms: int, action: Callable[[], None]) -> None:
        heappush(self._events, (self.now_ms + delay_ms, next(self._sequence), action))

    def run(self, duration_ms: int) -> None:
        end_ms = self.now_ms + duration_ms
        while self._events and self._events[0][0] <= end_ms:
            self.now_ms, _, action = heappop(self._events)
            action()
        self.now_ms = end_ms

    def tick(self) -> None:
        self.coordinator.wake()
        self.at(20 if not self.is_calm else 500, self.tick)

    # The log of the coordinator.

    def replayed(self, epoch: int, end: int | None = None) -> TransactionShard:
        shard = TransactionShard(self.config, epoch)
        for key, value in self.log[:end]:
            shard.apply_bytes(key, value, 0)
        return shard

    def commit(self, end: int) -> None:
        for key, value in self.log[self.committed : end]:
            decoded = decode_record(key, value)
            assert decoded is not None
            if decoded[1] is None:
                continue
            found = Transaction.of("", decoded[1])  # type: ignore[arg-type]
            if found.state in PREPARED:
                committed = found.state == PREPARE_COMMIT
                decision = (found.producer_id, found.producer_epoch)
                if found.client_version > 0:
                    assert (*decision, not committed) not in self.prepared, f"two decisions for {decision}"
                self.prepared[*decision, committed] = None
        self.committed = max(self.committed, end)

    def fail_over(self) -> None:
        """Fail over to another leader, which may have uncommitted records."""
        before = self.coordinator
        assert state_of(self.replayed(before.epoch)) == state_of(before.shard)
        kept = self.random.randint(self.committed, len(self.log))
        del self.log[kept:]
        self.commit(kept)
        before.depose()
        self.coordinator = Coordinator(self, before.epoch + 1)

    def remake(self) -> None:
        """Replace the coordinator on the same leader after a failed write; it reloads the log."""
        before = self.coordinator
        before.depose()
        before.queue.drop(OWNER)
        self.remakes += 1
        self.coordinator = Coordinator(self, before.epoch, before.queue)
        end = len(self.log)
        coordinator = self.coordinator
        self.at(self.random.randrange(1, 60), lambda: coordinator.commit(end))

    def move_a_leader(self) -> None:
        leader = self.random.choice([*self.leaders.values()])
        leader.move(self.random.choice([1, 2, NO_LEADER]))
        if self.random.random() < 0.5:
            self.coordinator.queue.leaders_changed(self.now_ms)

    # The network.

    def _fate(self) -> tuple[bool, bool, bool]:
        """Draw whether the request is lost, the response is lost, and the request is late."""
        if self.is_calm:
            return False, False, False
        draw = self.random.random()
        return draw < 0.04, 0.04 <= draw < 0.08, self.version == 2 and 0.08 <= draw < 0.14

    def send(self, action: Callable[[Answer], None], answer: Answer) -> None:
        """Run a remote call; the response is None if it is not in time."""
        is_lost, is_mute, is_late = self._fate()
        delay_ms = self.random.randrange(1, 30)
        if is_lost:
            self.at(delay_ms, lambda: answer(None))
        elif is_late:
            self.at(delay_ms, lambda: answer(None))
            self.at(self.random.randrange(delay_ms, LATE_MS), lambda: action(lambda reply: None))
        else:
            back_ms = self.random.randrange(1, 30)

            def arrived(reply: Any) -> None:
                self.at(back_ms, lambda: answer(None if is_mute else reply))

            self.at(delay_ms, lambda: action(arrived))

    def call(
        self,
        decide: Callable[[TransactionShard, int, int], Outcome],
        answer: Answer,
        released: Answer = lambda reply: None,
    ) -> None:
        """Call the current coordinator. `released` sees the reply even if it is lost."""

        def arrived(reply: Answer, fresh_id: int = -1) -> None:
            outcome = decide(self.coordinator.shard, self.now_ms, fresh_id)
            if outcome.reply is NEEDS_PRODUCER_ID:
                # Allocating one takes time, in which other events may happen.
                fresh_id = next(self.fresh_ids)
                self.at(self.random.randrange(1, 40), lambda: arrived(reply, fresh_id))
            else:
                self.coordinator.take(outcome, lambda found: (released(found), reply(found)))

        self.send(arrived, answer)

    def send_markers(self, coordinator: Coordinator, request: MarkerRequest) -> None:
        message = type(request.message).decode(2, request.message.encode(2))
        queue, remakes = coordinator.queue, self.remakes

        def arrived(reply: Answer) -> None:
            if self.version == 1 and self.remakes > remakes and self.coordinator.epoch == coordinator.epoch:
                reply(None)  # lost with its connection
                return
            results = [
                WritableTxnMarkerResult(
                    producer_id=marker.producer_id,
                    topics=[
                        WritableTxnMarkerTopicResult(
                            name=topic.name,
                            partitions=[
                                WritableTxnMarkerPartitionResult(
                                    partition_index=index,
                                    error_code=self.leaders[topic.name, index].mark(
                                        marker, request.broker_id
                                    ),
                                )
                                for index in topic.partition_indexes
                            ],
                        )
                        for topic in marker.topics
                    ],
                )
                for marker in message.markers
            ]
            reply(WriteTxnMarkersResponse(markers=results))

        def answered(response: Any) -> None:
            if response is None:
                queue.failed(request, self.now_ms)
            else:
                queue.answered(request, response, self.now_ms)
            if self.coordinator.queue is queue:
                self.coordinator.pump()

        # Delayed but not dropped: only a later coordinator sends the same marker in between.
        slow_ms = self.random.choice([0] * 9 + [LATE_MS]) if not self.is_calm else 0
        self.at(self.random.randint(0, slow_ms), lambda: self.send(arrived, answered))

    # Final checks.

    def calm_down(self) -> None:
        self.is_calm = True
        for leader in self.leaders.values():
            if leader.broker_id == NO_LEADER:
                leader.move(1)
        self.coordinator.queue.leaders_changed(self.now_ms)

    def check_rest(self) -> None:
        """Check that no transaction is open."""
        assert self.committed == len(self.log)
        assert len(self.coordinator.queue) == 0
        for transaction in self.coordinator.shard.context.transactions.values():
            assert transaction.state not in (ONGOING, *PREPARED), transaction
        for where, leader in self.leaders.items():
            assert not [*leader.state.ongoing()], f"{where} has a hanging transaction"
        assert state_of(self.replayed(self.coordinator.epoch)) == state_of(self.coordinator.shard)

    def results(self) -> dict[Txn, dict[tuple[TopicPartition, int], bool]]:
        """Check what readers see: the next marker of its producer decides about each batch."""
        found: dict[Txn, dict[tuple[TopicPartition, int], bool]] = {}
        for where, leader in self.leaders.items():
            open_batches: dict[int, list[tuple[int, Txn]]] = {}
            for entry in leader.log:
                if len(entry) == 4:
                    producer_id, _, sequence, txn = entry
                    open_batches.setdefault(producer_id, []).append((sequence, txn))
                else:
                    producer_id, committed = entry
                    for sequence, txn in open_batches.pop(producer_id, ()):
                        found.setdefault(txn, {})[where, sequence] = committed
        return found

    def check_results(self, txns: list[Txn]) -> None:
        results = self.results()
        for txn in txns:
            seen = results.get(txn, {})
            assert len({*seen.values()}) <= 1, f"{txn} is partly visible: {seen}"
            committed = True in seen.values()
            assert not committed or txn.asked_to_commit, f"{txn} was never to be committed"
            if committed:
                assert [each for each in txn.acked if each not in seen] == [], f"{txn} lost a write"
            if txn.commit_acked:
                assert committed, f"{txn} was acknowledged and is missing"
