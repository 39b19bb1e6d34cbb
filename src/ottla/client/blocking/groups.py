"""Committed offsets of a group for code without an event loop, which need not be a member of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from ottla.client.blocking.cluster import SyncCluster
from ottla.client.blocking.connection import SyncConnection
from ottla.client.errors import BrokerError, ClientError, raise_for
from ottla.client.groups.offsets import (
    NAMES_UNTIL,
    check_committed,
    commit_request,
    committed_in,
    fetch_request,
)
from ottla.client.groups.types import CommittedOffset, TopicPartition
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from ottla.protocol.messages.find_coordinator_response import FindCoordinatorResponse
from ottla.protocol.messages.offset_commit_response import OffsetCommitResponse
from ottla.protocol.messages.offset_fetch_request import OffsetFetchRequest
from ottla.protocol.messages.offset_fetch_response import OffsetFetchResponse

GROUP = 0
FIND_SEVERAL = 4
# With version 4 a key became a list of keys; one key is all that we ask for.
FIND_ONE_UNTIL = FIND_SEVERAL - 1
ELSEWHERE = (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE)

Result = TypeVar("Result")


class SyncGroup:
    """One group's offsets at its coordinator, which is looked for when needed, and again when it moved."""

    def __init__(self, cluster: SyncCluster, group_id: str) -> None:
        self.cluster = cluster
        self.group_id = group_id
        self._coordinator: int | None = None

    def committed(
        self, partitions: Iterable[TopicPartition] | None = None, *, timeout_ms: float | None = None
    ) -> dict[TopicPartition, CommittedOffset]:
        """What is committed for these partitions (None: for all); those without an offset are left out."""
        chosen = None if partitions is None else list(partitions)

        def ask(connection: SyncConnection) -> dict[TopicPartition, CommittedOffset]:
            version = connection.version_for(OffsetFetchRequest.API_KEY, NAMES_UNTIL)
            # What a transaction is about to commit may be undone: wait for its end.
            request = fetch_request(version, self.group_id, chosen, require_stable=True)
            response = connection.request(
                request,
                OffsetFetchResponse,
                timeout_ms=self.cluster.options.request_timeout_ms,
                at_most=NAMES_UNTIL,
            )
            return committed_in(response, self.group_id)

        return self._at_coordinator(ask, timeout_ms)

    def commit(
        self, offsets: Mapping[TopicPartition, CommittedOffset | int], *, timeout_ms: float | None = None
    ) -> None:
        """Commit as nobody in particular. A group that has members refuses that (UNKNOWN_MEMBER_ID)."""
        request = commit_request(self.group_id, offsets)

        def ask(connection: SyncConnection) -> None:
            limit_ms = self.cluster.options.request_timeout_ms
            response = connection.request(
                request,
                OffsetCommitResponse,
                timeout_ms=limit_ms if timeout_ms is None else min(limit_ms, timeout_ms),
                at_most=NAMES_UNTIL,
            )
            check_committed(response, self.group_id)

        self._at_coordinator(ask, timeout_ms)

    def _at_coordinator(self, ask: Callable[[SyncConnection], Result], timeout_ms: float | None) -> Result:
        def attempt() -> Result:
            try:
                if self._coordinator is None:
                    self._coordinator = self._find()
                with self.cluster.connection_to(self._coordinator) as connection:
                    return ask(connection)
            except ClientError as error:
                if not isinstance(error, BrokerError) or error.code in ELSEWHERE:
                    self._coordinator = None
                raise

        return self.cluster.retrying(attempt, timeout_ms=timeout_ms)

    def _find(self) -> int:
        request = FindCoordinatorRequest(key=self.group_id, key_type=GROUP)
        response = self.cluster.ask_any(request, FindCoordinatorResponse, at_most=FIND_ONE_UNTIL)
        raise_for(response.error_code, group=self.group_id, detail=response.error_message or None)
        return response.node_id
