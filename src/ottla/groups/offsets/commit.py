"""OffsetCommit, TxnOffsetCommit and OffsetDelete."""

from __future__ import annotations

from ottla.groups.classic.group import PREPARING, STABLE, ClassicGroup
from ottla.groups.classic.protocol import ClassicProtocol
from ottla.groups.context import ShardContext
from ottla.groups.group import Group
from ottla.groups.offsets.records import OffsetRecords
from ottla.machines.outcome import Outcome, RequestContext
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.offset_commit_key import OffsetCommitKey
from ottla.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.protocol.messages.offset_commit_response import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from ottla.protocol.messages.offset_commit_value import OffsetCommitValue
from ottla.protocol.messages.offset_delete_request import OffsetDeleteRequest, OffsetDeleteRequestTopic
from ottla.protocol.messages.offset_delete_response import (
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from ottla.protocol.messages.txn_offset_commit_request import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from ottla.protocol.messages.txn_offset_commit_response import (
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from ottla.protocol.uuids import ZERO_UUID
from ottla.protocol.versions import (
    OFFSET_COMMIT_GROUP_ID_NOT_FOUND_SINCE,
    OFFSET_COMMIT_TOPIC_IDS_SINCE,
    TXN_OFFSET_COMMIT_GROUP_ID_NOT_FOUND_SINCE,
    TXN_OFFSET_COMMIT_TOPIC_IDS_SINCE,
)

# Producers of older versions know only ILLEGAL_GENERATION.
NEWER_TXN_CODES = (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.STALE_MEMBER_EPOCH)


class Commit:
    __slots__ = ("classic", "context", "records")

    def __init__(self, context: ShardContext, classic: ClassicProtocol, records: OffsetRecords) -> None:
        self.context = context
        self.classic = classic
        self.records = records

    # OffsetCommit.

    def commit(self, request: OffsetCommitRequest, ctx: RequestContext, now_ms: int) -> Outcome:
        outcome = Outcome()
        group = self.context.groups.get(request.group_id)
        group_code = self._check_commit(group, request, ctx)
        if not group_code and isinstance(group, ClassicGroup) and group.state in (STABLE, PREPARING):
            self.classic.keep_session(group, request.member_id, now_ms)
        response = OffsetCommitResponse()
        for topic in request.topics:
            answer = OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id)
            response.topics.append(answer)
            by_id = ctx.api_version >= OFFSET_COMMIT_TOPIC_IDS_SINCE
            name, topic_id, topic_code = self._topic(topic, by_id=by_id)
            for partition in topic.partitions:
                code = topic_code or group_code or self._check_partition(group, request, topic_id, partition)
                if code == ErrorCode.NONE:
                    self._write_offset(outcome, request, name, topic_id, partition, now_ms)
                answer.partitions.append(
                    OffsetCommitResponsePartition(partition_index=partition.partition_index, error_code=code)
                )
        outcome.reply = response
        return outcome

    def _check_commit(
        self, group: Group | None, request: OffsetCommitRequest, ctx: RequestContext
    ) -> ErrorCode:
        generation = request.generation_id_or_member_epoch
        if group is not None:
            return group.check_offset_commit(
                request.member_id, request.group_instance_id, generation, ctx.api_version, transactional=False
            )
        if generation < 0:
            return ErrorCode.NONE  # the first commit of a consumer that assigns partitions by itself
        if ctx.api_version >= OFFSET_COMMIT_GROUP_ID_NOT_FOUND_SINCE:
            return ErrorCode.GROUP_ID_NOT_FOUND
        return ErrorCode.ILLEGAL_GENERATION

    def _topic(
        self, topic: OffsetCommitRequestTopic | TxnOffsetCommitRequestTopic, *, by_id: bool
    ) -> tuple[str, bytes, ErrorCode]:
        """Return name and id of the topic, and the error."""
        if by_id:
            topic_id = bytes(topic.topic_id)
            name = self.context.topics.topic_name(topic_id)
            if name is None:
                return "", topic_id, ErrorCode.UNKNOWN_TOPIC_ID
            return name, topic_id, ErrorCode.NONE
        known_id = self.context.topics.topic_id(topic.name)
        if known_id is None:
            return topic.name, ZERO_UUID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return topic.name, known_id, ErrorCode.NONE

    def _check_partition(
        self,
        group: Group | None,
        request: OffsetCommitRequest | TxnOffsetCommitRequest,
        topic_id: bytes,
        partition: OffsetCommitRequestPartition | TxnOffsetCommitRequestPartition,
    ) -> ErrorCode:
        metadata = partition.committed_metadata
        if metadata and len(metadata) > self.context.config.offset_metadata_max_bytes:
            return ErrorCode.OFFSET_METADATA_TOO_LARGE
        if group is None:
            return ErrorCode.NONE
        return group.check_partition_commit(
            request.member_id, request.generation_id_or_member_epoch, topic_id, partition.partition_index
        )

    def _write_offset(
        self,
        outcome: Outcome,
        request: OffsetCommitRequest,
        topic: str,
        topic_id: bytes,
        partition: OffsetCommitRequestPartition,
        now_ms: int,
    ) -> None:
        retention_ms = request.retention_time_ms
        value = OffsetCommitValue(
            offset=partition.committed_offset,
            leader_epoch=partition.committed_leader_epoch,
            metadata=partition.committed_metadata or "",
            commit_timestamp=now_ms,
            expire_timestamp=-1 if retention_ms < 0 else now_ms + retention_ms,
            topic_id=topic_id,
        )
        key = OffsetCommitKey(group=request.group_id, topic=topic, partition=partition.partition_index)
        self.context.write(outcome, key, value, now_ms)

    # TxnOffsetCommit. The batch is transactional; a marker of the transaction coordinator ends it: see
    # Outcome.producer and GroupShard.apply_marker.

    def commit_in_transaction(
        self, request: TxnOffsetCommitRequest, ctx: RequestContext, now_ms: int
    ) -> Outcome:
        outcome = Outcome()
        outcome.producer = (request.producer_id, request.producer_epoch)
        group = self.context.groups.get(request.group_id)
        group_code = self._check_transactional(group, request, ctx)
        response = TxnOffsetCommitResponse()
        for topic in request.topics:
            answer = TxnOffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id)
            response.topics.append(answer)
            by_id = ctx.api_version >= TXN_OFFSET_COMMIT_TOPIC_IDS_SINCE
            name, topic_id, topic_code = self._topic(topic, by_id=by_id)
            for partition in topic.partitions:
                code = topic_code or group_code or self._check_partition(group, request, topic_id, partition)
                code = _txn_code(code, ctx)
                if code == ErrorCode.NONE:
                    self._write_pending(outcome, request, name, topic_id, partition, now_ms)
                answer.partitions.append(
                    TxnOffsetCommitResponsePartition(
                        partition_index=partition.partition_index, error_code=code
                    )
                )
        outcome.reply = response
        return outcome

    def _check_transactional(
        self, group: Group | None, request: TxnOffsetCommitRequest, ctx: RequestContext
    ) -> ErrorCode:
        generation = request.generation_id_or_member_epoch
        if group is None:
            return ErrorCode.NONE if generation < 0 else ErrorCode.GROUP_ID_NOT_FOUND
        return group.check_offset_commit(
            request.member_id, request.group_instance_id, generation, ctx.api_version, transactional=True
        )

    def _write_pending(
        self,
        outcome: Outcome,
        request: TxnOffsetCommitRequest,
        topic: str,
        topic_id: bytes,
        partition: TxnOffsetCommitRequestPartition,
        now_ms: int,
    ) -> None:
        key = OffsetCommitKey(group=request.group_id, topic=topic, partition=partition.partition_index)
        value = OffsetCommitValue(
            offset=partition.committed_offset,
            leader_epoch=partition.committed_leader_epoch,
            metadata=partition.committed_metadata or "",
            commit_timestamp=now_ms,
            topic_id=topic_id,
        )
        outcome.records.append((key, value))
        self.records.apply_pending(key, value, request.producer_id)

    # OffsetDelete.

    def delete(self, request: OffsetDeleteRequest, now_ms: int) -> Outcome:
        outcome = Outcome()
        group = self.context.groups.get(request.group_id)
        code = ErrorCode.GROUP_ID_NOT_FOUND if group is None else group.check_offset_delete()
        if code:
            outcome.reply = OffsetDeleteResponse(error_code=code)
            return outcome
        assert group is not None
        topics = [self._delete_topic(outcome, group, topic, now_ms) for topic in request.topics]
        outcome.reply = OffsetDeleteResponse(topics=topics)
        return outcome

    def _delete_topic(
        self, outcome: Outcome, group: Group, topic: OffsetDeleteRequestTopic, now_ms: int
    ) -> OffsetDeleteResponseTopic:
        answer = OffsetDeleteResponseTopic(name=topic.name)
        code = ErrorCode.NONE
        if group.is_subscribed_to(topic.name):
            code = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
        for partition in topic.partitions:
            index = partition.partition_index
            if code == ErrorCode.NONE:
                self.delete_offset(outcome, group.group_id, topic.name, index, now_ms)
            answer.partitions.append(OffsetDeleteResponsePartition(partition_index=index, error_code=code))
        return answer

    def delete_offset(self, outcome: Outcome, group_id: str, topic: str, partition: int, now_ms: int) -> None:
        offsets = self.context.offsets.get(group_id)
        if offsets is None:
            return
        if offsets.get(topic, partition) is not None or offsets.is_pending(topic, partition):
            key = OffsetCommitKey(group=group_id, topic=topic, partition=partition)
            self.context.write(outcome, key, None, now_ms)

    def delete_all(self, outcome: Outcome, group_id: str, now_ms: int) -> None:
        offsets = self.context.offsets.get(group_id)
        if offsets is not None:
            for topic, partition in offsets.partitions():
                self.delete_offset(outcome, group_id, topic, partition, now_ms)


def _txn_code(code: ErrorCode, ctx: RequestContext) -> ErrorCode:
    if ctx.api_version < TXN_OFFSET_COMMIT_GROUP_ID_NOT_FOUND_SINCE and code in NEWER_TXN_CODES:
        return ErrorCode.ILLEGAL_GENERATION
    return code
