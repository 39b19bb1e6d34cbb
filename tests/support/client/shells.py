"""One interface to the asyncio and the blocking client, for tests that run on both.

Blocking calls run in a thread, because the stub brokers need the event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any, Protocol

import pyarrow as pa

from ottla.client import (
    ArrowWriter,
    ClientOptions,
    ClusterClient,
    CommittedOffset,
    Consumer,
    Delivery,
    Producer,
    SyncCluster,
    SyncGroup,
)
from ottla.client.core.cluster import ClusterCore
from ottla.client.core.steps import Steps

FAST: dict[str, Any] = {"retry_backoff_ms": 5, "retry_backoff_max_ms": 20, "retry_timeout_ms": 2_000}


class Writer(Protocol):
    """A producer of either shell."""

    core: ClusterCore

    async def write(
        self, values: Iterable[bytes | None], *, key: bytes | None = None, partition: int | None = None
    ) -> None: ...

    async def flush(self) -> None: ...

    async def send_and_receive(self, is_sent: Callable[[], bool]) -> None:
        """Send what is queued, and return when all requests are answered and `is_sent` is true."""

    async def begin(self) -> None: ...

    async def commit(self) -> None: ...

    async def abort(self) -> None: ...

    async def close(self) -> None: ...


class AsyncioWriter:
    """`Producer`. A flush raises the first error, as that of the blocking writer does."""

    def __init__(self, cluster: ClusterClient, topic: str, options: dict[str, Any]) -> None:
        self.core = cluster.core
        self._cluster = cluster
        self._topic = topic
        self.producer = Producer(cluster, **options)
        self._futures: list[asyncio.Future[Delivery]] = []

    async def write(
        self, values: Iterable[bytes | None], *, key: bytes | None = None, partition: int | None = None
    ) -> None:
        for value in values:
            self._futures.append(await self.producer.send(self._topic, value, key=key, partition=partition))

    async def flush(self) -> None:
        await self.producer.flush()
        futures, self._futures = self._futures, []
        for future in futures:
            future.result()

    async def send_and_receive(self, is_sent: Callable[[], bool]) -> None:
        while not is_sent() or self.producer._delivery.in_flight_bytes:
            await asyncio.sleep(0.002)

    async def begin(self) -> None:
        await self.producer.begin_transaction()

    async def commit(self) -> None:
        await self.producer.commit_transaction()

    async def abort(self) -> None:
        await self.producer.abort_transaction()

    async def close(self) -> None:
        await self.producer.close()
        await self._cluster.close()


class BlockingWriter:
    """`ArrowWriter`, with each call in a thread."""

    def __init__(self, cluster: SyncCluster, topic: str, options: dict[str, Any]) -> None:
        self.core = cluster.core
        self._cluster = cluster
        options.pop("linger_ms", None)
        self.writer = ArrowWriter(cluster, topic, **options)

    async def write(
        self, values: Iterable[bytes | None], *, key: bytes | None = None, partition: int | None = None
    ) -> None:
        rows = list(values)
        columns: dict[str, pa.Array] = {"value": pa.array(rows, pa.binary())}
        if key is not None:
            columns["key"] = pa.array([key] * len(rows), pa.binary())
        if partition is not None:
            columns["partition"] = pa.array([partition] * len(rows), pa.int32())
        await asyncio.to_thread(self.writer.write, pa.record_batch(columns))

    async def flush(self) -> None:
        await asyncio.to_thread(self.writer.flush)

    async def send_and_receive(self, is_sent: Callable[[], bool]) -> None:
        delivery = self.writer._delivery
        while not is_sent() or delivery.unsent_bytes < delivery.queued_bytes:
            await asyncio.to_thread(delivery.advance, waits=False)

    async def begin(self) -> None:
        await asyncio.to_thread(self.writer.begin)

    async def commit(self) -> None:
        await asyncio.to_thread(self.writer.commit)

    async def abort(self) -> None:
        await asyncio.to_thread(self.writer.abort)

    async def close(self) -> None:
        await asyncio.to_thread(self.writer.close)
        self._cluster.close()


class Shell:
    """Creates clients of one kind."""

    def __init__(self, name: str) -> None:
        self.name = name

    @property
    def is_blocking(self) -> bool:
        return self.name == "blocking"

    def writer(
        self, bootstrap: str, topic: str = "t", *, connection: dict[str, Any] | None = None, **options: Any
    ) -> Writer:
        """A producer; `connection` are options of its cluster, on top of short retries."""
        given = ClientOptions(bootstrap).changed(**{**FAST, **(connection or {})})
        if self.is_blocking:
            return BlockingWriter(SyncCluster(given), topic, options)
        return AsyncioWriter(ClusterClient(given), topic, options)

    async def run(self, bootstrap: str, steps: Callable[[ClusterCore], Steps[Any]], **options: Any) -> Any:
        """Run steps of the core on a new client."""
        given = ClientOptions(bootstrap).changed(**{**FAST, **options})
        if self.is_blocking:
            cluster = SyncCluster(given)
            try:
                return await asyncio.to_thread(lambda: cluster.run(steps(cluster.core)))
            finally:
                cluster.close()
        async with ClusterClient(given) as client:
            return await client.run(steps(client.core))

    async def committed(self, bootstrap: str, group: str) -> dict[tuple[str, int], CommittedOffset]:
        """Commit offset 5 of partition 0 of topic "t" as no member, and read it back."""
        given = ClientOptions(bootstrap).changed(**FAST)
        if self.is_blocking:
            return await asyncio.to_thread(self._committed_blocking, given, group)
        async with Consumer(given, group_id=group, auto_commit=False) as consumer:
            await consumer.commit({("t", 0): 5})
            return await consumer.committed()

    def _committed_blocking(self, given: ClientOptions, group: str) -> dict[tuple[str, int], CommittedOffset]:
        cluster = SyncCluster(given)
        offsets = SyncGroup(cluster, group)
        offsets.commit({("t", 0): 5})
        found = offsets.committed()
        cluster.close()
        return found
