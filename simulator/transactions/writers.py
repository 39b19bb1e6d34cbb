"""Producers that write transactions: transfers between accounts, and workers that transform an input topic.

A transfer is a transaction whose records sum to zero, each in the partition of its account. A worker reads a
partition of the input, starting at the group's offset, and writes its output and its new offset in one
transaction. Its transactional id belongs to the input partition, so that the next worker fences this one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from ottla.protocol.errors import RETRIABLE, ErrorCode
from ottla.protocol.messages.add_offsets_to_txn_request import AddOffsetsToTxnRequest
from ottla.protocol.messages.add_offsets_to_txn_response import AddOffsetsToTxnResponse
from ottla.protocol.messages.txn_offset_commit_request import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from ottla.protocol.messages.txn_offset_commit_response import TxnOffsetCommitResponse
from simulator.clients.base import RetryLater
from simulator.groups.members import GroupClient
from simulator.history.groups import GroupHistory
from simulator.history.operations import PartitionName
from simulator.history.transactions import COMMITTED, TxnEntry, TxnLedger
from simulator.transactions.client import V2, Fenced, MustAbort, TxnClient
from simulator.world import World

COMMIT_CHANCE = 0.7
STALL_CHANCE = 0.08  # during a transaction, perhaps for longer than its timeout
AMOUNT_MAX = 50
BATCHES_MAX = 3
PAUSE_S = (0.0, 0.15)
THINK_S = (0.0, 0.03)
INPUTS_MAX = 6
IDLE_S = 0.1
WATCH_LAG_S = 0.05  # a new coordinator may be observed this much later
TXN_OFFSET_COMMIT_V1, TXN_OFFSET_COMMIT_V2 = 4, 5
OFFSETS_WITHIN_S = (0.5, 5.0)


class TxnWriter(TxnClient):
    """Writes transfers until it is fenced or `stopping`."""

    async def run(self) -> None:
        try:
            await self.start()
            while not self.stopping:
                await self.transact()
                await self.renew()
                await asyncio.sleep(self.rng.uniform(*PAUSE_S))
        except Fenced as error:
            self.ledger.trace(self.instance, f"is fenced: {error}")
            self.is_fenced = True
        self.ended = True

    async def start(self) -> None:
        await self.init()

    async def transact(self) -> None:
        entry = self.begin()
        commit = self.wants_commit()
        try:
            await self.fill(entry)
        except MustAbort as error:
            self.ledger.trace(self.instance, f"must abort {entry.name}: {error}")
            commit = False
        await self.end(entry, commit=commit)

    def wants_commit(self) -> bool:
        return self.ledger.is_ending or self.rng.random() < COMMIT_CHANCE

    async def fill(self, entry: TxnEntry) -> None:
        count = self.rng.randint(1, min(4, self.ledger.partitions))
        indexes = self.rng.sample(range(self.ledger.partitions), count)
        batches = self._transfers(entry, indexes)
        if self.rng.random() < 0.5:
            await self.add_partitions(indexes)
        stalls = self.rng.random() < STALL_CHANCE
        if self.rng.random() < 0.5:
            for index in indexes:
                await self._write_all(entry, index, batches[index])
        else:
            await _all(*(self._write_all(entry, index, batches[index]) for index in indexes))
        if stalls:
            await asyncio.sleep(self.rng.uniform(0.5, 1.5) * self.timeout_ms / 1000)

    def _transfers(self, entry: TxnEntry, indexes: list[int]) -> dict[int, list[list[str]]]:
        """Draw batches of records by account with a sum of zero."""
        plan = [(index, _) for index in indexes for _ in range(self.rng.randint(1, BATCHES_MAX))]
        total = number = 0
        batches: dict[int, list[list[str]]] = {index: [] for index in indexes}
        for index, _ in plan:
            values = []
            for _ in range(self.rng.randint(1, 3)):
                amount = self.rng.randint(-AMOUNT_MAX, AMOUNT_MAX)
                total += amount
                values.append(f"{entry.name}.{number}:{amount}")
                number += 1
            batches[index].append(values)
        batches[indexes[0]][0].append(f"{entry.name}.{number}:{-total}")
        return batches

    async def _write_all(self, entry: TxnEntry, index: int, batches: list[list[str]]) -> None:
        await self.add_partitions([index])
        for values in batches:
            await self.write(entry, index, values)
            await asyncio.sleep(self.rng.uniform(*THINK_S))


class TxnWorker(TxnWriter):
    """Transforms partition `index` of the group's topic."""

    def __init__(
        self,
        world: World,
        ledger: TxnLedger,
        transactional_id: str,
        version: int,
        timeout_ms: int,
        group: GroupHistory,
        index: int,
    ) -> None:
        super().__init__(world, ledger, transactional_id, version, timeout_ms)
        self.group = group
        self.index = index
        self.position = -1  # unknown
        self._input = GroupClient(world, f"{self.name} input", group)
        world.loop.end_process(self._input.process)  # it runs in this process

    async def transact(self) -> None:
        if self.position < 0:
            await self._find_position()
        found = await self._read()
        if not found:
            await asyncio.sleep(IDLE_S)
            return
        entry = self.begin()
        commit = self.wants_commit()
        next_offset = found[-1][0] + 1
        try:
            await self._transform(entry, found)
            await self._commit_offset(entry, next_offset)
        except MustAbort as error:
            self.ledger.trace(self.instance, f"must abort {entry.name}: {error}")
            commit = False
        await self.end(entry, commit=commit)
        self.position = next_offset if entry.outcome == COMMITTED else -1

    async def _find_position(self) -> None:
        """Fetch the group's offset from the current coordinator: a deposed one may return an old offset.

        No broker can prevent that; real programs avoid it by joining the group.
        """
        while True:
            try:
                offset = (await self._input.committed_offsets([self.index]))[self.index]
            except RetryLater:
                await self.back_off()
                continue
            node_id = self.group.fetched[-1].node_id
            await asyncio.sleep(WATCH_LAG_S)
            if self.ledger.is_ending or self.group.is_coordinator(node_id, self.ledger.now_ns):
                self.position = max(offset, 0)
                return

    async def _read(self) -> list[tuple[int, str]]:
        try:
            data = await self._input._fetch(self.index, self.position)
        except RetryLater:
            self._input.forget_leader(self.index)
            await self.back_off()
            return []
        name = PartitionName(self.group.topic, self.index)
        if data.error_code:
            self.world.history.surprise(self.instance, f"{name}@{self.position}: {data.error_code}")
            self.position = -1
            return []
        found = list(self._input._records(name, data, self.position))
        return found if self.ledger.is_ending else found[: self.rng.randint(1, INPUTS_MAX)]

    async def _transform(self, entry: TxnEntry, found: list[tuple[int, str]]) -> None:
        by_output: dict[int, list[str]] = {}
        for offset, value in found:
            output = self.rng.randrange(self.ledger.partitions)
            by_output.setdefault(output, []).append(f"{entry.name}={value}")
            entry.inputs.append(value)
            self.ledger.trace(self.instance, f"{entry.name} has {value} of {self.index}@{offset}")
        for output, values in by_output.items():
            await self._write_all(entry, output, [values])

    async def _commit_offset(self, entry: TxnEntry, offset: int) -> None:
        """Commit the offset in the transaction."""
        entry.offsets[self.index] = offset
        until_s = self.world.loop.time() + self.rng.uniform(*OFFSETS_WITHIN_S)
        if self.version < V2:
            await self._add_offsets(until_s)
        group_id = self.group.group_id
        row = TxnOffsetCommitRequestPartition(partition_index=self.index, committed_offset=offset)
        message = TxnOffsetCommitRequest(
            transactional_id=self.transactional_id,
            group_id=group_id,
            producer_id=self.pair[0],
            producer_epoch=self.pair[1],
            topics=[TxnOffsetCommitRequestTopic(name=self.group.topic, partitions=[row])],
        )
        at_most = TXN_OFFSET_COMMIT_V1 if self.version < V2 else TXN_OFFSET_COMMIT_V2
        invoked_ns = self.ledger.now_ns
        while self.world.loop.time() < until_s:
            try:
                answer = await self.request_coordinator(
                    message, TxnOffsetCommitResponse, at_most=at_most, group=group_id
                )
            except RetryLater:
                self.must_bump = True  # it may still arrive, in any transaction of this epoch
                await self.back_off()
                continue
            code = answer.topics[0].partitions[0].error_code
            if not code:
                what = f"offset {offset} of {self.index}"
                self.ledger.acknowledge(self.transactional_id, self.instance, self.pair, invoked_ns, what)
                return
            self._handle_offsets_error(code)
            await self.back_off()
        raise MustAbort("TxnOffsetCommit timed out")

    def _handle_offsets_error(self, code: int) -> None:
        if code == ErrorCode.INVALID_PRODUCER_EPOCH:
            raise MustAbort(f"TxnOffsetCommit: {code}")
        self._handle_error("TxnOffsetCommit", code)
        if code in RETRIABLE:
            self._coordinators.clear()

    async def _add_offsets(self, until_s: float) -> None:
        message = AddOffsetsToTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.pair[0],
            producer_epoch=self.pair[1],
            group_id=self.group.group_id,
        )
        self._may_be_added = True
        while self.world.loop.time() < until_s:
            try:
                answer = await self.request_coordinator(message, AddOffsetsToTxnResponse)
            except RetryLater:
                await self.back_off()
                continue
            if not answer.error_code:
                return
            self._handle_error("AddOffsetsToTxn", answer.error_code)
            await self.back_off()
        raise MustAbort("AddOffsetsToTxn timed out")


async def _all(*parts: Coroutine[Any, Any, None]) -> None:
    """Wait for all, then raise the first error, preferring Fenced.

    The process may be killed in between: no task may be left with an exception that is never retrieved.
    """
    errors = [error for error in await asyncio.gather(*map(_error_of, parts)) if error is not None]
    errors.sort(key=lambda error: not isinstance(error, Fenced))
    if errors:
        raise errors[0]


async def _error_of(part: Coroutine[Any, Any, None]) -> Exception | None:
    try:
        await part
    except (Fenced, MustAbort) as error:
        return error
    return None
