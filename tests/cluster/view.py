"""What a cluster says of itself, asked synchronously."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from load import wait_until

from ottla.client import Admin
from ottla.client.admin_types import PartitionState, QuorumInfo
from ottla.client.errors import ClientError

T = TypeVar("T")


class ClusterView:
    def __init__(self, bootstrap_servers: str) -> None:
        self._bootstrap_servers = bootstrap_servers

    def ask(self, question: Callable[[Admin], Awaitable[T]]) -> T:
        async def main() -> T:
            async with Admin(self._bootstrap_servers) as admin:
                return await question(admin)

        return asyncio.run(main())

    def partitions(self, topic: str) -> dict[int, PartitionState]:
        states = self.ask(lambda admin: admin.describe_topic_partitions([topic]))
        return states[topic].partitions

    def leader(self, topic: str, partition: int = 0) -> int:
        return self.partitions(topic)[partition].leader

    def quorum(self) -> QuorumInfo:
        return self.ask(lambda admin: admin.describe_quorum())

    def await_isr(self, topic: str, size: int, timeout_s: float = 30.0) -> None:
        """Until every partition of the topic has so many replicas in sync."""

        def reached() -> bool:
            try:
                states = self.partitions(topic).values()
            except ClientError:
                return False
            return all(len(state.isr) == size for state in states)

        wait_until(reached, timeout_s, f"{size} replicas in sync in all partitions of {topic}")
