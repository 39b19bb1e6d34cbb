"""Several brokers under test, started as `ottla cluster` starts them, without a supervisor process."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Mapping
from types import TracebackType
from typing import Self, TypeVar

from bench.broker import BenchError, Broker, Launch
from ottla.client import ELECT_PREFERRED, Admin, NewTopic, PartitionState
from ottla.client.errors import ClientError
from ottla.launch.local_cluster import Member, member_properties, new_cluster_id
from ottla.testing.ports import free_ports

HOST = "127.0.0.1"
LOOK_SECONDS = 0.02
AWAIT_SECONDS_MAX = 60

T = TypeVar("T")


class Cluster:
    """Brokers 0, 1, 2, ... with the defaults of `ottla cluster`."""

    def __init__(self, launch: Launch, brokers: int = 3, settings: Mapping[str, str] | None = None) -> None:
        self._launch = launch
        ports = iter(free_ports(2 * brokers, HOST))
        members = [Member(node_id, next(ports), next(ports)) for node_id in range(brokers)]
        cluster_id = new_cluster_id()
        self.brokers = [Broker(launch, label=f"broker {member.node_id}") for member in members]
        for broker, member in zip(self.brokers, members, strict=True):
            broker.settings = member_properties(
                member, members, cluster_id=cluster_id, data_dir=broker.data_dir, settings=settings or {}
            )
            broker.address = f"{HOST}:{member.client_port}"
        self.start_s = 0.0

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException as error:
            self.__exit__(type(error), error, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None and self._launch.profiles is not None:
                self.stop()  # profiles are written at a clean stop
        finally:
            for broker in self.brokers:
                broker.kill()
                broker.remove()

    @property
    def address(self) -> str:
        return ",".join([broker.address for broker in self.brokers])

    @property
    def directory(self) -> str:
        """A directory on the same file system as the data."""
        return self.brokers[0].directory

    def start(self) -> None:
        """Start all brokers in parallel; `start_s` is the time until the last one is ready."""
        began_s = time.perf_counter()
        for broker in self.brokers:
            broker.begin_start()
        for broker in self.brokers:
            broker.await_ready()
        self.start_s = time.perf_counter() - began_s

    def stop(self) -> float:
        """Stop all brokers cleanly, in parallel; return the duration."""
        began_s = time.perf_counter()
        for broker in self.brokers:
            broker.begin_stop()
        for broker in self.brokers:
            broker.await_end()
        return time.perf_counter() - began_s

    # -- state of the cluster

    def ask(self, question: Callable[[Admin], Awaitable[T]]) -> T:
        """Run a query with an Admin client on the running brokers."""
        addresses = [broker.address for broker in self.brokers if broker.is_running]

        async def main() -> T:
            async with Admin(addresses) as admin:
                return await question(admin)

        return asyncio.run(main())

    def controller(self) -> int:
        return self.ask(lambda admin: admin.describe_quorum()).leader_id

    def partitions(self, topic: str) -> dict[int, PartitionState]:
        return self.ask(lambda admin: admin.describe_topic_partitions([topic]))[topic].partitions

    def create_topic(self, topic: NewTopic) -> None:
        self.ask(lambda admin: admin.create_topics([topic], timeout_ms=AWAIT_SECONDS_MAX * 1000))

    def await_hosted(self, topic: str, count: int) -> None:
        """Wait until every broker has the directories of this number of the topic's partitions."""
        prefix = f"{topic}-"

        def hosted(broker: Broker) -> int:
            return sum([name.startswith(prefix) for name in os.listdir(broker.data_dir)])

        wait_until(lambda: all(hosted(broker) == count for broker in self.brokers), f"{topic} everywhere")

    def await_in_sync(self, topic: str, *, preferred: bool = False) -> None:
        """Wait until all replicas are in sync and, with `preferred`, all leaders are the preferred ones."""

        def reached() -> bool:
            try:
                states = self.partitions(topic).values()
                if not all(len(state.isr) == len(state.replicas) for state in states):
                    return False
                if not preferred or all(state.leader == state.replicas[0] for state in states):
                    return True
                self.ask(lambda admin: admin.elect_leaders(ELECT_PREFERRED))
            except ClientError:
                pass
            return False

        wait_until(reached, f"all replicas of {topic} in sync")


def wait_until(condition: Callable[[], bool], what: str) -> None:
    deadline_s = time.monotonic() + AWAIT_SECONDS_MAX
    while not condition():
        if time.monotonic() > deadline_s:
            raise BenchError(f"not within {AWAIT_SECONDS_MAX} s: {what}")
        time.sleep(LOOK_SECONDS)
