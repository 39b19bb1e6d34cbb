"""A shard with a log, a clock and producer ids; every event becomes a line of a transcript."""

from __future__ import annotations

from itertools import count
from typing import Any

from ottla.config.load import broker_config
from ottla.machines.outcome import Outcome, RequestContext
from ottla.protocol.errors import ErrorCode
from ottla.protocol.message import Message, Struct
from ottla.protocol.messages.add_offsets_to_txn_request import AddOffsetsToTxnRequest
from ottla.protocol.messages.add_partitions_to_txn_request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from ottla.protocol.messages.end_txn_request import EndTxnRequest
from ottla.protocol.messages.init_producer_id_request import InitProducerIdRequest
from ottla.transactions.add import response_of, transactions_of
from ottla.transactions.config import TransactionsConfig
from ottla.transactions.markers import NEEDS_PRODUCER_ID, Markers
from ottla.transactions.record_codec import encode_record
from ottla.transactions.shard import TransactionShard
from ottla.transactions.transaction import STATE_NAMES, Transaction

START_MS = 1_000_000
ID = "t"
V1 = 4  # of EndTxn
V2 = 5


class Harness:
    def __init__(self, **properties: str) -> None:
        given = {name.replace("_", "."): value for name, value in properties.items()}
        self.config = TransactionsConfig(broker_config({"node.id": "1", **given}))
        self.now_ms = START_MS
        self.log: list[tuple[bytes, bytes | None]] = []
        self.lines: list[str] = []
        self.markers: list[Markers] = []
        self.epoch = 7
        self.ids = count(100)
        self.shard = TransactionShard(self.config, self.epoch)
        self.take(self.shard.loaded(self.now_ms))

    def reload(self) -> None:
        """Fail over to another coordinator, which has only the log."""
        self.epoch += 1
        self.markers = []
        self.shard = self.replayed()
        self.take(self.shard.loaded(self.now_ms))

    def replayed(self) -> TransactionShard:
        shard = TransactionShard(self.config, self.epoch)
        for key, value in self.log:
            shard.apply_bytes(key, value, 0)
        return shard

    def take(self, outcome: Outcome) -> Any:
        assert outcome.reply is not NEEDS_PRODUCER_ID
        for key, value in outcome.records:
            self.log.append(encode_record(key, value))
            self.lines.append(_record_line(key, value))
        self.markers += outcome.effects
        for markers in outcome.effects:
            result = "commit" if markers.committed else "abort"
            where = " ".join(f"{topic}-{partition}" for topic, partition in markers.partitions)
            self.lines.append(
                f"-> {result} {markers.producer_id}/{markers.producer_epoch} v{markers.transaction_version} "
                f"in {where}"
            )
        return outcome.reply

    def transcript(self) -> list[str]:
        lines, self.lines = self.lines, []
        return lines

    @property
    def transaction(self) -> Transaction:
        found = self.shard.transaction(ID)
        assert found is not None
        return found

    # Events.

    def wait(self, duration_ms: int) -> None:
        end_ms = self.now_ms + duration_ms
        while (wake_ms := self.shard.next_wake_ms) is not None and wake_ms <= end_ms:
            self.now_ms = max(wake_ms, self.now_ms)
            self.take(self.shard.tick(self.now_ms))
        self.now_ms = end_ms

    def written(self) -> None:
        """All markers arrive."""
        markers, self.markers = self.markers, []
        for each in markers:
            self.take(self.shard.markers_written(each, self.now_ms))

    def ask(self, api: str, request: Message, version: int) -> Any:
        # As on the wire: without fields that the version does not have.
        request = type(request).decode(version, request.encode(version))
        ctx = RequestContext(api_version=version)
        decide = getattr(self.shard, f"decide_{api}")
        outcome = decide(request, ctx, self.now_ms)
        if outcome.reply is NEEDS_PRODUCER_ID:
            assert not outcome.records and not outcome.effects
            outcome = decide(request, ctx, self.now_ms, fresh_id=next(self.ids))
        reply = self.take(outcome)
        assert isinstance(reply, Message)
        return type(reply).decode(version, reply.encode(version))

    def init(
        self,
        expected: tuple[int, int] = (-1, -1),
        *,
        version: int = 5,
        timeout_ms: int = 60_000,
        name: str = ID,
        **fields: bool,
    ) -> tuple[int, int]:
        request = InitProducerIdRequest(
            transactional_id=name,
            transaction_timeout_ms=timeout_ms,
            producer_id=expected[0],
            producer_epoch=expected[1],
            **fields,
        )
        reply = self.ask("init_producer_id", request, version)
        line = f"init: {_code(reply)}"
        if not reply.error_code:
            line = f"init: {reply.producer_id}/{reply.producer_epoch}"
        if reply.ongoing_txn_producer_id >= 0:
            line += f", ongoing {reply.ongoing_txn_producer_id}/{reply.ongoing_txn_producer_epoch}"
        self.lines.append(line)
        return reply.producer_id, reply.producer_epoch

    def add(
        self,
        pair: tuple[int, int],
        *partitions: int,
        version: int = 3,
        name: str = ID,
        verify_only: bool = False,
        refused: dict[tuple[str, int], ErrorCode] | None = None,
    ) -> str:
        topics = [AddPartitionsToTxnTopic(name="x", partitions=[*partitions])]
        if version <= 3:
            request = AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=name,
                v3_and_below_producer_id=pair[0],
                v3_and_below_producer_epoch=pair[1],
                v3_and_below_topics=topics,
            )
        else:
            requested = AddPartitionsToTxnTransaction(
                transactional_id=name,
                producer_id=pair[0],
                producer_epoch=pair[1],
                verify_only=verify_only,
                topics=topics,
            )
            request = AddPartitionsToTxnRequest(transactions=[requested])
        request = AddPartitionsToTxnRequest.decode(version, request.encode(version))
        results: list[Any] = []
        for each in transactions_of(request, version):
            ctx = RequestContext(api_version=version)
            outcome = self.shard.decide_add_partitions(each, ctx, self.now_ms, refused or {})
            results.append(self.take(outcome))
        response = response_of(results, version)
        response = type(response).decode(version, response.encode(version))
        found: list[Struct] = [
            *response.results_by_topic_v3_and_below,
            *(topic for each in response.results_by_transaction for topic in each.topic_results),
        ]
        codes = {
            partition.partition_index: ErrorCode(partition.partition_error_code).name
            for topic in found
            for partition in topic.results_by_partition  # type: ignore[attr-defined]
        }
        assert [*codes] == [*partitions]
        same = {*codes.values()}
        shown = same.pop() if len(same) == 1 else " ".join(codes.values())
        self.lines.append(f"{'verify' if verify_only else 'add'}: {shown}")
        return shown

    def offsets(self, pair: tuple[int, int], version: int = 4) -> str:
        request = AddOffsetsToTxnRequest(
            transactional_id=ID, producer_id=pair[0], producer_epoch=pair[1], group_id="g"
        )
        ctx = RequestContext(api_version=version)
        outcome = self.shard.decide_add_offsets(request, ctx, self.now_ms, ("__consumer_offsets", 3))
        code = _code(self.take(outcome))
        self.lines.append(f"offsets: {code}")
        return code

    def end(self, pair: tuple[int, int], committed: bool, version: int = V1) -> tuple[int, int]:
        request = EndTxnRequest(
            transactional_id=ID, producer_id=pair[0], producer_epoch=pair[1], committed=committed
        )
        reply = self.ask("end_txn", request, version)
        line = f"{'commit' if committed else 'abort'}: {_code(reply)}"
        if reply.producer_id >= 0:
            line += f", next {reply.producer_id}/{reply.producer_epoch}"
        self.lines.append(line)
        return reply.producer_id, reply.producer_epoch

    def set_epoch(self, producer_epoch: int) -> tuple[int, int]:
        """Set the epoch, as if the id had been used that often."""
        changed = self.transaction.copy()
        changed.producer_epoch = producer_epoch
        self.log.append(encode_record(changed.key(), changed.value()))
        self.shard.apply(changed.key(), changed.value(), 0)
        return changed.producer_id, producer_epoch


def _code(reply: Any) -> str:
    return "ok" if not reply.error_code else ErrorCode(reply.error_code).name


def _record_line(key: Any, value: Any) -> str:
    if value is None:
        return f"({key.transactional_id} is gone)"
    line = f"({STATE_NAMES[value.transaction_status]} {value.producer_id}/{value.producer_epoch}"
    if value.next_producer_id >= 0:
        line += f", next {value.next_producer_id}/{value.next_producer_epoch}"
    where = [f"{each.topic}-{each.partition_ids}" for each in value.transaction_partitions or ()]
    return f"{line}{':' if where else ''} {' '.join(where)}".rstrip() + ")"


def state_of(shard: TransactionShard) -> dict[str, dict[str, Any]]:
    return {
        name: {slot: getattr(each, slot) for slot in Transaction.__slots__}
        for name, each in shard.context.transactions.items()
    }
