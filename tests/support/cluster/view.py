"""The state of a cluster, read synchronously."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import TypeVar

from ottla.client import Admin, NewTopic, PartitionState, QuorumInfo
from ottla.client.errors import ClientError
from tests.support.waiting import wait_until

T = TypeVar("T")


class ClusterView:
    def __init__(self, bootstrap_servers: str) -> None:
        self.servers = bootstrap_servers

    def ask(self, question: Callable[[Admin], Awaitable[T]]) -> T:
        async def main() -> T:
            async with Admin(self.servers) as admin:
                return await question(admin)

        return asyncio.run(main())

    def partitions(self, topic: str) -> dict[int, PartitionState]:
        states = self.ask(lambda admin: admin.describe_topic_partitions([topic]))
        return states[topic].partitions

    def leader(self, topic: str, partition: int = 0) -> int:
        return self.partitions(topic)[partition].leader

    def create(self, topic: str, *replicas: list[int], **configs: str) -> None:
        """Create a topic with these replicas; config names have underscores for dots."""
        settings = {name.replace("_", "."): value for name, value in configs.items()}
        new = NewTopic(topic, assignments=dict(enumerate(replicas)), configs=settings)

        async def work(admin: Admin) -> None:
            await admin.create_topics([new])
            await admin.wait_for_topic(topic)

        self.ask(work)

    def set_configs(self, topic: str, values: Mapping[str, str]) -> None:
        self.ask(lambda admin: admin.alter_topic_configs(topic, values=values))

    def quorum(self) -> QuorumInfo:
        return self.ask(lambda admin: admin.describe_quorum())

    def await_isr(self, topic: str, size: int, timeout_s: float = 30.0) -> None:
        """Wait until every partition of the topic has `size` in-sync replicas."""

        def reached() -> bool:
            try:
                states = self.partitions(topic).values()
            except ClientError:
                return False
            return all(len(state.isr) == size for state in states)

        wait_until(reached, f"{size} replicas in sync in all partitions of {topic}", timeout_s)

    def await_partition(
        self, topic: str, condition: Callable[[PartitionState], bool], what: str, timeout_s: float = 30.0
    ) -> PartitionState:
        """Wait until the first partition of the topic satisfies `condition`."""
        seen: list[PartitionState] = []

        def reached() -> bool:
            try:
                seen.append(self.partitions(topic)[0])
            except ClientError:
                return False
            return condition(seen[-1])

        try:
            wait_until(reached, f"{topic}-0: {what}", timeout_s)
        except AssertionError as error:
            raise AssertionError(f"{error}; {seen[-1:]}") from None
        return seen[-1]

    def await_leader(self, topic: str, leader: int, timeout_s: float = 30.0) -> PartitionState:
        return self.await_partition(topic, lambda each: each.leader == leader, f"led by {leader}", timeout_s)
