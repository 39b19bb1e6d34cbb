"""Every version of every API that the broker advertises gets an answer of that version."""

from __future__ import annotations

import struct
import uuid
from collections.abc import Callable

import pytest

from ottla.broker.api.registry import BROKER_LISTENER, served_versions
from ottla.protocol.api import API_BY_KEY
from ottla.protocol.errors import ErrorCode
from ottla.protocol.message import Message
from ottla.protocol.messages import alter_configs_request as alter
from ottla.protocol.messages import create_partitions_request as create_partitions
from ottla.protocol.messages import create_topics_request as create
from ottla.protocol.messages import delete_records_request as delete_records
from ottla.protocol.messages import delete_topics_request as delete
from ottla.protocol.messages import describe_configs_request as describe
from ottla.protocol.messages import describe_log_dirs_request as log_dirs
from ottla.protocol.messages import describe_topic_partitions_request as topic_partitions
from ottla.protocol.messages import incremental_alter_configs_request as incremental
from ottla.protocol.messages import list_offsets_request as list_offsets
from ottla.protocol.messages import metadata_request as metadata
from ottla.protocol.messages import offset_for_leader_epoch_request as epochs
from ottla.protocol.messages import produce_request as produce
from ottla.protocol.messages.api_versions_request import ApiVersionsRequest
from ottla.protocol.messages.api_versions_response import ApiVersionsResponse
from ottla.protocol.messages.describe_cluster_request import DescribeClusterRequest
from ottla.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from ottla.protocol.messages.init_producer_id_request import InitProducerIdRequest
from ottla.protocol.messages.list_config_resources_request import ListConfigResourcesRequest
from tests.support.interop.wire import Wire, batch_of, fetch_request

Build = Callable[[Wire, str, int], Message]


def _produce(wire: Wire, topic: str, version: int) -> Message:
    part = produce.PartitionProduceData(index=0, records=batch_of(b"x"))
    data = produce.TopicProduceData(
        name=topic if version < 13 else "",
        topic_id=wire.topic_id(topic) if version >= 13 else bytes(16),
        partition_data=[part],
    )
    return produce.ProduceRequest(acks=-1, timeout_ms=5000, topic_data=[data])


def _fetch(wire: Wire, topic: str, version: int) -> Message:
    return fetch_request(wire.topic_id(topic) if version >= 13 else topic)


def _list_offsets(wire: Wire, topic: str, version: int) -> Message:
    query = list_offsets.ListOffsetsPartition(partition_index=0, timestamp=-1)
    found = list_offsets.ListOffsetsTopic(name=topic, partitions=[query])
    return list_offsets.ListOffsetsRequest(replica_id=-1, topics=[found])


def _metadata(wire: Wire, topic: str, version: int) -> Message:
    return metadata.MetadataRequest(topics=[metadata.MetadataRequestTopic(name=topic)])


def _find_coordinator(wire: Wire, topic: str, version: int) -> Message:
    if version < 4:
        return FindCoordinatorRequest(key="group")
    return FindCoordinatorRequest(coordinator_keys=["group", "other"])


def _create_topics(wire: Wire, topic: str, version: int) -> Message:
    count = 1 if version < 4 else -1
    wanted = create.CreatableTopic(
        name=f"new-{uuid.uuid4().hex}", num_partitions=count, replication_factor=count
    )
    return create.CreateTopicsRequest(topics=[wanted], timeout_ms=5000)


def _delete_topics(wire: Wire, topic: str, version: int) -> Message:
    if version < 6:
        return delete.DeleteTopicsRequest(topic_names=[topic], timeout_ms=5000)
    state = delete.DeleteTopicState(name=None, topic_id=wire.topic_id(topic))
    return delete.DeleteTopicsRequest(topics=[state], timeout_ms=5000)


def _delete_records(wire: Wire, topic: str, version: int) -> Message:
    part = delete_records.DeleteRecordsPartition(partition_index=0, offset=-1)
    found = delete_records.DeleteRecordsTopic(name=topic, partitions=[part])
    return delete_records.DeleteRecordsRequest(topics=[found], timeout_ms=5000)


def _epochs(wire: Wire, topic: str, version: int) -> Message:
    part = epochs.OffsetForLeaderPartition(partition=0, leader_epoch=0)
    return epochs.OffsetForLeaderEpochRequest(
        topics=[epochs.OffsetForLeaderTopic(topic=topic, partitions=[part])]
    )


def _describe_configs(wire: Wire, topic: str, version: int) -> Message:
    resource = describe.DescribeConfigsResource(resource_type=2, resource_name=topic, configuration_keys=None)
    return describe.DescribeConfigsRequest(
        resources=[resource], include_synonyms=version >= 1, include_documentation=version >= 3
    )


def _alter_configs(wire: Wire, topic: str, version: int) -> Message:
    entry = alter.AlterableConfig(name="retention.ms", value="60000")
    resource = alter.AlterConfigsResource(resource_type=2, resource_name=topic, configs=[entry])
    return alter.AlterConfigsRequest(resources=[resource])


def _incremental(wire: Wire, topic: str, version: int) -> Message:
    entry = incremental.AlterableConfig(name="retention.ms", config_operation=0, value="60000")
    resource = incremental.AlterConfigsResource(resource_type=2, resource_name=topic, configs=[entry])
    return incremental.IncrementalAlterConfigsRequest(resources=[resource])


def _log_dirs(wire: Wire, topic: str, version: int) -> Message:
    return log_dirs.DescribeLogDirsRequest(
        topics=[log_dirs.DescribableLogDirTopic(topic=topic, partitions=[0])]
    )


def _create_partitions(wire: Wire, topic: str, version: int) -> Message:
    wanted = create_partitions.CreatePartitionsTopic(name=topic, count=2, assignments=None)
    return create_partitions.CreatePartitionsRequest(topics=[wanted], timeout_ms=5000)


def _topic_partitions(wire: Wire, topic: str, version: int) -> Message:
    return topic_partitions.DescribeTopicPartitionsRequest(topics=[topic_partitions.TopicRequest(name=topic)])


BUILD: dict[int, Build] = {
    0: _produce,
    1: _fetch,
    2: _list_offsets,
    3: _metadata,
    10: _find_coordinator,
    18: lambda *_: ApiVersionsRequest(client_software_name="test", client_software_version="1"),
    19: _create_topics,
    20: _delete_topics,
    21: _delete_records,
    22: lambda *_: InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0),
    23: _epochs,
    32: _describe_configs,
    33: _alter_configs,
    35: _log_dirs,
    37: _create_partitions,
    44: _incremental,
    60: lambda *_: DescribeClusterRequest(),
    74: lambda *_: ListConfigResourcesRequest(),
    75: _topic_partitions,
}
VERSIONS = [
    (key, version)
    for key in served_versions(BROKER_LISTENER)
    if key in BUILD
    for version in range(API_BY_KEY[key].min_version, API_BY_KEY[key].max_version + 1)
]


def error_codes(value: object) -> set[int]:
    """Return all error codes in a response."""
    codes: set[int] = set()
    if isinstance(value, list):
        for each in value:
            codes |= error_codes(each)
    elif hasattr(value, "__slots__") and hasattr(value, "SCHEMA"):
        for name in value.__slots__:
            field = getattr(value, name)
            codes |= {field} if name == "error_code" else error_codes(field)
    return codes


@pytest.mark.parametrize(("key", "version"), VERSIONS, ids=[f"{API_BY_KEY[k].name}-{v}" for k, v in VERSIONS])
def test_every_advertised_version_is_answered(wire, topic, key, version):
    wire.produce(topic, batch_of(b"something"))
    answer = wire.ask(BUILD[key](wire, topic, version), version)
    assert error_codes(answer) <= {0}, [ErrorCode(code).name for code in error_codes(answer)]
    assert wire.topic_id(topic) or key == 20  # the connection is still usable


def test_the_table_is_what_is_advertised(wire):
    answer = wire.ask(ApiVersionsRequest(client_software_name="test", client_software_version="1"))
    advertised = {api.api_key: (api.min_version, api.max_version) for api in answer.api_keys}
    assert set(advertised) == set(served_versions(BROKER_LISTENER))
    assert set(BUILD) <= set(advertised)
    for key in BUILD:
        low = 0 if key == 0 else API_BY_KEY[key].min_version  # librdkafka wants to see Produce from 0
        assert advertised[key] == (low, API_BY_KEY[key].max_version)


def test_a_version_of_api_versions_from_the_future_is_answered_in_version_0(wire):
    head = struct.pack(">hhih", 18, 99, 7, 4) + b"test" + b"\0"
    wire.send_bytes(struct.pack(">i", len(head)) + head)
    (size,) = struct.unpack(">i", wire.read(4))
    frame = wire.read(size)
    assert struct.unpack_from(">i", frame) == (7,)
    answer = ApiVersionsResponse.decode(0, frame, 4)
    assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert 18 in {api.api_key for api in answer.api_keys}


@pytest.mark.parametrize(("key", "version"), [(0, 2), (0, 99), (1, 3), (3, 99), (999, 0), (11, -1)])
def test_unknown_apis_and_versions_close_that_connection_only(servers, wire, topic, key, version):
    with Wire(servers) as doomed:
        head = struct.pack(">hhih", key, version, 1, -1)
        doomed.send_bytes(struct.pack(">i", len(head)) + head)
        assert doomed.is_closed_by_broker()
    assert wire.produce(topic, batch_of(b"x")).error_code == 0
