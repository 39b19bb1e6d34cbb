"""The end of a scenario of transactions: wait until all are ended, then read everything."""

from __future__ import annotations

import asyncio
from typing import Any

from ottla.protocol.messages.list_transactions_request import ListTransactionsRequest
from ottla.protocol.messages.list_transactions_response import ListTransactionsResponse
from simulator.clients.base import Client, RetryLater
from simulator.history.groups import GROUP_TOPIC
from simulator.history.operations import PartitionName
from simulator.history.transactions import TxnLedger
from simulator.inspection import undecided_partitions
from simulator.scenarios.final_state import in_time
from simulator.transactions.readers import LogReader, TxnReader
from simulator.world import World

QUIET_WITHIN_S = 30.0
IDLE_STATES = ("Empty", "CompleteCommit", "CompleteAbort")


class FinalState:
    def __init__(self, world: World, ledger: TxnLedger) -> None:
        self.world = world
        self.ledger = ledger
        self._lister = Client(world, "lister")

    async def wait_until_idle(self) -> bool:
        """Wait until abandoned transactions time out; record those that do not end."""
        if self.ledger.hanging:
            return False
        loop = self.world.loop
        until_s = loop.time() + QUIET_WITHIN_S
        while (found := await self._busy()) and loop.time() < until_s:  # noqa: ASYNC110
            await asyncio.sleep(0.2)
        self.ledger.hanging += found
        return not found

    async def _busy(self) -> list[str]:
        topics = (self.ledger.topic, GROUP_TOPIC)
        return undecided_partitions(self.world, topics) or await self.in_time(self._running(), self._lister)

    async def _running(self) -> list[str]:
        """List the transactions that coordinators report as not ended."""
        client = self._lister
        found: list[str] = []
        for node in self.world.brokers:
            while True:
                try:
                    answer = await client.request_from(
                        node.host_port, ListTransactionsRequest(), ListTransactionsResponse
                    )
                    if not answer.error_code:
                        break
                except RetryLater:
                    pass
                await client.back_off()
            found += [
                f"{each.transactional_id} is in {each.transaction_state}"
                for each in answer.transaction_states
                if each.transaction_state not in IDLE_STATES
            ]
        return found

    async def read_all(self, name: str) -> bool:
        """Read everything under read_committed, and the logs."""
        ledger, history = self.ledger, self.world.history
        reader = TxnReader(self.world, name, ledger)
        log_reader = LogReader(self.world, f"{name} log", ledger.topic, ledger.partitions)
        found: dict[PartitionName, list[tuple[int, str]]] = {}
        for index in range(ledger.partitions):
            partition = PartitionName(ledger.topic, index)
            operation = history.invoke(name, "final-read", partition)
            read = await self.in_time(reader.read_all(index), reader)
            log = await self.in_time(log_reader.read_log(index), log_reader)
            if read is None or log is None:
                operation.fail("timed out")
                return False
            operation.ok(len(read))
            found[partition], ledger.logs[partition] = read, log
        ledger.final[name] = found
        return True

    async def in_time(self, work: Any, client: Client) -> Any:
        return await in_time(self.world.spawn(client.process, work))
