"""A broker restarts: the client waits and continues."""

from __future__ import annotations

import asyncio

import pytest

from ottla.client import Consumer, Producer
from ottla.testing import Cluster


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_producer_and_consumer_survive_a_restart(how):
    async def work(cluster: Cluster) -> None:
        seen: list[int] = []

        async def read() -> None:
            async with Consumer(cluster.bootstrap_servers) as consumer:
                await consumer.assign("t")
                while len(seen) < 300:
                    seen.extend(int(record.value) for record in await consumer.poll())

        reader = asyncio.create_task(read())
        async with Producer(cluster.bootstrap_servers, linger_ms=1) as producer:
            futures = []
            for n in range(300):
                futures.append(await producer.send("t", b"%d" % n))
                if n == 100:
                    await futures[-1]
                    await asyncio.to_thread(getattr(cluster, how))
                if n == 200:
                    await asyncio.to_thread(cluster.start)
                await asyncio.sleep(0.001)
            deliveries = await asyncio.gather(*futures)
        assert [delivery.offset for delivery in deliveries] == list(range(300))
        await reader
        assert seen == list(range(300))

    with Cluster() as cluster:
        cluster.create_topic("t")

        async def bounded() -> None:
            async with asyncio.timeout(40):
                await work(cluster)

        asyncio.run(bounded())
