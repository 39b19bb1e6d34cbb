"""Requests that no client would send: answered, never an exception, and nothing of the state is spoiled."""

from __future__ import annotations

from itertools import count
from random import Random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ottla.machines.outcome import Outcome, RequestContext
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.add_offsets_to_txn_request import AddOffsetsToTxnRequest
from ottla.protocol.messages.add_partitions_to_txn_request import (
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from ottla.protocol.messages.end_txn_request import EndTxnRequest
from ottla.protocol.messages.init_producer_id_request import InitProducerIdRequest
from ottla.transactions.markers import NEEDS_PRODUCER_ID
from ottla.transactions.transaction import CLIENT_EPOCH_MAX, ONGOING, PREPARED
from tests.support.transactions.harness import Harness, state_of

IDS = (-1, 0, 100, 101, 102, 2**63 - 1)
EPOCHS = (-1, 0, 1, 2, 3, 32764, 32765, 32766, 32767)


class Attacker:
    """Knows the pairs of others, and guesses the rest."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.harness = Harness(transaction_two_phase_commit_enable="true")
        self.fresh_ids = count(100)

    def pair(self, name: str) -> tuple[int, int]:
        found = self.harness.shard.transaction(name)
        draw = self.random.random()
        if found is not None and draw < 0.6:
            return found.client
        if found is not None and draw < 0.7:
            return found.producer_id, min(found.producer_epoch + self.random.choice([-1, 0, 1]), 32767)
        return self.random.choice(IDS), self.random.choice(EPOCHS)

    def request(self) -> Outcome:
        random, shard, now_ms = self.random, self.harness.shard, self.harness.now_ms
        name = random.choice(["a", "b", ""])
        producer_id, producer_epoch = self.pair(name)
        kind = random.randrange(4)
        ctx = RequestContext(api_version=random.randrange(7))
        identity: dict[str, Any] = {
            "transactional_id": name,
            "producer_id": producer_id,
            "producer_epoch": producer_epoch,
        }
        if kind == 0:
            if random.random() < 0.5:
                identity |= {"producer_id": -1, "producer_epoch": -1}
            request = InitProducerIdRequest(
                **identity,
                transaction_timeout_ms=random.choice([-1, 0, 1, 60_000, 900_000, 900_001, 2**31 - 1]),
                enable2_pc=random.random() < 0.3,
                keep_prepared_txn=random.random() < 0.3,
            )
            return self.decide(shard.decide_init_producer_id, request, ctx)
        if kind == 1:
            indexes = random.choices([-1, 0, 1, 2**31 - 1], k=random.randrange(4))
            topics = [AddPartitionsToTxnTopic(name=random.choice(["x", ""]), partitions=indexes)]
            requested = AddPartitionsToTxnTransaction(
                **identity, topics=topics * random.randrange(3), verify_only=random.random() < 0.3
            )
            return shard.decide_add_partitions(requested, ctx, now_ms)
        if kind == 2:
            offsets = AddOffsetsToTxnRequest(**identity, group_id="g")
            return shard.decide_add_offsets(offsets, ctx, now_ms, ("__consumer_offsets", 0))
        end = EndTxnRequest(**identity, committed=random.random() < 0.5)
        return self.decide(shard.decide_end_txn, end, ctx)

    def decide(self, decide: Any, request: Any, ctx: RequestContext) -> Outcome:
        outcome: Outcome = decide(request, ctx, self.harness.now_ms)
        if outcome.reply is NEEDS_PRODUCER_ID:
            assert not outcome.records and not outcome.effects
            outcome = decide(request, ctx, self.harness.now_ms, next(self.fresh_ids))
        assert outcome.reply is not NEEDS_PRODUCER_ID
        return outcome

    def step(self) -> None:
        harness, random = self.harness, self.random
        draw = random.random()
        before = state_of(harness.shard)
        if draw < 0.1:
            harness.written()
        elif draw < 0.14:
            harness.reload()
        elif draw < 0.2:
            harness.wait(random.choice([1, 60_000, 900_000]))
        elif draw < 0.24 and (found := harness.shard.transaction("a")) is not None:
            if found.state not in (ONGOING, *PREPARED):
                changed = found.copy()
                changed.producer_epoch = random.choice([32764, 32765, 32766])
                harness.shard.apply(changed.key(), changed.value(), 0)
                harness.take(_recorded(changed))
        else:
            outcome = self.request()
            code = getattr(outcome.reply, "error_code", 0)
            if code != ErrorCode.CONCURRENT_TRANSACTIONS and code:
                assert not outcome.records, "refused, and yet something was written"
                assert state_of(harness.shard) == before
            harness.take(outcome)
        self.check()

    def check(self) -> None:
        for found in self.harness.shard.context.transactions.values():
            assert found.producer_id >= 0 and found.producer_epoch >= 0
            if found.state == ONGOING:
                assert found.client[1] <= CLIENT_EPOCH_MAX
                assert found.partitions


def _recorded(changed: Any) -> Outcome:
    outcome = Outcome()
    outcome.records.append((changed.key(), changed.value()))
    return outcome


@given(seed=st.integers(0, 2**32))
def test_hostile_requests_break_no_invariant(seed: int) -> None:
    attacker = Attacker(seed)
    for _ in range(150):
        attacker.step()
    harness = attacker.harness
    assert state_of(harness.replayed()) == state_of(harness.shard)
    # Every open transaction can be ended.
    harness.written()
    harness.reload()
    harness.written()
    for found in [*harness.shard.context.transactions.values()]:
        assert found.state not in PREPARED
        if found.state == ONGOING:
            harness.init(name=found.transactional_id)
            harness.written()
        harness.transcript()
        harness.init(name=found.transactional_id)
        now = harness.shard.transaction(found.transactional_id)
        assert now is not None and now.state == 0
