"""With a full metadata disk admin requests are refused item by item; with space they succeed."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.broker.api.registry import declaration
from ottla.broker.node import Node
from ottla.config.load import broker_config
from ottla.protocol.errors import ErrorCode
from ottla.protocol.message import Message
from ottla.protocol.messages.alter_configs_request import (
    AlterableConfig,
    AlterConfigsRequest,
    AlterConfigsResource,
)
from ottla.protocol.messages.create_partitions_request import CreatePartitionsRequest, CreatePartitionsTopic
from ottla.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.delete_topics_request import DeleteTopicsRequest
from ottla.protocol.messages.incremental_alter_configs_request import AlterableConfig as IncrementalConfig
from ottla.protocol.messages.incremental_alter_configs_request import (
    AlterConfigsResource as IncrementalResource,
)
from ottla.protocol.messages.incremental_alter_configs_request import IncrementalAlterConfigsRequest
from ottla.protocol.messages.init_producer_id_request import InitProducerIdRequest
from ottla.storage.errors import DiskFull

REQUESTS: list[Message] = [
    CreateTopicsRequest(topics=[CreatableTopic(name="new", num_partitions=1, replication_factor=1)]),
    CreatePartitionsRequest(topics=[CreatePartitionsTopic(name="t", count=2, assignments=None)]),
    AlterConfigsRequest(
        resources=[
            AlterConfigsResource(
                resource_type=2,
                resource_name="t",
                configs=[AlterableConfig(name="retention.ms", value="1000")],
            )
        ]
    ),
    IncrementalAlterConfigsRequest(
        resources=[
            IncrementalResource(
                resource_type=2,
                resource_name="t",
                configs=[IncrementalConfig(name="retention.ms", config_operation=0, value="2000")],
            )
        ]
    ),
    DeleteTopicsRequest(topic_names=["t"]),
]


def codes(answer: Any) -> list[int]:
    for name in ("topics", "results", "responses"):
        if hasattr(answer, name):
            return [each.error_code for each in getattr(answer, name)]
    raise AssertionError(answer)


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_admin_requests_on_a_full_metadata_disk(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        settings = {"log.dirs": str(tmp_path), "listeners": "PLAINTEXT://127.0.0.1:0"}
        broker = Node(broker_config(settings))
        await broker.start()
        try:
            topic = CreatableTopic(name="t", num_partitions=1, replication_factor=1)
            request: Any = SimpleNamespace(on_controller_listener=True, version=2)
            parts = broker._api_parts()

            def handle(message: Message) -> Any:
                return declaration(message.API_KEY).create(parts)(request, message)

            await handle(CreateTopicsRequest(topics=[topic]))

            def no_room(*_: object) -> None:
                raise DiskFull(str(tmp_path), "no space left on device")

            with monkeypatch.context() as full:
                full.setattr(type(broker.quorum_node.raft.log), "append", no_room)
                for message in REQUESTS:
                    answer = await handle(message)
                    assert codes(answer) == [ErrorCode.KAFKA_STORAGE_ERROR], message
                waiting = handle(InitProducerIdRequest(transactional_id=None))
                assert (await waiting).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
            for message in REQUESTS:
                answer = await handle(message)
                assert codes(answer) == [ErrorCode.NONE], message
            given = await handle(InitProducerIdRequest(transactional_id=None))
            assert given.error_code == ErrorCode.NONE
        finally:
            await broker.stop()

    asyncio.run(main())
