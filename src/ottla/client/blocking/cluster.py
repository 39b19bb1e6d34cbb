"""A cluster for code without an event loop: a pool of connections, and the core's steps run over them.

`shared_cluster` keeps one per process and set of options, so that the many short tasks of a Spark worker pay
for connections once. A forked child starts without its parent's connections.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from ottla.client.blocking.connection import SyncConnection
from ottla.client.clock import SYSTEM_CLOCK
from ottla.client.core import offsets
from ottla.client.core.cluster import UNREACHABLE, ClusterCore, TopicPartition
from ottla.client.core.metadata import ClusterView, PartitionInfo, TopicInfo
from ottla.client.core.negotiation import Negotiated
from ottla.client.core.offsets import OffsetAt
from ottla.client.core.retry import Backoff
from ottla.client.core.steps import (
    Build,
    Call,
    CallMany,
    Connect,
    Effect,
    Pause,
    Steps,
    Together,
    request_for,
)
from ottla.client.errors import ClientError
from ottla.client.options import Address, ClientOptions
from ottla.protocol.message import Message

# An idle connection may have been closed by the broker (connections.max.idle.ms is 10 minutes there).
IDLE_MAX_S = 300.0

Result = TypeVar("Result")
Response = TypeVar("Response", bound=Message)

_living: weakref.WeakSet[SyncCluster] = weakref.WeakSet()


class SyncCluster:
    """May be used by several threads: each request or stream of requests has a connection to itself."""

    def __init__(self, options: ClientOptions | str) -> None:
        options = ClientOptions(options) if isinstance(options, str) else options
        self._idle: dict[Address, list[tuple[float, SyncConnection]]] = {}
        self._lock = threading.Lock()
        self.core = ClusterCore(
            options, SYSTEM_CLOCK, is_connected=self._is_connected, guard=threading.Lock()
        )
        _living.add(self)

    @property
    def options(self) -> ClientOptions:
        return self.core.options

    @property
    def view(self) -> ClusterView:
        return self.core.view

    def close(self) -> None:
        """Close idle connections; those in use are closed when they are returned broken or too old."""
        with self._lock:
            idle, self._idle = self._idle, {}
        for rows in idle.values():
            for _, connection in rows:
                connection.close()

    def forget_connections(self) -> None:
        """For a forked child: drop the parent's connections without sending anything on them."""
        self._lock = threading.Lock()
        self.view.replace_guard(threading.Lock())
        self.close()

    # Connections.

    def _is_connected(self, address: Address) -> bool:
        return bool(self._idle.get(address))

    @contextlib.contextmanager
    def connection(self, address: Address) -> Iterator[SyncConnection]:
        """A connection for the caller alone; it is kept for the next one if no response is due at the end."""
        connection = self._take_idle(address) or self._open(address)
        try:
            yield connection
        finally:
            self._return(address, connection)

    def _open(self, address: Address) -> SyncConnection:
        options = self.options
        return SyncConnection(*address, client_id=options.client_id, timeout_ms=options.connect_timeout_ms)

    def _return(self, address: Address, connection: SyncConnection) -> None:
        if connection.is_idle:
            with self._lock:
                self._idle.setdefault(address, []).append((time.monotonic(), connection))
        else:
            connection.close()

    def _take_idle(self, address: Address) -> SyncConnection | None:
        with self._lock:
            rows = self._idle.get(address, [])
            while rows:
                since_s, connection = rows.pop()
                if time.monotonic() - since_s < IDLE_MAX_S and not connection.has_answer():
                    return connection
                connection.close()
        return None

    @contextlib.contextmanager
    def connection_to(self, node_id: int) -> Iterator[SyncConnection]:
        """A connection to a broker by its id, for the caller alone."""
        node = self.run(self.core.node(node_id))
        try:
            with self.connection(node.address) as connection:
                yield connection
        except UNREACHABLE:
            self.view.expire_led_by(node_id)
            raise

    # Steps.

    def run(self, steps: Steps[Result]) -> Result:
        """Run steps of the core: serve what they yield until they return."""
        try:
            effect = next(steps)
            while True:
                try:
                    result = self.serve(effect)
                except ClientError as error:
                    effect = steps.throw(error)
                else:
                    effect = steps.send(result)
        except StopIteration as stop:
            value: Result = stop.value
            return value
        finally:
            steps.close()

    def serve(self, effect: Effect) -> Any:
        match effect:
            case Call():
                return self._call(effect)
            case Pause(ms):
                return time.sleep(ms / 1000)
            case Connect(address):
                return self._connected(address)
            case Together(parts):
                return [self.run(steps) for steps in parts]
            case CallMany():
                return self._call_many(effect)

    def _connected(self, address: Address) -> Negotiated:
        with self.connection(address) as connection:
            return connection

    def _call(self, call: Call) -> Message | None:
        timeout_ms = self.options.request_timeout_ms if call.timeout_ms is None else call.timeout_ms
        with self.connection(call.address) as connection:
            message = request_for(call.message, connection)
            if call.response is None:
                connection.send(message, timeout_ms=timeout_ms, at_most=call.at_most, unanswered=True)
                return None
            return connection.request(message, call.response, timeout_ms=timeout_ms, at_most=call.at_most)

    def _call_many(self, calls: CallMany) -> list[Message]:
        with self.connection(calls.address) as connection:
            for message, at_most in calls.messages:
                connection.send(message, timeout_ms=self.options.request_timeout_ms, at_most=at_most)
            return [connection.receive(calls.response) for _ in calls.messages]

    # Requests.

    def ask_any(
        self, message: Message | Build, response: type[Response], at_most: int | None = None
    ) -> Response:
        """Send to any broker, and to another one if that fails: only for requests that are safe to repeat."""
        return self.run(self.core.ask_any(message, response, at_most=at_most))

    def ask_node(self, node_id: int, message: Message | Build, response: type[Response]) -> Response:
        return self.run(self.core.ask_node(node_id, message, response))

    def retrying(self, attempt: Callable[[], Result], *, timeout_ms: float | None = None) -> Result:
        """Repeat `attempt` while it fails with retriable errors."""
        retry = self.core.retry(timeout_ms)
        while True:
            try:
                return attempt()
            except ClientError as error:
                pause_ms = retry.pause_ms(error)
                self.core.note(error)
            time.sleep(pause_ms / 1000)

    def backoff(self) -> Backoff:
        return self.core.backoff()

    # Metadata.

    def refresh(self, topics: Iterable[str] | None, *, create: bool = False) -> dict[str, int]:
        """Get metadata of these topics (None: all); the error code of each topic that has one."""
        return self.run(self.core.refresh(topics, create=create))

    def topic(self, name: str, *, create: bool = False, fresh: bool = False) -> TopicInfo:
        """The metadata of a topic, refreshed if it is old or `fresh` is set. Raises UnknownTopicError."""
        return self.run(self.core.topic(name, create=create, fresh=fresh))

    def existing_topics(self, names: Sequence[str]) -> dict[str, TopicInfo]:
        """The current metadata of those topics that exist, with a single request."""
        return self.run(self.core.existing_topics(names))

    def topics_matching(self, pattern: str) -> list[str]:
        """Names of existing topics that the whole pattern matches, without internal topics."""
        return self.run(self.core.topics_matching(pattern))

    def partition(self, topic: str, partition: int) -> PartitionInfo:
        """A partition with a leader. Raises a retriable BrokerError while there is none."""
        return self.run(self.core.partition(topic, partition))

    def list_offsets(
        self, wanted: Mapping[TopicPartition, int], *, read_committed: bool = False
    ) -> dict[TopicPartition, OffsetAt]:
        """For each (topic, partition) the offset at a timestamp in ms, EARLIEST, LATEST or MAX_TIMESTAMP."""
        return self.run(offsets.list_offsets(self.core, wanted, read_committed=read_committed))


_shared: dict[tuple[object, ...], SyncCluster] = {}
_shared_lock = threading.Lock()


def shared_cluster(options: ClientOptions | str | Sequence[str]) -> SyncCluster:
    """The client of this process for these connection options, created at the first call."""
    if not isinstance(options, ClientOptions):
        options = ClientOptions(options if isinstance(options, str) else ",".join(options))
    with _shared_lock:
        cluster = _shared.get(options.connection_key)
        if cluster is None:
            cluster = SyncCluster(options.connection_only)
            _shared[options.connection_key] = cluster
        return cluster


def _after_fork_in_child() -> None:
    # Two processes on one socket would read each other's responses, and a lock may be held.
    global _shared_lock  # noqa: PLW0603
    _shared_lock = threading.Lock()
    _shared.clear()
    for cluster in list(_living):
        cluster.forget_connections()


def _at_exit() -> None:
    for cluster in list(_living):
        cluster.close()


os.register_at_fork(after_in_child=_after_fork_in_child)
atexit.register(_at_exit)
