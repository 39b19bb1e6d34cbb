"""Requests to coordinators of groups and transactional ids on an event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from ottla.client.aio.cluster import ClusterClient
from ottla.client.aio.connection import Connection
from ottla.client.core import coordinators
from ottla.client.core.coordinators import GROUP
from ottla.client.errors import ClientError

Result = TypeVar("Result")


class Coordinators:
    """Runs attempts on the connection to a coordinator; the core decides when to look it up again."""

    def __init__(self, cluster: ClusterClient, kind: int = GROUP) -> None:
        self.cluster = cluster
        self.core = coordinators.Coordinators(cluster.core, kind)

    async def find(self, key: str) -> int:
        """The id of the broker. Raises a retriable BrokerError while there is none."""
        return await self.cluster.run(self.core.find(key))

    def remember(self, key: str, node_id: int) -> None:
        self.core.remember(key, node_id)

    async def once(
        self, key: str, attempt: Callable[[Connection], Awaitable[Result]], *, lane: str = ""
    ) -> Result:
        """Run `attempt` on the connection to the coordinator."""
        try:
            return await attempt(await self.cluster.connection_to(await self.find(key), lane))
        except ClientError as error:
            self.core.failed(key, error)
            raise

    async def retrying(
        self, key: str, attempt: Callable[[Connection], Awaitable[Result]], *, timeout_ms: float | None = None
    ) -> Result:
        """The same, repeated while it fails with retriable errors."""
        retry = self.cluster.core.retry(timeout_ms)
        while True:
            try:
                return await self.once(key, attempt)
            except ClientError as error:
                pause_ms = retry.pause_ms(error)
            await asyncio.sleep(pause_ms / 1000)
