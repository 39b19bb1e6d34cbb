"""Messages with bytes worked out by hand, and the values that a message accepts."""

from __future__ import annotations

import copy
import pickle
import struct

import pytest

from ottla.protocol.errors import DecodeError, EncodeError, ErrorCode
from ottla.protocol.messages.api_versions_request import ApiVersionsRequest
from ottla.protocol.messages.api_versions_response import (
    ApiVersion,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from ottla.protocol.messages.consumer_group_member_metadata_value import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupMemberMetadataValue,
)
from ottla.protocol.messages.fetch_request import FetchRequest, ReplicaState
from ottla.protocol.messages.fetch_response import FetchableTopicResponse, FetchResponse, PartitionData
from ottla.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from ottla.protocol.messages.metadata_response import MetadataResponse
from ottla.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.messages.request_header import RequestHeader
from ottla.protocol.messages.topic_record import TopicRecord


def test_api_versions_request_v3() -> None:
    message = ApiVersionsRequest(client_software_name="librdkafka", client_software_version="2.3.0")
    assert message.encode(3) == b"\x0blibrdkafka\x062.3.0\x00"
    assert message.encode(0) == b""


def test_api_versions_response() -> None:
    message = ApiVersionsResponse(api_keys=[ApiVersion(api_key=18, min_version=0, max_version=4)])
    assert message.encode(0) == bytes.fromhex("0000 00000001 0012 0000 0004")
    assert message.encode(3) == bytes.fromhex("0000 02 0012 0000 0004 00 00000000 00")


def test_tagged_fields_of_api_versions_response() -> None:
    message = ApiVersionsResponse(
        supported_features=[SupportedFeatureKey(name="k", min_version=1, max_version=2)],
        finalized_features_epoch=5,
        finalized_features=[FinalizedFeatureKey(name="k", max_version_level=3, min_version_level=1)],
        zk_migration_ready=True,
    )
    features = "02 026b 0001 0002 00"
    finalized = "02 026b 0003 0001 00"
    epoch = "0000000000000005"
    expected = bytes.fromhex(f"0000 01 00000000 04 0008 {features} 0108 {epoch} 0208 {finalized} 0301 01")
    assert message.encode(3) == expected
    assert ApiVersionsResponse.decode(3, expected) == message


def test_metadata_request() -> None:
    message = MetadataRequest(topics=[MetadataRequestTopic(name="ab")])
    assert message.encode(0) == bytes.fromhex("00000001 0002 6162")
    assert message.encode(4) == bytes.fromhex("00000001 0002 6162 01")
    zero = "00" * 16
    assert message.encode(12) == bytes.fromhex(f"02 {zero} 03 6162 00 01 00 00")
    assert MetadataRequest(topics=None).encode(12) == bytes.fromhex("00 01 00 00")
    assert MetadataRequest().encode(12) == bytes.fromhex("01 01 00 00")
    with pytest.raises(EncodeError):
        MetadataRequest(topics=None).encode(0)


def test_topic_names_may_be_null_since_version_10() -> None:
    message = MetadataRequest(topics=[MetadataRequestTopic(name=None, topic_id=b"0123456789abcdef")])
    assert MetadataRequest.decode(12, message.encode(12)) == message
    with pytest.raises(EncodeError):
        message.encode(9)


def test_request_header_keeps_the_old_string() -> None:
    message = RequestHeader(request_api_key=3, request_api_version=12, correlation_id=7, client_id="ab")
    assert message.encode(1) == bytes.fromhex("0003 000c 00000007 0002 6162")
    assert message.encode(2) == bytes.fromhex("0003 000c 00000007 0002 6162 00")


def test_topic_record() -> None:
    message = TopicRecord(name="t", topic_id=bytes(range(16)))
    assert message.encode(0) == b"\x02t" + bytes(range(16)) + b"\0"


def test_defaults() -> None:
    message = FetchRequest()
    assert message.replica_id == -1
    assert message.max_bytes == 0x7FFFFFFF
    assert message.cluster_id is None
    assert message.topics == []
    assert message.replica_state == ReplicaState(replica_id=-1, replica_epoch=-1)
    assert MetadataRequest().allow_auto_topic_creation is True
    assert MetadataRequest().topics == []


def test_defaults_are_fresh() -> None:
    first, second = FetchRequest(), FetchRequest()
    first.topics.append(object())  # type: ignore[arg-type]
    first.replica_state.replica_id = 5
    assert second == FetchRequest()
    decoded = [FetchRequest.decode(17, FetchRequest().encode(17)) for _ in range(2)]
    decoded[0].replica_state.replica_id = 5
    assert decoded[1] == FetchRequest()


def test_default_of_a_nullable_tagged_struct_is_not_null() -> None:
    # The definitions give it a JSON null as default, which means none: an absent tag is an empty struct.
    assert ConsumerGroupMemberMetadataValue().classic_member_metadata == ClassicMemberMetadata()
    null = ConsumerGroupMemberMetadataValue(classic_member_metadata=None)
    assert ConsumerGroupMemberMetadataValue.decode(0, null.encode(0)) == null


def test_marker_of_a_nullable_tagged_struct() -> None:
    """In a tagged field null is an unsigned varint 0, not -1 as elsewhere. These bytes are Kafka's own."""
    head = bytes.fromhex("01 01 02 63 03 2f 68 02 02 74 00 00 00 03 e8 01 01 00")
    present = bytes.fromhex("0d 01 00 00 00 2d 02 02 72 03 00 01 00 00")
    message = ConsumerGroupMemberMetadataValue(
        client_id="c",
        client_host="/h",
        subscribed_topic_names=["t"],
        subscribed_topic_regex=None,
        rebalance_timeout_ms=1000,
        classic_member_metadata=None,
    )
    assert message.encode(0) == head + b"\x01\x00"
    assert ConsumerGroupMemberMetadataValue.decode(0, head + b"\x01\x00") == message
    # Ottla wrote this before.
    assert ConsumerGroupMemberMetadataValue.decode(0, head + b"\x01\xff") == message
    protocol = ClassicProtocol(name="r", metadata=b"\0\1")
    message.classic_member_metadata = ClassicMemberMetadata(
        session_timeout_ms=45, supported_protocols=[protocol]
    )
    assert message.encode(0) == head + present
    assert ConsumerGroupMemberMetadataValue.decode(0, head + present) == message
    for marker in (b"\x02", b"\x7f", b"\x80"):
        with pytest.raises(DecodeError, match="classic_member_metadata"):
            ConsumerGroupMemberMetadataValue.decode(0, head + b"\x01" + marker)


def test_field_missing_in_the_version() -> None:
    message = FetchRequest(replica_id=3)
    with pytest.raises(EncodeError, match="FetchRequest v15 has no replica_id, but it is 3"):
        message.encode(15)
    assert message.encode(14)
    with pytest.raises(EncodeError, match="replica_state"):
        FetchRequest(replica_state=ReplicaState(replica_id=3)).encode(14)


def test_ignorable_field_missing_in_the_version() -> None:
    message = FetchRequest(rack_id="r", session_id=4, cluster_id="c")
    assert FetchRequest.decode(4, message.encode(4)) == FetchRequest()


@pytest.mark.parametrize(
    "message",
    [
        FetchRequest(max_wait_ms=2**31),
        FetchRequest(max_wait_ms=None),  # type: ignore[arg-type]
        FetchRequest(max_wait_ms="1"),  # type: ignore[arg-type]
        FetchRequest(rack_id=None),  # type: ignore[arg-type]
        FetchRequest(rack_id=b"bytes"),  # type: ignore[arg-type]
        FetchRequest(rack_id="x" * 32768),
        FetchRequest(rack_id="\ud800"),
        FetchRequest(cluster_id="x" * 32768),
        FetchRequest(topics=None),  # type: ignore[arg-type]
        FetchRequest(topics=[None]),  # type: ignore[list-item]
        FetchRequest(isolation_level=128),
    ],
    ids=range(11),
)
def test_values_that_do_not_fit(message: FetchRequest) -> None:
    for version in (12, 17):
        with pytest.raises(EncodeError):
            message.encode(version)


def test_uuid_of_the_wrong_length() -> None:
    with pytest.raises(EncodeError, match="16 bytes"):
        TopicRecord(name="t", topic_id=b"short").encode(0)


def test_version_that_does_not_exist() -> None:
    with pytest.raises(EncodeError, match="no version 99"):
        FetchRequest().encode(99)


def test_error_codes_are_numbers_on_the_wire() -> None:
    message = MetadataResponse(error_code=ErrorCode.REBOOTSTRAP_REQUIRED)
    assert MetadataResponse.decode(13, message.encode(13)).error_code == 129


def produce(records: object) -> ProduceRequest:
    partition = PartitionProduceData(index=1, records=records)
    return ProduceRequest(acks=-1, topic_data=[TopicProduceData(name="t", partition_data=[partition])])


def test_records_are_a_view_of_the_input() -> None:
    for version in (3, 9):
        frame = bytearray(produce(b"0123456789").encode(version))
        found = ProduceRequest.decode(version, frame).topic_data[0].partition_data[0].records
        assert isinstance(found, memoryview) and bytes(found) == b"0123456789"
        found[0:1] = b"X"
        assert b"X123456789" in frame
    assert ProduceRequest.decode(3, produce(None).encode(3)) == produce(None)


class Region:
    """A region of a file that was not read."""

    def __len__(self) -> int:
        return 1000


def test_records_are_passed_on_without_a_copy() -> None:
    regions = [Region(), Region()]
    partitions = [PartitionData(partition_index=i, records=region) for i, region in enumerate(regions)]
    message = FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=partitions)])
    for version in (4, 11, 12):
        parts = message.encode_parts(version, b"HEAD")
        assert [part for part in parts if isinstance(part, Region)] == regions
        plain = [part for part in parts if not isinstance(part, Region)]
        assert all(type(part) is bytes for part in plain) and plain[0].startswith(b"HEAD")  # type: ignore[attr-defined]
        whole = b"".join(bytes(1000) if isinstance(part, Region) else part for part in parts)  # type: ignore[misc]
        found = FetchResponse.decode(version, whole, 4).responses[0].partitions
        assert [len(item.records) for item in found] == [1000, 1000]
        with pytest.raises(EncodeError, match="not in memory"):
            message.encode(version)


def test_empty_records_are_no_part() -> None:
    parts = produce(b"").encode_parts(9)
    assert len(parts) == 1
    decoded = ProduceRequest.decode(9, parts[0])  # type: ignore[arg-type]
    assert decoded.topic_data[0].partition_data[0].records == b""


def test_compared_shown_and_copied_by_value() -> None:
    message = MetadataRequest(topics=[MetadataRequestTopic(name="a")])
    assert message == copy.deepcopy(message) == pickle.loads(pickle.dumps(message))
    assert message != MetadataRequest(topics=[MetadataRequestTopic(name="b")])
    assert message != FetchRequest()
    assert "topics=[MetadataRequestTopic(topic_id=" in repr(message)
    with pytest.raises(TypeError):
        hash(message)
    with pytest.raises(AttributeError):
        message.no_such_field = 1  # type: ignore[attr-defined]


def test_int32_arrays_around_the_short_form() -> None:
    from ottla.protocol.messages.fetch_request import ForgottenTopic

    for count in (0, 1, 7, 8, 9, 126, 127, 128, 1000):
        message = FetchRequest(
            forgotten_topics_data=[ForgottenTopic(topic="t", partitions=list(range(count)))]
        )
        packed = struct.pack(f">{count}i", *range(count))
        for version in (7, 12):
            data = message.encode(version)
            assert packed in data
            assert FetchRequest.decode(version, data) == message
