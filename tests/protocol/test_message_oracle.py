"""Every message in every version, against kio (an independent implementation), in both directions."""

from __future__ import annotations

import pytest

from ottla.protocol.api import message_class
from tests.support.protocol.oracle import KioSampler, kio_class, kio_decode, kio_encode, same, to_kio
from tests.support.protocol.samples import MESSAGE_NAMES, Sampler, slow_encode, versions_of

SAMPLES = 6
VERSION_MAX = 32767

# kio has only the messages of clients. These are used in logs and files; they are compared with the simple
# codec of the test helpers instead.
NOT_IN_KIO = {
    "AbortTransactionRecord",
    "AbortedTxn",
    "AccessControlEntryRecord",
    "BeginTransactionRecord",
    "BrokerRegistrationChangeRecord",
    "ClearElrRecord",
    "ClientQuotaRecord",
    "ConfigRecord",
    "ConsumerGroupCurrentMemberAssignmentKey",
    "ConsumerGroupCurrentMemberAssignmentValue",
    "ConsumerGroupMemberMetadataKey",
    "ConsumerGroupMemberMetadataValue",
    "ConsumerGroupMetadataKey",
    "ConsumerGroupMetadataValue",
    "ConsumerGroupPartitionMetadataKey",
    "ConsumerGroupPartitionMetadataValue",
    "ConsumerGroupRegularExpressionKey",
    "ConsumerGroupRegularExpressionValue",
    "ConsumerGroupTargetAssignmentMemberKey",
    "ConsumerGroupTargetAssignmentMemberValue",
    "ConsumerGroupTargetAssignmentMetadataKey",
    "ConsumerGroupTargetAssignmentMetadataValue",
    "DelegationTokenRecord",
    "EndTransactionRecord",
    "FeatureLevelRecord",
    "FenceBrokerRecord",
    "GroupMetadataKey",
    "GroupMetadataValue",
    "LegacyOffsetCommitKey",
    "LegacyOffsetCommitValue",
    "NoOpRecord",
    "OffsetCommitKey",
    "OffsetCommitValue",
    "PartitionChangeRecord",
    "PartitionRecord",
    "ProducerIdsRecord",
    "ProducerSnapshot",
    "QuorumStateData",
    "RegisterBrokerRecord",
    "RegisterControllerRecord",
    "RemoteLogSegmentMetadataRecord",
    "RemoteLogSegmentMetadataSnapshotRecord",
    "RemoteLogSegmentMetadataUpdateRecord",
    "RemotePartitionDeleteMetadataRecord",
    "RemoveAccessControlEntryRecord",
    "RemoveDelegationTokenRecord",
    "RemoveTopicRecord",
    "RemoveUserScramCredentialRecord",
    "ShareGroupCurrentMemberAssignmentKey",
    "ShareGroupCurrentMemberAssignmentValue",
    "ShareGroupMemberMetadataKey",
    "ShareGroupMemberMetadataValue",
    "ShareGroupMetadataKey",
    "ShareGroupMetadataValue",
    "ShareGroupStatePartitionMetadataKey",
    "ShareGroupStatePartitionMetadataValue",
    "ShareGroupTargetAssignmentMemberKey",
    "ShareGroupTargetAssignmentMemberValue",
    "ShareGroupTargetAssignmentMetadataKey",
    "ShareGroupTargetAssignmentMetadataValue",
    "ShareSnapshotKey",
    "ShareSnapshotValue",
    "ShareUpdateKey",
    "ShareUpdateValue",
    "StreamsGroupCurrentMemberAssignmentKey",
    "StreamsGroupCurrentMemberAssignmentValue",
    "StreamsGroupMemberMetadataKey",
    "StreamsGroupMemberMetadataValue",
    "StreamsGroupMetadataKey",
    "StreamsGroupMetadataValue",
    "StreamsGroupTargetAssignmentMemberKey",
    "StreamsGroupTargetAssignmentMemberValue",
    "StreamsGroupTargetAssignmentMetadataKey",
    "StreamsGroupTargetAssignmentMetadataValue",
    "StreamsGroupTopologyKey",
    "StreamsGroupTopologyValue",
    "TopicRecord",
    "TransactionLogKey",
    "TransactionLogValue",
    "UnfenceBrokerRecord",
    "UnregisterBrokerRecord",
    "UserScramCredentialRecord",
    "ZkMigrationStateRecord",
}

# First versions of Kafka 4.4 that kio does not have.
NEWER_THAN_KIO = {
    "ApiVersionsRequest": 5,
    "ApiVersionsResponse": 5,
    "DeleteGroupsRequest": 3,
    "DeleteGroupsResponse": 3,
    "StreamsGroupDescribeRequest": 1,
    "StreamsGroupDescribeResponse": 1,
    "StreamsGroupHeartbeatRequest": 1,
    "StreamsGroupHeartbeatResponse": 1,
    "StreamsGroupTopologyDescriptionUpdateRequest": 0,
    "StreamsGroupTopologyDescriptionUpdateResponse": 0,
    "TxnOffsetCommitRequest": 6,
    "TxnOffsetCommitResponse": 6,
    "UnregisterControllerRequest": 0,
    "UnregisterControllerResponse": 0,
}


def test_every_message_is_covered() -> None:
    assert set(MESSAGE_NAMES) > NOT_IN_KIO
    assert len(MESSAGE_NAMES) == 277


@pytest.mark.parametrize("name", [name for name in MESSAGE_NAMES if name not in NOT_IN_KIO])
def test_round_trips_with_kio(name: str) -> None:
    cls = message_class(name)
    for version in versions_of(cls):
        entity = kio_class(cls, version)
        if version >= NEWER_THAN_KIO.get(name, VERSION_MAX):
            assert entity is None, "kio has it now"
            continue
        assert entity is not None, f"kio has no {name} v{version}"
        sampler = KioSampler(f"{name} {version}")
        for _ in range(SAMPLES):
            message = sampler.instance(cls, version, entity)
            ours = message.encode(version)
            assert same(message, kio_decode(entity, ours), version)
            theirs = kio_encode(entity, to_kio(message, entity, version))
            assert cls.decode(version, theirs) == message
            assert ours == theirs


@pytest.mark.parametrize("name", MESSAGE_NAMES)
def test_compiled_codec_equals_the_interpreted_one(name: str) -> None:
    cls = message_class(name)
    for version in versions_of(cls):
        sampler = Sampler(f"{name} {version}")
        for sample in [cls(), *[sampler.instance(cls, version) for _ in range(SAMPLES)]]:
            data = sample.encode(version)
            assert data == slow_encode(sample, version)
            assert cls.decode(version, data) == sample
            assert cls.decode(version, memoryview(bytearray(data))) == sample
            assert cls.read(version, b"12" + data + b"3", 2) == (sample, 2 + len(data))
            assert cls.read(version, memoryview(b"12" + data + b"3"), 2) == (sample, 2 + len(data))
            parts = sample.encode_parts(version, b"head")
            assert b"".join(parts) == b"head" + data  # type: ignore[arg-type]


@pytest.mark.parametrize("name", sorted(NOT_IN_KIO))
def test_messages_without_an_oracle_are_unknown_to_it(name: str) -> None:
    cls = message_class(name)
    assert all(kio_class(cls, version) is None for version in versions_of(cls))
