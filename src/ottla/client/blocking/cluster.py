"""A cluster for code without an event loop: bootstrap, connections, metadata, leader routing, retries.

`shared_cluster` keeps one per process and set of options, so that the many short tasks of a Spark worker pay
for connections once. A forked child starts without its parent's connections.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import re
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeVar

from ottla.client.admin.types import OffsetAt
from ottla.client.aio.cluster import parse_bootstrap
from ottla.client.blocking.connection import SyncConnection
from ottla.client.core.metadata import ClusterView, PartitionInfo, TopicInfo
from ottla.client.core.offsets import TopicPartition
from ottla.client.core.retry import Backoff, Deadline
from ottla.client.errors import (
    BrokerError,
    ClientError,
    ConnectionFailedError,
    NotKafkaError,
    RequestTimeoutError,
    broker_error,
    raise_for,
)
from ottla.protocol.errors import RETRIABLE, ErrorCode
from ottla.protocol.message import Message
from ottla.protocol.messages.list_offsets_request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from ottla.protocol.messages.list_offsets_response import ListOffsetsResponse
from ottla.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from ottla.protocol.messages.metadata_response import MetadataResponse

# An idle connection may have been closed by the broker (connections.max.idle.ms is 10 minutes there).
IDLE_MAX_S = 300.0

Result = TypeVar("Result")
Response = TypeVar("Response", bound=Message)


class ClusterOptions(NamedTuple):
    """How to reach a cluster; equal options share one client per process."""

    bootstrap_servers: str
    client_id: str = "ottla"
    connect_timeout_ms: float = 10_000
    request_timeout_ms: float = 30_000
    retry_timeout_ms: float = 60_000
    retry_backoff_ms: float = 50
    retry_backoff_max_ms: float = 1_000
    metadata_max_age_ms: float = 300_000


_living: weakref.WeakSet[SyncCluster] = weakref.WeakSet()


class SyncCluster:
    """May be used by several threads: each request or stream of requests has a connection to itself."""

    def __init__(self, options: ClusterOptions | str) -> None:
        self.options = ClusterOptions(options) if isinstance(options, str) else options
        self.bootstrap = parse_bootstrap(self.options.bootstrap_servers)
        self.view = ClusterView()
        self._idle: dict[tuple[str, int], list[tuple[float, SyncConnection]]] = {}
        self._lock = threading.Lock()
        _living.add(self)

    def close(self) -> None:
        """Close what is idle; connections in use are closed when they come back broken or idle too long."""
        with self._lock:
            idle, self._idle = self._idle, {}
        for rows in idle.values():
            for _, connection in rows:
                connection.close()

    def forget_connections(self) -> None:
        """For a forked child: let go of the parent's connections without a word on them."""
        self._lock = threading.Lock()
        self.close()

    # Connections.

    @contextlib.contextmanager
    def connection(self, host: str, port: int) -> Iterator[SyncConnection]:
        """A connection for the caller alone; it is kept for the next one if no answer is due at the end."""
        connection = self._take_idle(host, port)
        if connection is None:
            options = self.options
            connection = SyncConnection(
                host, port, client_id=options.client_id, timeout_ms=options.connect_timeout_ms
            )
        try:
            yield connection
        finally:
            if connection.is_idle:
                with self._lock:
                    self._idle.setdefault((host, port), []).append((time.monotonic(), connection))
            else:
                connection.close()

    def _take_idle(self, host: str, port: int) -> SyncConnection | None:
        with self._lock:
            rows = self._idle.get((host, port), [])
            while rows:
                since_s, connection = rows.pop()
                if time.monotonic() - since_s < IDLE_MAX_S and not connection.has_answer():
                    return connection
                connection.close()
        return None

    @contextlib.contextmanager
    def connection_to(self, node_id: int) -> Iterator[SyncConnection]:
        """A connection to a broker by its id; asks for metadata if the id is new."""
        if node_id not in self.view.nodes:
            self.refresh([])
        node = self.view.nodes.get(node_id)
        if node is None:
            raise ConnectionFailedError(f"broker {node_id} is not among the brokers of the cluster")
        try:
            with self.connection(node.host, node.port) as connection:
                yield connection
        except (ConnectionFailedError, RequestTimeoutError):
            self.expire_led_by(node_id)
            raise

    def expire_led_by(self, node_id: int) -> None:
        """Partitions of a lost broker have another leader by now, or soon: ask before their next use."""
        with self._lock:
            self.view.expire_led_by(node_id)

    def ask_any(self, message: Message, response: type[Response], at_most: int | None = None) -> Response:
        """Ask whichever broker answers: one that we know of, or a bootstrap server."""
        return self.on_any(
            lambda connection: connection.request(
                message, response, timeout_ms=self.options.request_timeout_ms, at_most=at_most
            )
        )

    def on_any(self, work: Callable[[SyncConnection], Result]) -> Result:
        """Do something on a connection to whichever broker takes it."""
        known = [(node.host, node.port) for node in self.view.nodes.values()]
        failures: list[ClientError] = []
        for host, port in dict.fromkeys(known + self.bootstrap):
            try:
                with self.connection(host, port) as connection:
                    return work(connection)
            except (ConnectionFailedError, NotKafkaError, RequestTimeoutError) as error:
                failures.append(error)
        kind = ConnectionFailedError if any(error.retriable for error in failures) else NotKafkaError
        raise kind("; ".join(map(str, failures)))

    def ask_node(self, node_id: int, message: Message, response: type[Response]) -> Response:
        with self.connection_to(node_id) as connection:
            return connection.request(message, response, timeout_ms=self.options.request_timeout_ms)

    # Retries.

    def retrying(self, attempt: Callable[[], Result], *, timeout_ms: float | None = None) -> Result:
        """Repeat `attempt` while it fails in ways that pass: broken connections, elections, slow brokers."""
        deadline = Deadline(self.options.retry_timeout_ms if timeout_ms is None else timeout_ms)
        backoff = self.backoff()
        while True:
            try:
                return attempt()
            except ClientError as error:
                if not error.retriable or deadline.passed:
                    raise
                if isinstance(error, BrokerError) and error.stale_metadata and error.topic is not None:
                    self.view.expire(error.topic)
            time.sleep(min(backoff.next_ms(), deadline.left_ms) / 1000)

    def backoff(self) -> Backoff:
        return Backoff(self.options.retry_backoff_ms, self.options.retry_backoff_max_ms)

    # Metadata.

    def refresh(self, topics: Iterable[str] | None, *, create: bool = False) -> dict[str, int]:
        """Ask for metadata of these topics (None: all); the error code of each topic that has one."""
        rows = None if topics is None else [MetadataRequestTopic(name=name) for name in topics]
        request = MetadataRequest(topics=rows, allow_auto_topic_creation=create)
        response = self.ask_any(request, MetadataResponse)
        raise_for(response.error_code, detail="the cluster refused to tell its metadata")
        with self._lock:
            if topics is None:
                seen = {row.name for row in response.topics}
                for name in [name for name in self.view.topics if name not in seen]:
                    self.view.forget(name)
            return self.view.learn(response)

    def topic(self, name: str, *, create: bool = False, fresh: bool = False) -> TopicInfo:
        """What is known of a topic, asked for if need be (`fresh`: in any case). Raises UnknownTopicError."""
        if fresh:
            self.view.expire(name)

        def attempt() -> TopicInfo:
            known = self.view.topic(name, self.options.metadata_max_age_ms)
            if known is not None:
                return known
            code = self.refresh([name], create=create).get(name, ErrorCode.NONE)
            raise_for(code, topic=name)
            found = self.view.topics.get(name)
            if found is None:
                raise broker_error(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, topic=name)
            return found

        # That a topic may be about to exist only matters to who may create it: others hear it at once.
        try:
            return attempt()
        except ClientError as error:
            missing = isinstance(error, BrokerError) and error.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            if not error.retriable or (missing and not create):
                raise
        return self.retrying(attempt)

    def existing_topics(self, names: Sequence[str]) -> dict[str, TopicInfo]:
        """Those of the topics that exist, as they are now: one request for all of them."""

        def attempt() -> dict[str, TopicInfo]:
            for name, code in self.refresh(names).items():
                if code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    raise_for(code, topic=name)
            return {name: self.view.topics[name] for name in names if name in self.view.topics}

        return self.retrying(attempt) if names else {}

    def topics_matching(self, pattern: str) -> list[str]:
        """Names of existing topics that the whole pattern matches, internal topics left out."""
        self.retrying(lambda: self.refresh(None))
        compiled = re.compile(pattern)
        with self._lock:
            topics = list(self.view.topics.values())
        return sorted(info.name for info in topics if not info.is_internal and compiled.fullmatch(info.name))

    def partition(self, topic: str, partition: int) -> PartitionInfo:
        """A partition with a leader. Raises a retriable BrokerError while there is none."""
        info = self.topic(topic)
        found = info.partitions.get(partition)
        if found is None:
            self.view.expire(topic)
            raise broker_error(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                topic=topic,
                partition=partition,
                detail=f"the topic has partitions 0 to {len(info.partitions) - 1}",
            )
        if found.leader < 0 or found.error_code in RETRIABLE:
            self.view.expire(topic)
            raise broker_error(
                found.error_code or ErrorCode.LEADER_NOT_AVAILABLE, topic=topic, partition=partition
            )
        return found

    # Offsets.

    def list_offsets(
        self, wanted: Mapping[TopicPartition, int], *, read_committed: bool = False
    ) -> dict[TopicPartition, OffsetAt]:
        """For each (topic, partition) the offset at a timestamp in ms, EARLIEST or LATEST.

        Offset -1 means that no record is as late as the timestamp. With `read_committed`, LATEST is the
        end of what is decided: the last stable offset.
        """
        found: dict[TopicPartition, OffsetAt] = {}

        def attempt() -> None:
            leaders: dict[int, list[TopicPartition]] = {}
            for key in wanted:
                if key not in found:
                    leaders.setdefault(self.partition(*key).leader, []).append(key)
            for node_id, keys in leaders.items():
                request = _list_offsets_request({key: wanted[key] for key in keys}, read_committed)
                response = self.ask_node(node_id, request, ListOffsetsResponse)
                for topic in response.topics:
                    for row in topic.partitions:
                        raise_for(row.error_code, topic=topic.name, partition=row.partition_index)
                        offset = OffsetAt(row.offset, row.timestamp, row.leader_epoch)
                        found[topic.name, row.partition_index] = offset

        self.retrying(attempt)
        return found


def _list_offsets_request(wanted: Mapping[TopicPartition, int], read_committed: bool) -> ListOffsetsRequest:
    rows: dict[str, list[ListOffsetsPartition]] = {}
    for (topic, partition), timestamp in wanted.items():
        row = ListOffsetsPartition(partition_index=partition, timestamp=timestamp)
        rows.setdefault(topic, []).append(row)
    return ListOffsetsRequest(
        replica_id=-1,
        isolation_level=int(read_committed),
        topics=[ListOffsetsTopic(name=topic, partitions=partitions) for topic, partitions in rows.items()],
    )


_shared: dict[ClusterOptions, SyncCluster] = {}
_shared_lock = threading.Lock()


def shared_cluster(options: ClusterOptions | str | Sequence[str]) -> SyncCluster:
    """The client of this process for these options, made at the first call."""
    if not isinstance(options, ClusterOptions):
        options = ClusterOptions(options if isinstance(options, str) else ",".join(options))
    with _shared_lock:
        cluster = _shared.get(options)
        if cluster is None:
            cluster = _shared[options] = SyncCluster(options)
        return cluster


def _after_fork_in_child() -> None:
    # Two processes on one socket would take each other's answers, and a lock may have been held.
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
