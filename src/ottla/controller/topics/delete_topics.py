"""Decides DeleteTopics: by name or by id."""

from __future__ import annotations

from collections import Counter

from ottla.controller.context import Context
from ottla.controller.refusal import Refusal
from ottla.machines.outcome import Outcome
from ottla.protocol.errors import ErrorCode
from ottla.protocol.message import Message
from ottla.protocol.messages.delete_topics_request import DeleteTopicsRequest
from ottla.protocol.messages.delete_topics_response import DeletableTopicResult, DeleteTopicsResponse
from ottla.protocol.messages.remove_topic_record import RemoveTopicRecord
from ottla.protocol.uuids import ZERO_UUID


def decide_delete_topics(context: Context, request: DeleteTopicsRequest) -> Outcome[DeleteTopicsResponse]:
    """By name (topic_names, or topics with a name) or by id; naming a topic twice deletes nothing of it."""
    asked: list[tuple[str | None, bytes]] = [(name, ZERO_UUID) for name in request.topic_names]
    asked += [(topic.name, topic.topic_id) for topic in request.topics]
    reply = DeleteTopicsResponse()
    if not context.config.get_bool("delete.topic.enable"):
        for name, topic_id in asked:
            reply.responses.append(
                _not_deleted(name, topic_id, ErrorCode.TOPIC_DELETION_DISABLED, "Topic deletion is disabled.")
            )
        return Outcome(reply)
    image = context.image
    counted = Counter(asked)
    records: list[Message] = []
    gone: set[bytes] = set()
    for (name, topic_id), times in counted.items():
        try:
            if name is None and topic_id == ZERO_UUID:
                raise Refusal(ErrorCode.INVALID_REQUEST, "Neither topic name nor id were specified.")
            if name is not None and topic_id != ZERO_UUID:
                raise Refusal(ErrorCode.INVALID_REQUEST, "You may not specify both topic name and topic id.")
            if times > 1:
                what = "name" if name is not None else "id"
                raise Refusal(ErrorCode.INVALID_REQUEST, f"Duplicate topic {what}.")
            topic = image.topics_by_name.get(name) if name is not None else image.topics_by_id.get(topic_id)
            if topic is None:
                code = (
                    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if name is not None else ErrorCode.UNKNOWN_TOPIC_ID
                )
                raise Refusal(code, "There is no such topic.")
            by_both = (topic.name, ZERO_UUID) in counted and (None, topic.topic_id) in counted
            if by_both or topic.topic_id in gone:
                text = "The topic was given by its name and by its id."
                raise Refusal(ErrorCode.INVALID_REQUEST, text)
        except Refusal as refusal:
            reply.responses.append(_not_deleted(name, topic_id, refusal.code, refusal.message))
            continue
        gone.add(topic.topic_id)
        records.append(RemoveTopicRecord(topic_id=topic.topic_id))
        reply.responses.append(DeletableTopicResult(name=topic.name, topic_id=topic.topic_id))
    return Outcome(reply, records=records)


def _not_deleted(name: str | None, topic_id: bytes, code: ErrorCode, message: str) -> DeletableTopicResult:
    return DeletableTopicResult(name=name, topic_id=topic_id, error_code=code, error_message=message)
