"""A cluster as the client sees it: bootstrap, connections to brokers, metadata, leader routing, retries."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from types import TracebackType
from typing import Self, TypeVar

from ottla.client.aio.connection import Connection
from ottla.client.core.metadata import ClusterView, PartitionInfo, TopicInfo
from ottla.client.core.retry import Backoff, Deadline
from ottla.client.errors import (
    BrokerError,
    ClientError,
    ClosedError,
    ConnectionFailedError,
    NotKafkaError,
    RequestTimeoutError,
    broker_error,
    raise_for,
)
from ottla.protocol.errors import RETRIABLE, ErrorCode
from ottla.protocol.message import Message
from ottla.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from ottla.protocol.messages.metadata_response import MetadataResponse

DEFAULT_PORT = 9092

Result = TypeVar("Result")
Response = TypeVar("Response", bound=Message)


def parse_bootstrap(servers: str | Sequence[str]) -> list[tuple[str, int]]:
    """`"host:port,host:port"` or a list of such; the port defaults to 9092. Raises ValueError."""
    parts = servers.split(",") if isinstance(servers, str) else list(servers)
    addresses = []
    for part in parts:
        text = part.strip()
        # Kafka's listener syntax is accepted too: people copy it from configs.
        host, port_text = text.rpartition("://")[2], str(DEFAULT_PORT)
        if host.startswith("["):
            host, _, rest = host[1:].partition("]")
            port_text = rest.removeprefix(":") or port_text
        elif host.count(":") == 1:
            host, _, port_text = host.partition(":")
        if not host or not port_text.isdigit() or not 0 < int(port_text) < 65536:
            raise ValueError(f"bootstrap server {text!r}: expected HOST:PORT, e.g. localhost:9092")
        addresses.append((host, int(port_text)))
    if not addresses:
        raise ValueError("no bootstrap servers given: expected HOST:PORT, e.g. localhost:9092")
    return addresses


class ClusterClient:
    """The shared ground of admin, producer and consumer; usable directly for any request of the protocol.

    async with ClusterClient("localhost:9092") as cluster:
        topic = await cluster.topic("orders")
    """

    def __init__(
        self,
        bootstrap_servers: str | Sequence[str],
        *,
        client_id: str = "ottla",
        connect_timeout_ms: float = 10_000,
        request_timeout_ms: float = 30_000,
        retry_timeout_ms: float = 60_000,
        retry_backoff_ms: float = 50,
        retry_backoff_max_ms: float = 1_000,
        metadata_max_age_ms: float = 300_000,
    ) -> None:
        self.bootstrap = parse_bootstrap(bootstrap_servers)
        self.client_id = client_id
        self.connect_timeout_ms = connect_timeout_ms
        self.request_timeout_ms = request_timeout_ms
        self.retry_timeout_ms = retry_timeout_ms
        self.retry_backoff_ms = retry_backoff_ms
        self.retry_backoff_max_ms = retry_backoff_max_ms
        self.metadata_max_age_ms = metadata_max_age_ms
        self.view = ClusterView()
        self._connections: dict[tuple[str, int, str], Connection] = {}
        self._opening: dict[tuple[str, int, str], asyncio.Lock] = {}
        self._closed = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        self._closed = True
        connections, self._connections = list(self._connections.values()), {}
        await asyncio.gather(*(connection.close() for connection in connections))

    # Connections.

    async def _connect(self, host: str, port: int, lane: str = "") -> Connection:
        """The one connection to an address and lane, opened at the first need and again after it broke."""
        if self._closed:
            raise ClosedError("this client is closed: make a new one")
        address = (host, port, lane)
        connection = self._connections.get(address)
        if connection is not None and connection.is_open:
            return connection
        async with self._opening.setdefault(address, asyncio.Lock()):
            connection = self._connections.get(address)
            if connection is None or not connection.is_open:
                connection = await Connection.open(
                    host, port, client_id=self.client_id, timeout_ms=self.connect_timeout_ms
                )
                if self._closed:
                    await connection.close()
                    raise ClosedError("this client was closed while it connected")
                self._connections[address] = connection
            return connection

    async def connection_to(self, node_id: int, lane: str = "") -> Connection:
        """The connection to a broker by its id; asks for metadata if the id is new.

        A connection answers in order, so whoever waits long for answers (fetches) takes a lane of its own.
        """
        if node_id not in self.view.nodes:
            await self.refresh([])
        node = self.view.nodes.get(node_id)
        if node is None:
            raise ConnectionFailedError(f"broker {node_id} is not among the brokers of the cluster")
        try:
            return await self._connect(node.host, node.port, lane)
        except (ConnectionFailedError, RequestTimeoutError):
            # Its partitions have another leader by now, or soon: whoever tries again must ask who it is.
            self.view.expire_led_by(node_id)
            raise

    async def any_connection(self) -> Connection:
        """A connection to whichever broker answers: an open one, a broker we know of, a bootstrap server."""
        for (_, _, lane), connection in self._connections.items():
            if not lane and connection.is_open:
                return connection
        known = [(node.host, node.port) for node in self.view.nodes.values()]
        failures: list[ClientError] = []
        for host, port in dict.fromkeys(known + self.bootstrap):
            try:
                return await self._connect(host, port)
            except (ConnectionFailedError, NotKafkaError, RequestTimeoutError) as error:
                failures.append(error)
        kind = ConnectionFailedError if any(error.retriable for error in failures) else NotKafkaError
        raise kind("; ".join(map(str, failures)))

    async def controller_connection(self) -> Connection:
        """The broker that takes changes to the cluster, as metadata names it; else any."""
        if self.view.controller_id not in self.view.nodes:
            await self.refresh([])
        if self.view.controller_id in self.view.nodes:
            try:
                return await self.connection_to(self.view.controller_id)
            except (ConnectionFailedError, RequestTimeoutError):
                # It is gone since: brokers that are there pass changes on, or know who takes them now.
                await self.refresh([])
                if self.view.controller_id in self.view.nodes:
                    return await self.connection_to(self.view.controller_id)
        return await self.any_connection()

    # Requests.

    async def retrying(
        self, attempt: Callable[[], Awaitable[Result]], *, timeout_ms: float | None = None
    ) -> Result:
        """Repeat `attempt` while it fails in ways that pass: broken connections, elections, slow brokers."""
        deadline = Deadline(self.retry_timeout_ms if timeout_ms is None else timeout_ms)
        backoff = Backoff(self.retry_backoff_ms, self.retry_backoff_max_ms)
        while True:
            try:
                return await attempt()
            except ClientError as error:
                if not error.retriable or deadline.passed:
                    raise
                if isinstance(error, BrokerError) and error.stale_metadata and error.topic is not None:
                    self.view.expire(error.topic)
            await backoff.pause(deadline)

    async def ask(
        self, connection: Connection, message: Message, response: type[Response], at_most: int | None = None
    ) -> Response:
        """One request on a given connection with the client's timeout."""
        return await connection.request(
            message, response, timeout_ms=self.request_timeout_ms, at_most=at_most
        )

    async def ask_any(self, message: Message, response: type[Response]) -> Response:
        return await self.ask(await self.any_connection(), message, response)

    async def ask_controller(self, message: Message, response: type[Response]) -> Response:
        return await self.ask(await self.controller_connection(), message, response)

    async def ask_node(self, node_id: int, message: Message, response: type[Response]) -> Response:
        return await self.ask(await self.connection_to(node_id), message, response)

    # Metadata.

    async def refresh(self, topics: Iterable[str] | None, *, create: bool = False) -> dict[str, int]:
        """Ask for metadata of these topics (None: all); the error code of each topic that has one."""
        rows = None if topics is None else [MetadataRequestTopic(name=name) for name in topics]
        connection = await self.any_connection()
        version = connection.version_for(MetadataRequest.API_KEY)
        if version == 0 and rows is None:
            rows = []
        request = MetadataRequest(topics=rows)
        if version >= 4:
            request.allow_auto_topic_creation = create
        response = await self.ask(connection, request, MetadataResponse)
        raise_for(response.error_code, detail="the cluster refused to tell its metadata")
        if topics is None:
            seen = {row.name for row in response.topics}
            for name in [name for name in self.view.topics if name not in seen]:
                self.view.forget(name)
        return self.view.learn(response)

    async def topic(self, name: str, *, create: bool = False, timeout_ms: float | None = None) -> TopicInfo:
        """What is known of a topic, asked for if need be. Raises UnknownTopicError.

        With `create`, brokers may create it (`auto.create.topics.enable`); that takes a moment, so a missing
        topic is then asked for again until the timeout.
        """

        async def attempt() -> TopicInfo:
            known = self.view.topic(name, self.metadata_max_age_ms)
            if known is not None:
                return known
            code = (await self.refresh([name], create=create)).get(name, ErrorCode.NONE)
            raise_for(code, topic=name)
            found = self.view.topics.get(name)
            if found is None:
                raise broker_error(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, topic=name)
            return found

        # That a topic may be about to exist only matters to who may create it: others hear it at once.
        try:
            return await attempt()
        except ClientError as error:
            missing = isinstance(error, BrokerError) and error.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            if not error.retriable or (missing and not create):
                raise
        return await self.retrying(attempt, timeout_ms=timeout_ms)

    async def partition(self, topic: str, partition: int, *, create: bool = False) -> PartitionInfo:
        """A partition with a leader. Raises a retriable BrokerError while there is none."""
        info = await self.topic(topic, create=create)
        found = info.partitions.get(partition)
        if found is None:
            count = len(info.partitions)
            raise broker_error(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                topic=topic,
                partition=partition,
                detail=f"the topic has partitions 0 to {count - 1}",
            )
        if found.leader < 0 or found.error_code in RETRIABLE:
            self.view.expire(topic)
            raise broker_error(
                found.error_code or ErrorCode.LEADER_NOT_AVAILABLE, topic=topic, partition=partition
            )
        return found

    async def leaders_of(self, partitions: Iterable[tuple[str, int]]) -> dict[int, list[tuple[str, int]]]:
        """The partitions grouped by the broker that leads them."""
        grouped: dict[int, list[tuple[str, int]]] = {}
        for topic, partition in partitions:
            leader = (await self.partition(topic, partition)).leader
            grouped.setdefault(leader, []).append((topic, partition))
        return grouped


class ClusterUser:
    """Base of admin, producer and consumer: works on a cluster client given, or makes and closes its own."""

    def __init__(self, cluster: ClusterClient | str | Sequence[str], *, client_id: str = "ottla") -> None:
        self._owns_cluster = not isinstance(cluster, ClusterClient)
        self.cluster = (
            cluster if isinstance(cluster, ClusterClient) else ClusterClient(cluster, client_id=client_id)
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        if self._owns_cluster:
            await self.cluster.close()
