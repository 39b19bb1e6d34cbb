"""Routing: which broker gets a request, when metadata is refreshed, what is repeated.

`ClusterCore` belongs to one client. Its methods that return `Steps` are run by the client's shell.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any

from ottla.client.core.metadata import ClusterView, Node, PartitionInfo, TopicInfo
from ottla.client.core.negotiation import Negotiated
from ottla.client.core.retry import Backoff, Clock, Deadline, Retry
from ottla.client.core.steps import Build, Call, Pause, Response, Result, Steps, call, connect
from ottla.client.errors import (
    BrokerError,
    ClientError,
    ConnectionFailedError,
    NotKafkaError,
    RequestTimeoutError,
    broker_error,
    raise_for,
)
from ottla.client.options import Address, ClientOptions
from ottla.protocol.errors import RETRIABLE, ErrorCode
from ottla.protocol.message import Message
from ottla.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from ottla.protocol.messages.metadata_response import MetadataResponse
from ottla.protocol.versions import METADATA_AUTO_CREATION_FLAG_SINCE, METADATA_NULL_FOR_ALL_TOPICS_SINCE

TopicPartition = tuple[str, int]
# The broker cannot be reached or does not respond: try another one.
UNREACHABLE = (ConnectionFailedError, RequestTimeoutError)


class ClusterCore:
    """One cluster as a client sees it.

    `is_connected` says whether the shell has a connection to an address that it can use at once.
    """

    def __init__(
        self,
        options: ClientOptions,
        clock: Clock,
        *,
        is_connected: Callable[[Address], bool] = lambda address: False,
        guard: AbstractContextManager[Any] | None = None,
    ) -> None:
        self.options = options
        self.clock = clock
        self.bootstrap = options.bootstrap
        self.view = ClusterView(clock, guard)
        self._is_connected = is_connected

    # Retries.

    def deadline(self, timeout_ms: float) -> Deadline:
        return Deadline(timeout_ms, self.clock)

    def backoff(self) -> Backoff:
        return Backoff(self.options.retry_backoff_ms, self.options.retry_backoff_max_ms, self.clock)

    def retry(self, timeout_ms: float | None = None, *, backoff: Backoff | None = None) -> Retry:
        limit_ms = self.options.retry_timeout_ms if timeout_ms is None else timeout_ms
        return Retry(self.deadline(limit_ms), self.backoff() if backoff is None else backoff)

    def note(self, error: ClientError, topic: str | None = None) -> None:
        """Expire the metadata that an error proves wrong: of its own topic, or of `topic` if unknown."""
        if isinstance(error, BrokerError):
            if error.stale_metadata and (error.topic or topic) is not None:
                self.view.expire(error.topic or topic or "")
        elif topic is not None:
            self.view.expire(topic)

    def retrying(
        self,
        attempt: Callable[[], Steps[Result]],
        *,
        timeout_ms: float | None = None,
        backoff: Backoff | None = None,
    ) -> Steps[Result]:
        """Repeat `attempt` while it fails with retriable errors."""
        retry = self.retry(timeout_ms, backoff=backoff)
        while True:
            try:
                return (yield from attempt())
            except ClientError as error:
                pause_ms = retry.pause_ms(error)
                self.note(error)
            yield Pause(pause_ms)

    # Requests.

    def candidates(self) -> list[Address]:
        """Where any broker may be found: connected ones first, then known ones, then bootstrap servers."""
        known = [node.address for node in self.view.nodes.values()]
        addresses = list(dict.fromkeys(known + self.bootstrap))
        return sorted(addresses, key=lambda address: not self._is_connected(address))

    def any_peer(self, lane: str = "") -> Steps[Negotiated]:
        """Connect to the first broker that can be reached."""
        failures: list[ClientError] = []
        for address in self.candidates():
            try:
                return (yield from connect(address, lane))
            except (*UNREACHABLE, NotKafkaError) as error:
                failures.append(error)
        raise _unreachable(failures)

    def ask_any(
        self, message: Message | Build, response: type[Response], *, at_most: int | None = None
    ) -> Steps[Response]:
        """Send to any broker, and to another one if that fails: only for requests that are safe to repeat."""
        failures: list[ClientError] = []
        for address in self.candidates():
            try:
                return (yield from call(address, message, response, at_most=at_most))
            except (*UNREACHABLE, NotKafkaError) as error:
                failures.append(error)
        raise _unreachable(failures)

    def node(self, node_id: int) -> Steps[Node]:
        """A broker by its id; refreshes metadata if the id is new."""
        if node_id not in self.view.nodes:
            yield from self.refresh([])
        node = self.view.nodes.get(node_id)
        if node is None:
            raise ConnectionFailedError(f"broker {node_id} is not among the brokers of the cluster")
        return node

    def peer(self, node_id: int, lane: str = "") -> Steps[Negotiated]:
        """Connect to a broker; on a failure refresh the metadata, since its partitions get other leaders."""
        node = yield from self.node(node_id)
        try:
            return (yield from connect(node.address, lane))
        except UNREACHABLE:
            self.view.expire_led_by(node_id)
            raise

    def ask_node(
        self,
        node_id: int,
        message: Message | Build,
        response: type[Response],
        *,
        at_most: int | None = None,
        timeout_ms: float | None = None,
        lane: str = "",
    ) -> Steps[Response]:
        node = yield from self.node(node_id)
        try:
            answer: Response = yield Call(node.address, message, response, at_most, timeout_ms, lane)
        except UNREACHABLE:
            self.view.expire_led_by(node_id)
            raise
        return answer

    def controller(self) -> Steps[Address]:
        """The controller according to the metadata; any other broker if it is down."""
        for _ in range(2):
            if self.view.controller_id not in self.view.nodes:
                yield from self.refresh([])
            node = self.view.nodes.get(self.view.controller_id)
            if node is None:
                break
            try:
                yield from connect(node.address)
            except UNREACHABLE:
                self.view.expire_led_by(node.id)
                yield from self.refresh([])
            else:
                return node.address
        # Other brokers forward changes, or know the new controller.
        peer = yield from self.any_peer()
        return Address(peer.host, peer.port)

    def ask_controller(self, message: Message | Build, response: type[Response]) -> Steps[Response]:
        """Send to the controller once: after a broken connection the outcome of a change is unknown."""
        address = yield from self.controller()
        return (yield from call(address, message, response))

    # Metadata.

    def refresh(self, topics: Iterable[str] | None, *, create: bool = False) -> Steps[dict[str, int]]:
        """Get metadata of these topics (None: all); the error code of each topic that has one."""
        names = None if topics is None else list(topics)

        def build(peer: Negotiated) -> Message:
            version = peer.version_for(MetadataRequest.API_KEY)
            rows = None if names is None else [MetadataRequestTopic(name=name) for name in names]
            if rows is None and version < METADATA_NULL_FOR_ALL_TOPICS_SINCE:
                rows = []
            request = MetadataRequest(topics=rows)
            if version >= METADATA_AUTO_CREATION_FLAG_SINCE:
                request.allow_auto_topic_creation = create
            return request

        response = yield from self.ask_any(build, MetadataResponse)
        raise_for(response.error_code, detail="the cluster refused to describe itself")
        return self.view.update(response, all_topics=names is None)

    def topic(
        self, name: str, *, create: bool = False, fresh: bool = False, timeout_ms: float | None = None
    ) -> Steps[TopicInfo]:
        """The metadata of a topic, refreshed if it is old or `fresh` is set. Raises UnknownTopicError.

        With `create`, brokers may create it (`auto.create.topics.enable`). That takes a moment, so a missing
        topic is retried until the time-out; without `create` it is an error at once.
        """
        if fresh:
            self.view.expire(name)
        known = self.view.topic(name, self.options.metadata_max_age_ms)
        if known is not None:
            return known

        def attempt() -> Steps[TopicInfo]:
            code = (yield from self.refresh([name], create=create)).get(name, ErrorCode.NONE)
            raise_for(code, topic=name)
            found = self.view.topics.get(name)
            if found is None:
                raise broker_error(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, topic=name)
            return found

        try:
            return (yield from attempt())
        except ClientError as error:
            missing = isinstance(error, BrokerError) and error.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            if not error.retriable or (missing and not create):
                raise
        return (yield from self.retrying(attempt, timeout_ms=timeout_ms))

    def partition(self, topic: str, partition: int, *, create: bool = False) -> Steps[PartitionInfo]:
        """A partition with a leader. Raises a retriable BrokerError while there is none."""
        info = yield from self.topic(topic, create=create)
        found = info.partitions.get(partition)
        if found is None:
            self.view.expire(topic)  # partitions may have been added
            raise no_such_partition(info, partition)
        if found.leader < 0 or found.error_code in RETRIABLE:
            self.view.expire(topic)
            raise broker_error(
                found.error_code or ErrorCode.LEADER_NOT_AVAILABLE, topic=topic, partition=partition
            )
        return found

    def known_leader(self, topic: str, partition: int) -> int:
        """The leader if metadata is recent and names one; else -1."""
        info = self.view.topic(topic, self.options.metadata_max_age_ms)
        row = info.partitions.get(partition) if info is not None else None
        return -1 if row is None or row.error_code in RETRIABLE else row.leader

    def leaders_of(self, partitions: Iterable[TopicPartition]) -> Steps[dict[int, list[TopicPartition]]]:
        """The partitions grouped by the broker that leads them."""
        grouped: dict[int, list[TopicPartition]] = {}
        for topic, partition in partitions:
            leader = (yield from self.partition(topic, partition)).leader
            grouped.setdefault(leader, []).append((topic, partition))
        return grouped

    def existing_topics(self, names: Sequence[str]) -> Steps[dict[str, TopicInfo]]:
        """The current metadata of those topics that exist, with a single request."""

        def attempt() -> Steps[dict[str, TopicInfo]]:
            for name, code in (yield from self.refresh(names)).items():
                if code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    raise_for(code, topic=name)
            return {name: self.view.topics[name] for name in names if name in self.view.topics}

        return (yield from self.retrying(attempt)) if names else {}

    def topics_matching(self, pattern: str) -> Steps[list[str]]:
        """Names of existing topics that the whole pattern matches, without internal topics."""
        yield from self.retrying(lambda: self.refresh(None))
        compiled = re.compile(pattern)
        topics = self.view.topic_list()
        return sorted(info.name for info in topics if not info.is_internal and compiled.fullmatch(info.name))


def no_such_partition(info: TopicInfo, partition: int) -> BrokerError:
    return broker_error(
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        topic=info.name,
        partition=partition,
        detail=f"the topic has partitions 0 to {len(info.partitions) - 1}",
    )


def _unreachable(failures: list[ClientError]) -> ClientError:
    kind = ConnectionFailedError if any(error.retriable for error in failures) else NotKafkaError
    return kind("; ".join(map(str, failures)))
