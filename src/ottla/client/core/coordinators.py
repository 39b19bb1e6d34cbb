"""Coordinator look-up: the broker that coordinates a group or a transactional id."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from ottla.client.core.cluster import ClusterCore
from ottla.client.core.negotiation import Negotiated
from ottla.client.core.retry import Backoff
from ottla.client.core.steps import Pause, Result, Steps
from ottla.client.errors import BrokerError, ClientError, broker_error
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from ottla.protocol.messages.find_coordinator_response import Coordinator, FindCoordinatorResponse
from ottla.protocol.versions import FIND_COORDINATOR_BATCHES_SINCE

GROUP = 0
TRANSACTION = 1
ELSEWHERE = (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE)
REMEMBERED_MAX = 10_000


class Coordinators:
    """Remembers the coordinators of groups, or of transactional ids, until they move."""

    def __init__(self, cluster: ClusterCore, kind: int) -> None:
        self.cluster = cluster
        self.kind = kind
        self._nodes: dict[str, int] = {}

    def remember(self, key: str, node_id: int) -> None:
        self._nodes[key] = node_id

    def forget(self, keys: Iterable[str]) -> None:
        for key in keys:
            self._nodes.pop(key, None)

    def known(self, key: str) -> int | None:
        return self._nodes.get(key)

    def failed(self, key: str, error: ClientError) -> None:
        """Look the coordinator up again if an error says that it moved, or that it cannot be reached."""
        if not isinstance(error, BrokerError) or error.code in ELSEWHERE:
            self.forget([key])

    def find(self, key: str) -> Steps[int]:
        """The id of the broker. Raises a retriable BrokerError while there is none."""
        node_id = self._nodes.get(key)
        if node_id is None:
            yield from self.find_all([key])
            node_id = self._nodes[key]
        return node_id

    def find_all(self, keys: Iterable[str]) -> Steps[None]:
        """Find the coordinators of all keys. Raises if one has none; the others are known then."""
        unknown = [key for key in dict.fromkeys(keys) if key not in self._nodes]
        if not unknown:
            return
        if len(self._nodes) > REMEMBERED_MAX:
            self._nodes.clear()
        one_by_one = False

        def build(peer: Negotiated) -> FindCoordinatorRequest:
            nonlocal one_by_one
            one_by_one = peer.version_for(FindCoordinatorRequest.API_KEY) < FIND_COORDINATOR_BATCHES_SINCE
            if one_by_one:
                return FindCoordinatorRequest(key_type=self.kind, key=pending[0])
            return FindCoordinatorRequest(key_type=self.kind, coordinator_keys=pending)

        failure: BrokerError | None = None
        pending = unknown
        while pending:
            response = yield from self.cluster.ask_any(build, FindCoordinatorResponse)
            if one_by_one:
                answered, pending = pending[:1], pending[1:]
            else:
                answered, pending = pending, []
            failure = self._take(answered, response) or failure
        if failure is not None:
            raise failure

    def _take(self, keys: Sequence[str], response: FindCoordinatorResponse) -> BrokerError | None:
        found: dict[str, Coordinator | FindCoordinatorResponse] = {
            row.key: row for row in response.coordinators
        }
        if len(keys) == 1:
            found = {keys[0]: response.coordinators[0] if response.coordinators else response}
        failure = None
        for key in keys:
            row = found.get(key)
            if row is None:
                failure = self._error(ErrorCode.COORDINATOR_NOT_AVAILABLE, key, "not in the response")
            elif row.error_code != ErrorCode.NONE:
                failure = self._error(row.error_code, key, row.error_message)
            else:
                self._nodes[key] = row.node_id
        return failure

    def _error(self, code: int, key: str, detail: str | None) -> BrokerError:
        if self.kind == GROUP:
            return broker_error(code, group=key, detail=detail or None)
        return broker_error(code, detail=f"transactional id {key!r}" + (f": {detail}" if detail else ""))

    def once(self, key: str, attempt: Callable[[int], Steps[Result]]) -> Steps[Result]:
        """Run `attempt` with the id of the coordinator."""
        try:
            node_id = yield from self.find(key)
            return (yield from attempt(node_id))
        except ClientError as error:
            self.failed(key, error)
            raise

    def retrying(
        self,
        key: str,
        attempt: Callable[[int], Steps[Result]],
        *,
        timeout_ms: float | None = None,
        backoff: Backoff | None = None,
    ) -> Steps[Result]:
        """The same, repeated while it fails with retriable errors."""
        retry = self.cluster.retry(timeout_ms, backoff=backoff)
        while True:
            try:
                return (yield from self.once(key, attempt))
            except ClientError as error:
                pause_ms = retry.pause_ms(error)
            yield Pause(pause_ms)
