"""A cluster on an event loop: connections to brokers, and the core's steps run over them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar

from ottla.client.aio.connection import Connection
from ottla.client.clock import SYSTEM_CLOCK
from ottla.client.core import offsets
from ottla.client.core.cluster import ClusterCore, TopicPartition
from ottla.client.core.metadata import ClusterView, PartitionInfo, TopicInfo
from ottla.client.core.offsets import OffsetAt
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
from ottla.client.errors import ClientError, ClosedError
from ottla.client.options import Address, ClientOptions
from ottla.protocol.message import Message

Result = TypeVar("Result")
Response = TypeVar("Response", bound=Message)


class ClusterClient:
    """The connections and metadata that admin, producer and consumer share.

    It also sends any request of the protocol:

        async with ClusterClient("localhost:9092") as cluster:
            topic = await cluster.topic("orders")
            response = await cluster.ask_any(DescribeClusterRequest(), DescribeClusterResponse)
    """

    def __init__(
        self,
        bootstrap_servers: ClientOptions | str | Sequence[str],
        *,
        client_id: str | None = None,
        connect_timeout_ms: float | None = None,
        request_timeout_ms: float | None = None,
        retry_timeout_ms: float | None = None,
        retry_backoff_ms: float | None = None,
        retry_backoff_max_ms: float | None = None,
        metadata_max_age_ms: float | None = None,
    ) -> None:
        options = as_options(bootstrap_servers).changed(
            client_id=client_id,
            connect_timeout_ms=connect_timeout_ms,
            request_timeout_ms=request_timeout_ms,
            retry_timeout_ms=retry_timeout_ms,
            retry_backoff_ms=retry_backoff_ms,
            retry_backoff_max_ms=retry_backoff_max_ms,
            metadata_max_age_ms=metadata_max_age_ms,
        )
        self.core = ClusterCore(options, SYSTEM_CLOCK, is_connected=self._is_connected)
        self._connections: dict[tuple[Address, str], Connection] = {}
        self._opening: dict[tuple[Address, str], asyncio.Lock] = {}
        self._closed = False

    @property
    def options(self) -> ClientOptions:
        return self.core.options

    @property
    def view(self) -> ClusterView:
        return self.core.view

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

    def _is_connected(self, address: Address) -> bool:
        connection = self._connections.get((address, ""))
        return connection is not None and connection.is_open

    async def _connect(self, address: Address, lane: str = "") -> Connection:
        """The connection to an address and lane; opened at the first use and after it broke."""
        if self._closed:
            raise ClosedError("this client is closed: create a new one")
        key = (address, lane)
        connection = self._connections.get(key)
        if connection is not None and connection.is_open:
            return connection
        async with self._opening.setdefault(key, asyncio.Lock()):
            connection = self._connections.get(key)
            if connection is None or not connection.is_open:
                connection = await Connection.open(
                    *address, client_id=self.options.client_id, timeout_ms=self.options.connect_timeout_ms
                )
                if self._closed:
                    await connection.close()
                    raise ClosedError("this client was closed while it connected")
                self._connections[key] = connection
            return connection

    async def connection_to(self, node_id: int, lane: str = "") -> Connection:
        """The connection to a broker by its id.

        Responses come in the order of requests, so requests that wait long (Fetch, JoinGroup) take a lane
        of their own.
        """
        connection = await self.run(self.core.peer(node_id, lane))
        assert isinstance(connection, Connection)
        return connection

    async def any_connection(self) -> Connection:
        """A connection to the first broker that can be reached."""
        connection = await self.run(self.core.any_peer())
        assert isinstance(connection, Connection)
        return connection

    # Steps.

    async def run(self, steps: Steps[Result]) -> Result:
        """Run steps of the core: serve what they yield until they return."""
        try:
            effect = next(steps)
            while True:
                try:
                    result = await (self._call(effect) if type(effect) is Call else self._serve(effect))
                except ClientError as error:
                    effect = steps.throw(error)
                else:
                    effect = steps.send(result)
        except StopIteration as stop:
            value: Result = stop.value
            return value
        finally:
            steps.close()

    async def _serve(self, effect: Effect) -> Any:
        match effect:
            case Call():
                return await self._call(effect)
            case Pause(ms):
                return await asyncio.sleep(ms / 1000)
            case Connect(address, lane):
                return await self._connect(address, lane)
            case Together(parts):
                return await asyncio.gather(*(self.run(steps) for steps in parts))
            case CallMany(address, messages, response):
                calls = [Call(address, message, response, at_most) for message, at_most in messages]
                return await asyncio.gather(*map(self._call, calls))

    async def _call(self, call: Call) -> Message | None:
        connection = self._connections.get((call.address, call.lane))
        if connection is None or not connection.is_open:
            connection = await self._connect(call.address, call.lane)
        message = request_for(call.message, connection)
        if call.response is None:
            await connection.send_unanswered(message, at_most=call.at_most)
            return None
        timeout_ms = self.options.request_timeout_ms if call.timeout_ms is None else call.timeout_ms
        return await connection.request(message, call.response, timeout_ms=timeout_ms, at_most=call.at_most)

    # Requests.

    async def retrying(
        self, attempt: Callable[[], Awaitable[Result]], *, timeout_ms: float | None = None
    ) -> Result:
        """Repeat `attempt` while it fails with retriable errors."""
        retry = self.core.retry(timeout_ms)
        while True:
            try:
                return await attempt()
            except ClientError as error:
                pause_ms = retry.pause_ms(error)
                self.core.note(error)
            await asyncio.sleep(pause_ms / 1000)

    async def ask(
        self, connection: Connection, message: Message, response: type[Response], at_most: int | None = None
    ) -> Response:
        """One request on a given connection with the client's time-out."""
        return await connection.request(
            message, response, timeout_ms=self.options.request_timeout_ms, at_most=at_most
        )

    async def ask_any(self, message: Message | Build, response: type[Response]) -> Response:
        """Send to any broker, and to another one if that fails: only for requests that are safe to repeat."""
        return await self.run(self.core.ask_any(message, response))

    async def ask_controller(self, message: Message | Build, response: type[Response]) -> Response:
        return await self.run(self.core.ask_controller(message, response))

    async def ask_node(self, node_id: int, message: Message | Build, response: type[Response]) -> Response:
        return await self.run(self.core.ask_node(node_id, message, response))

    # Metadata.

    async def refresh(self, topics: Iterable[str] | None, *, create: bool = False) -> dict[str, int]:
        """Get metadata of these topics (None: all); the error code of each topic that has one."""
        return await self.run(self.core.refresh(topics, create=create))

    async def topic(
        self, name: str, *, create: bool = False, fresh: bool = False, timeout_ms: float | None = None
    ) -> TopicInfo:
        """The metadata of a topic, refreshed if it is old or `fresh` is set. Raises UnknownTopicError.

        With `create`, brokers may create it (`auto.create.topics.enable`); it is retried until it exists.
        """
        return await self.run(self.core.topic(name, create=create, fresh=fresh, timeout_ms=timeout_ms))

    async def partition(self, topic: str, partition: int, *, create: bool = False) -> PartitionInfo:
        """A partition with a leader. Raises a retriable BrokerError while there is none."""
        return await self.run(self.core.partition(topic, partition, create=create))

    async def leaders_of(self, partitions: Iterable[TopicPartition]) -> dict[int, list[TopicPartition]]:
        """The partitions grouped by the broker that leads them."""
        return await self.run(self.core.leaders_of(partitions))

    async def list_offsets(
        self, wanted: Mapping[TopicPartition, int], *, read_committed: bool = False
    ) -> dict[TopicPartition, OffsetAt]:
        """For each (topic, partition) the offset at a timestamp in ms, EARLIEST, LATEST or MAX_TIMESTAMP."""
        return await self.run(offsets.list_offsets(self.core, wanted, read_committed=read_committed))


def as_options(given: ClientOptions | str | Sequence[str]) -> ClientOptions:
    if isinstance(given, ClientOptions):
        return given
    return ClientOptions(given if isinstance(given, str) else ",".join(given))


class ClusterHandle:
    """The cluster of an admin, producer or consumer: given by the user, or created here and closed here."""

    def __init__(
        self,
        cluster: ClusterClient | ClientOptions | str | Sequence[str],
        *,
        client_id: str | None = None,
    ) -> None:
        self._is_own = not isinstance(cluster, ClusterClient)
        self.cluster = (
            cluster if isinstance(cluster, ClusterClient) else ClusterClient(cluster, client_id=client_id)
        )

    async def close(self) -> None:
        if self._is_own:
            await self.cluster.close()
