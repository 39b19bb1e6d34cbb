"""Administrators: they create, change and delete topics, reassign replicas and trigger elections.

An attempt without a response may take effect much later, even after the next attempt was acknowledged. Its
value is `loose` in the history: the final state may have it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence

from ottla.protocol.errors import RETRIABLE, ErrorCode
from ottla.protocol.messages.alter_partition_reassignments_request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.protocol.messages.alter_partition_reassignments_response import AlterPartitionReassignmentsResponse
from ottla.protocol.messages.create_partitions_request import CreatePartitionsRequest, CreatePartitionsTopic
from ottla.protocol.messages.create_partitions_response import CreatePartitionsResponse
from ottla.protocol.messages.create_topics_request import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from ottla.protocol.messages.create_topics_response import CreateTopicsResponse
from ottla.protocol.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from ottla.protocol.messages.delete_topics_response import DeleteTopicsResponse
from ottla.protocol.messages.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource
from ottla.protocol.messages.describe_configs_response import DescribeConfigsResponse
from ottla.protocol.messages.elect_leaders_request import ElectLeadersRequest
from ottla.protocol.messages.elect_leaders_response import ElectLeadersResponse
from ottla.protocol.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ottla.protocol.messages.incremental_alter_configs_response import IncrementalAlterConfigsResponse
from ottla.protocol.messages.metadata_request import MetadataRequest
from ottla.protocol.messages.metadata_response import MetadataResponse
from simulator.checkers import GONE
from simulator.clients.base import REQUEST_TIMEOUT_MS, Client, RetryLater
from simulator.history.operations import Operation
from simulator.world import World

TOPIC_RESOURCE = 2
SET = 0
PREFERRED = 0
CHANGED_CONFIGS = ("retention.ms", "file.delete.delay.ms", "delete.retention.ms")
CONFIG_FROM = 1_000_000_000
PAUSE_S = (0.05, 0.8)
CONFIG_PAUSE_S = (0.2, 1.2)
SET_CONFIG = "set-config"
UNKNOWN_MAX = 5
UNKNOWN_OUTCOME = -1
# Errors that faults explain: a broker that is down cannot receive replicas.
_LATER = (ErrorCode.INVALID_REPLICATION_FACTOR, ErrorCode.INVALID_REPLICA_ASSIGNMENT)
_ELECTION_REFUSED = (
    ErrorCode.NONE,
    ErrorCode.ELECTION_NOT_NEEDED,
    ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
    ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
)


class Admin(Client):
    async def create_topic(
        self,
        name: str,
        *,
        partitions: int = 1,
        replication_factor: int = 1,
        configs: Mapping[str, str] | None = None,
    ) -> bytes | None:
        """Create a topic, with retries; return its id if the response has one."""
        operation = self.world.history.invoke(self.name, "create-topic", name)
        topic = CreatableTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=replication_factor,
            configs=[CreatableTopicConfig(name=key, value=value) for key, value in (configs or {}).items()],
        )
        request = CreateTopicsRequest(topics=[topic], timeout_ms=REQUEST_TIMEOUT_MS)
        while True:
            try:
                result = (await self.request_any(request, CreateTopicsResponse)).topics[0]
            except RetryLater:
                await self.back_off()
                continue
            if result.error_code in (0, ErrorCode.TOPIC_ALREADY_EXISTS):
                topic_id = None if result.error_code else result.topic_id
                operation.ok(topic_id)
                return topic_id
            if result.error_code not in RETRIABLE and result.error_code not in _LATER:
                operation.fail(result.error_code)
                raise AssertionError(f"topic {name} not created: {result.error_code} {result.error_message}")
            await self.back_off()

    async def all_topics(self) -> MetadataResponse:
        """Describe all topics, with retries."""
        while True:
            try:
                return await self.request_any(MetadataRequest(topics=None), MetadataResponse)
            except RetryLater:
                await self.back_off()

    async def config_of(self, topic: str, key: str) -> str | None:
        resource = DescribeConfigsResource(
            resource_type=TOPIC_RESOURCE, resource_name=topic, configuration_keys=[key]
        )
        while True:
            try:
                answer = await self.request_any(
                    DescribeConfigsRequest(resources=[resource]), DescribeConfigsResponse
                )
                result = answer.results[0]
                if not result.error_code:
                    return result.configs[0].value
            except RetryLater:
                pass
            await self.back_off()


class TopicChanger(Admin):
    """Changes topics, configurations and replicas while faults are injected. `stopping` ends `run`."""

    def __init__(
        self,
        world: World,
        name: str,
        topic: str,
        partitions: Sequence[int],
        config: str,
        *,
        replication_factor: int,
    ) -> None:
        """No other client changes these `partitions` and this `config`, so its last change is final."""
        super().__init__(world, name, topic)
        self.partitions = partitions
        self.config = config
        self.stopping = False
        self._replication_factor = replication_factor
        self._extra: dict[str, bytes] = {}
        self._number = 0
        self._actions: dict[str, Callable[[], Awaitable[None]]] = {
            "create": self.create_extra,
            "delete": self.delete_extra,
            "grow": self.grow_extra,
            "config": self.change_config,
            "reassign": self.reassign,
            "elect": self.elect,
        }

    async def run(self) -> None:
        while not self.stopping:
            await asyncio.sleep(self.rng.uniform(*PAUSE_S))
            await self._actions[self.rng.choice(list(self._actions))]()

    async def _try(
        self, key: str, wanted: str, attempt: Callable[[], Awaitable[int]], *, kind: str = "admin"
    ) -> bool:
        """Send until the outcome is definite or `stopping` is set; return whether it succeeded."""
        history = self.world.history
        operation: Operation = history.invoke(self.name, kind, key, (wanted,))
        while True:
            try:
                code = await attempt()
            except RetryLater:
                code = None
            if code == 0:
                operation.ok(wanted)
                return True
            if code is not None and code not in RETRIABLE and code not in _LATER:
                operation.fail(code)
                return False
            if wanted not in history.loose.setdefault(key, []):
                history.loose[key].append(wanted)
            if self.stopping:
                operation.fail("given up")
                return False
            await self.back_off()

    # -- actions

    async def create_extra(self) -> None:
        self._number += 1
        name = f"{self.name}.{self._number}"
        factor = self.rng.randint(1, self._replication_factor)
        topic_id = await self.create_topic(name, partitions=self.rng.randint(1, 3), replication_factor=factor)
        if topic_id is not None:
            self._extra[name] = topic_id

    async def delete_extra(self) -> None:
        """Delete by id, so that a late request deletes no other topic."""
        if not self._extra:
            return
        name = self.rng.choice(list(self._extra))
        topic_id = self._extra.pop(name)
        request = DeleteTopicsRequest(
            topics=[DeleteTopicState(name=None, topic_id=topic_id)], timeout_ms=REQUEST_TIMEOUT_MS
        )

        unknown = 0

        async def attempt() -> int:
            # The node may lag, or an earlier attempt without a response may have deleted the topic.
            nonlocal unknown
            code = (await self.request_any(request, DeleteTopicsResponse)).responses[0].error_code
            unknown += code == ErrorCode.UNKNOWN_TOPIC_ID
            return UNKNOWN_OUTCOME if unknown > UNKNOWN_MAX else code

        await self._try(f"topic {topic_id.hex()}", GONE, attempt)

    async def grow_extra(self) -> None:
        if not self._extra:
            return
        name = self.rng.choice(list(self._extra))
        count = self.rng.randint(2, 5)
        request = CreatePartitionsRequest(
            topics=[CreatePartitionsTopic(name=name, count=count, assignments=None)],
            timeout_ms=REQUEST_TIMEOUT_MS,
        )

        async def attempt() -> int:
            return (await self.request_any(request, CreatePartitionsResponse)).results[0].error_code

        await self._try(f"partitions {name}", str(count), attempt, kind="grow")

    async def change_config(self) -> None:
        self._number += 1
        value = str(CONFIG_FROM + self._number)
        config = AlterableConfig(name=self.config, config_operation=SET, value=value)
        resource = AlterConfigsResource(
            resource_type=TOPIC_RESOURCE, resource_name=self.topic, configs=[config]
        )
        request = IncrementalAlterConfigsRequest(resources=[resource])

        async def attempt() -> int:
            return (await self.request_any(request, IncrementalAlterConfigsResponse)).responses[0].error_code

        await self._try(f"config {self.config}", value, attempt)

    async def reassign(self) -> None:
        if not self.partitions:
            return
        index = self.rng.choice(self.partitions)
        brokers = [node.id for node in self.world.brokers]
        replicas = self.rng.sample(brokers, min(self._replication_factor, len(brokers)))
        partition = ReassignablePartition(partition_index=index, replicas=replicas)
        request = AlterPartitionReassignmentsRequest(
            topics=[ReassignableTopic(name=self.topic, partitions=[partition])], timeout_ms=REQUEST_TIMEOUT_MS
        )

        async def attempt() -> int:
            answer = await self.request_any(request, AlterPartitionReassignmentsResponse)
            return answer.error_code or answer.responses[0].partitions[0].error_code

        key = f"replicas {self.topic}-{index}"
        await self._try(key, ",".join(map(str, replicas)), attempt)

    async def elect(self) -> None:
        request = ElectLeadersRequest(
            election_type=PREFERRED, topic_partitions=None, timeout_ms=REQUEST_TIMEOUT_MS
        )
        try:
            answer = await self.request_any(request, ElectLeadersResponse)
        except RetryLater:
            return
        for topic in answer.replica_election_results:
            for each in topic.partition_result:
                if each.error_code not in _ELECTION_REFUSED and each.error_code not in RETRIABLE:
                    text = f"election of {topic.topic}-{each.partition_id}: {each.error_code}"
                    self.world.history.surprise(self.name, text)


class ConfigChanger(Admin):
    """Sets configurations of a topic to values of a list, one at a time, until `stopping`."""

    def __init__(
        self, world: World, name: str, topic: str, values: Mapping[str, Sequence[str]] | None = None
    ) -> None:
        super().__init__(world, name, topic)
        self.stopping = False
        self._values = dict(values or {})

    async def run(self) -> None:
        while self._values and not self.stopping:
            await asyncio.sleep(self.rng.uniform(*CONFIG_PAUSE_S))
            key = self.rng.choice(list(self._values))
            await self.set(key, self.rng.choice(self._values[key]))

    async def set(self, key: str, value: str) -> None:
        """Set it, with retries."""
        operation = self.world.history.invoke(self.name, SET_CONFIG, key, (value,))
        config = AlterableConfig(name=key, config_operation=SET, value=value)
        resource = AlterConfigsResource(
            resource_type=TOPIC_RESOURCE, resource_name=self.topic, configs=[config]
        )
        request = IncrementalAlterConfigsRequest(resources=[resource])
        while not self.stopping:
            try:
                answer = await self.request_any(request, IncrementalAlterConfigsResponse)
                if not answer.responses[0].error_code:
                    operation.ok()
                    return
            except RetryLater:
                pass
            await self.back_off()
        operation.info("given up")


async def facts(admin: Admin, topic: str) -> dict[str, str]:
    """The final state of everything that administrators may have changed."""
    found: dict[str, str] = {}
    answer = await admin.all_topics()
    admin.world.history.final_topics = {str(each.name): each.topic_id for each in answer.topics}
    for each in answer.topics:
        found[f"topic {each.topic_id.hex()}"] = "there"
        for partition in each.partitions:
            name = f"{each.name}-{partition.partition_index}"
            found[f"replicas {name}"] = ",".join(map(str, partition.replica_nodes))
    for config in CHANGED_CONFIGS:
        found[f"config {config}"] = str(await admin.config_of(topic, config))
    return found
