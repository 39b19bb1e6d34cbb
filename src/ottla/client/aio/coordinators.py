"""Finds the broker that looks after a group or a transactional id, and finds it again when that has moved."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

from ottla.client.core.retry import Backoff, Deadline
from ottla.client.errors import (
    BrokerError,
    ClientError,
    ConnectionFailedError,
    RequestTimeoutError,
    raise_for,
)
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from ottla.protocol.messages.find_coordinator_response import FindCoordinatorResponse

if TYPE_CHECKING:
    from ottla.client.aio.cluster import ClusterClient
    from ottla.client.aio.connection import Connection

GROUP = 0
TRANSACTION = 1
BATCHED_FROM = 4
ELSEWHERE = (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE)

Result = TypeVar("Result")


class Coordinators:
    """Remembers the coordinators of groups, or of transactional ids.

    A connection answers in order, and joining a group may take minutes: it has a `lane` of its own.
    """

    def __init__(self, cluster: ClusterClient, kind: int = GROUP) -> None:
        self.cluster = cluster
        self.kind = kind
        self._nodes: dict[str, int] = {}

    async def find(self, group_id: str) -> int:
        """The id of the broker. Raises a retriable BrokerError while there is none."""
        node_id = self._nodes.get(group_id)
        if node_id is not None:
            return node_id
        connection = await self.cluster.any_connection()
        request = FindCoordinatorRequest(key_type=self.kind)
        if connection.version_for(request.API_KEY) >= BATCHED_FROM:
            request.coordinator_keys = [group_id]
        else:
            request.key = group_id
        response = await self.cluster.ask(connection, request, FindCoordinatorResponse)
        found = response.coordinators[0] if response.coordinators else response
        group = group_id if self.kind == GROUP else None
        raise_for(found.error_code, group=group, detail=found.error_message or None)
        self._nodes[group_id] = found.node_id
        return found.node_id

    def learn(self, group_id: str, node_id: int) -> None:
        self._nodes[group_id] = node_id

    def forget(self, group_id: str) -> None:
        self._nodes.pop(group_id, None)

    async def connection(self, group_id: str, lane: str = "") -> Connection:
        """To the coordinator, as far as it is known."""
        try:
            return await self.cluster.connection_to(await self.find(group_id), lane)
        except (ConnectionFailedError, RequestTimeoutError):
            self.forget(group_id)
            raise

    async def once(
        self, group_id: str, attempt: Callable[[Connection], Awaitable[Result]], *, lane: str = ""
    ) -> Result:
        """Do it at the coordinator; if that is not the one, the next try looks for another."""
        connection = await self.connection(group_id, lane)
        try:
            return await attempt(connection)
        except ClientError as error:
            if not isinstance(error, BrokerError) or error.code in ELSEWHERE:
                self.forget(group_id)
            raise

    async def retrying(
        self,
        group_id: str,
        attempt: Callable[[Connection], Awaitable[Result]],
        *,
        timeout_ms: float | None = None,
    ) -> Result:
        """Repeat it while it fails in ways that pass."""
        deadline = Deadline(self.cluster.retry_timeout_ms if timeout_ms is None else timeout_ms)
        backoff = Backoff(self.cluster.retry_backoff_ms, self.cluster.retry_backoff_max_ms)
        while True:
            try:
                return await self.once(group_id, attempt)
            except ClientError as error:
                if not error.retriable or deadline.passed:
                    raise
            await backoff.pause(deadline)
