"""OffsetFetch of one group, and the conversion of requests and responses for one group or several."""

from __future__ import annotations

from ottla.groups.context import ShardContext
from ottla.groups.offset_table import TOPIC_ID, CommittedOffset, GroupOffsets
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from ottla.protocol.messages.offset_fetch_response import (
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from ottla.protocol.uuids import ZERO_UUID
from ottla.protocol.versions import (
    OFFSET_FETCH_GROUP_ERROR_SINCE,
    OFFSET_FETCH_GROUPS_SINCE,
    OFFSET_FETCH_TOPIC_IDS_SINCE,
)


def groups_of(request: OffsetFetchRequest, api_version: int) -> list[OffsetFetchRequestGroup]:
    """Return the requested groups, in the form of the newer versions."""
    if api_version >= OFFSET_FETCH_GROUPS_SINCE:
        return request.groups
    topics = None
    if request.topics is not None:
        topics = [
            OffsetFetchRequestTopics(name=topic.name, partition_indexes=topic.partition_indexes)
            for topic in request.topics
        ]
    return [OffsetFetchRequestGroup(group_id=request.group_id, topics=topics)]


def response_of(groups: list[OffsetFetchResponseGroup], api_version: int) -> OffsetFetchResponse:
    if api_version >= OFFSET_FETCH_GROUPS_SINCE:
        return OffsetFetchResponse(groups=groups)
    (group,) = groups
    topics = [
        OffsetFetchResponseTopic(
            name=topic.name,
            partitions=[
                OffsetFetchResponsePartition(
                    partition_index=partition.partition_index,
                    committed_offset=partition.committed_offset,
                    committed_leader_epoch=partition.committed_leader_epoch,
                    metadata=partition.metadata,
                    error_code=partition.error_code,
                )
                for partition in topic.partitions
            ],
        )
        for topic in group.topics
    ]
    return OffsetFetchResponse(topics=topics, error_code=group.error_code)


def refused_fetch(
    request: OffsetFetchRequestGroup, code: ErrorCode, api_version: int
) -> OffsetFetchResponseGroup:
    """Return the error for the whole group; in versions without a group error, every partition has it."""
    response = OffsetFetchResponseGroup(group_id=request.group_id, error_code=code)
    if api_version < OFFSET_FETCH_GROUP_ERROR_SINCE:
        response.topics = [
            OffsetFetchResponseTopics(
                name=topic.name, partitions=[_answer(index, None, code) for index in topic.partition_indexes]
            )
            for topic in request.topics or ()
        ]
    return response


class Fetch:
    __slots__ = ("context",)

    def __init__(self, context: ShardContext) -> None:
        self.context = context

    def fetch(
        self, request: OffsetFetchRequestGroup, require_stable: bool, api_version: int
    ) -> OffsetFetchResponseGroup:
        group = self.context.groups.get(request.group_id)
        if group is not None:
            code = group.check_offset_fetch(request.member_id, request.member_epoch)
            if code:
                return refused_fetch(request, code, api_version)
        offsets = self.context.offsets.get(request.group_id)
        if offsets is None:  # a group with nothing but pending offsets counts as empty
            offsets = GroupOffsets()
        if request.topics is None:
            topics = self._all_topics(offsets, require_stable, api_version)
        else:
            topics = [
                self._topic(offsets, topic, require_stable, api_version >= OFFSET_FETCH_TOPIC_IDS_SINCE)
                for topic in request.topics
            ]
        return OffsetFetchResponseGroup(group_id=request.group_id, topics=topics)

    def _topic(
        self,
        offsets: GroupOffsets,
        topic: OffsetFetchRequestTopics,
        require_stable: bool,
        by_id: bool,
    ) -> OffsetFetchResponseTopics:
        name: str | None = topic.name
        topic_id = ZERO_UUID
        if by_id:
            topic_id = bytes(topic.topic_id)
            name = self.context.topics.topic_name(topic_id)
        answer = OffsetFetchResponseTopics(name=name or "", topic_id=topic_id)
        if name is None:
            code = ErrorCode.UNKNOWN_TOPIC_ID
            answer.partitions = [_answer(index, None, code) for index in topic.partition_indexes]
            return answer
        committed = offsets.topics.get(name) or {}
        for index in topic.partition_indexes:
            found = committed.get(index)
            # An offset of a topic that has been recreated is invalid in the new topic.
            if found is not None and by_id and found[TOPIC_ID] not in (topic_id, ZERO_UUID):
                found = None
            code = ErrorCode.NONE
            if require_stable and offsets.is_pending(name, index):
                code = ErrorCode.UNSTABLE_OFFSET_COMMIT
            answer.partitions.append(_answer(index, found, code))
        return answer

    def _all_topics(
        self, offsets: GroupOffsets, require_stable: bool, api_version: int
    ) -> list[OffsetFetchResponseTopics]:
        by_id = api_version >= OFFSET_FETCH_TOPIC_IDS_SINCE
        topics = []
        for name, committed in offsets.topics.items():
            topic_id = self.context.topics.topic_id(name)
            if by_id and topic_id is None:
                continue  # its topic id is unknown
            requested = OffsetFetchRequestTopics(
                name=name, topic_id=topic_id or ZERO_UUID, partition_indexes=[*committed]
            )
            topics.append(self._topic(offsets, requested, require_stable, by_id))
        return topics


def _answer(index: int, found: CommittedOffset | None, code: ErrorCode) -> OffsetFetchResponsePartitions:
    if found is None or code:
        return OffsetFetchResponsePartitions(
            partition_index=index, committed_offset=-1, metadata="", error_code=code
        )
    offset, leader_epoch, metadata, _, _, _ = found
    return OffsetFetchResponsePartitions(
        partition_index=index, committed_offset=offset, committed_leader_epoch=leader_epoch, metadata=metadata
    )
