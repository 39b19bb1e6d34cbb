"""Errors of the client; each message names the cause, the value and a remedy."""

from __future__ import annotations

from ottla.protocol.errors import RETRIABLE, ErrorCode

# After these the client's metadata is stale: refresh it before the next attempt.
STALE_METADATA = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.LISTENER_NOT_FOUND,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
    }
)

_WAY_OUT: dict[int, str] = {
    ErrorCode.OFFSET_OUT_OF_RANGE: "retention may have removed it, or it is not written yet: "
    "query the earliest and latest offset and seek between them",
    ErrorCode.CORRUPT_MESSAGE: "the batch was damaged in transit or on disk",
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "check the name, or create the topic first",
    ErrorCode.LEADER_NOT_AVAILABLE: "an election may be in progress: retry, or check that all brokers are up",
    ErrorCode.REQUEST_TIMED_OUT: "the brokers are slow or not all up: try again or allow more time",
    ErrorCode.MESSAGE_TOO_LARGE: "send smaller records or batches, or raise max.message.bytes of the topic",
    ErrorCode.INVALID_TOPIC_EXCEPTION: "use 1 to 249 letters, digits, dots, underscores and hyphens",
    ErrorCode.RECORD_LIST_TOO_LARGE: "send smaller batches, or raise segment.bytes of the topic",
    ErrorCode.NOT_ENOUGH_REPLICAS: "fewer replicas in sync than min.insync.replicas: restart missing brokers",
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: "written to fewer replicas than min.insync.replicas",
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "the principal is not authorized: add an ACL",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "the principal is not authorized: add an ACL",
    ErrorCode.INVALID_TIMESTAMP: "outside message.timestamp.before/after.max.ms of the topic",
    ErrorCode.UNSUPPORTED_VERSION: "the broker is too old for this",
    ErrorCode.TOPIC_ALREADY_EXISTS: "choose another name, or use the existing topic",
    ErrorCode.INVALID_PARTITIONS: "a topic has at least one partition, and partitions can only be added",
    ErrorCode.INVALID_REPLICATION_FACTOR: "it cannot exceed the number of brokers",
    ErrorCode.INVALID_CONFIG: "check the name and the value of the config",
    ErrorCode.INVALID_RECORD: "a compacted topic needs a key on every record",
    ErrorCode.KAFKA_STORAGE_ERROR: "the broker's disk failed or is full: see its log",
    ErrorCode.UNSUPPORTED_COMPRESSION_TYPE: "choose another codec",
    ErrorCode.TOPIC_DELETION_DISABLED: "the brokers run with delete.topic.enable=false",
    ErrorCode.NON_EMPTY_GROUP: "it has members: stop its consumers first",
    ErrorCode.GROUP_ID_NOT_FOUND: "there is no such group",
    ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC: "its members read the topic: stop them first",
    ErrorCode.GROUP_MAX_SIZE_REACHED: "the group has as many members as group.max.size allows",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "the principal is not authorized: add an ACL",
    ErrorCode.COORDINATOR_NOT_AVAILABLE: "the coordinator has no leader: see if all brokers are up",
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: "the coordinator is still reading its log: try again",
    ErrorCode.UNKNOWN_MEMBER_ID: "the group does not know this member: it was removed, or never joined",
    ErrorCode.ILLEGAL_GENERATION: "the group has rebalanced since: another member may own the partition",
    ErrorCode.FENCED_MEMBER_EPOCH: "the member was removed from the group: another one may own the partition",
    ErrorCode.STALE_MEMBER_EPOCH: "the group has a newer epoch: try again after the next poll",
    ErrorCode.REBALANCE_IN_PROGRESS: "the group is rebalancing: poll, then commit again",
    ErrorCode.FENCED_INSTANCE_ID: "another consumer has taken this group.instance.id: give each its own",
    ErrorCode.UNRELEASED_INSTANCE_ID: "another consumer still uses this group.instance.id",
    ErrorCode.INCONSISTENT_GROUP_PROTOCOL: "the members of the group have no assignor or protocol in common",
    ErrorCode.INVALID_PRODUCER_EPOCH: "another producer has the transactional id, or its time-out passed",
    ErrorCode.INVALID_TXN_STATE: "the transaction is not open any more, or another one is",
    ErrorCode.INVALID_TRANSACTION_TIMEOUT: "brokers allow at most transaction.max.timeout.ms (15 minutes)",
    ErrorCode.CONCURRENT_TRANSACTIONS: "the previous transaction is still being ended: try again",
    ErrorCode.TRANSACTION_COORDINATOR_FENCED: "a newer coordinator has already written to the partition",
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "the principal is not authorized: add an ACL",
    ErrorCode.TRANSACTIONAL_ID_NOT_FOUND: "there is no such transactional id",
    ErrorCode.TRANSACTION_ABORTABLE: "abort the transaction and retry it",
    ErrorCode.OFFSET_METADATA_TOO_LARGE: "shorten the metadata of the offset (offset.metadata.max.bytes)",
}


class ClientError(Exception):
    """Base class of all errors that the client raises."""

    retriable = False


class ConnectionFailedError(ClientError):
    """The connection could not be opened, or it broke; the message has the address."""

    retriable = True


class NotKafkaError(ClientError):
    """The peer does not speak Kafka's protocol: a retry would not help."""


class RequestTimeoutError(ClientError):
    """The broker did not respond in time; whether it processed the request is unknown."""

    retriable = True


class UnsupportedApiError(ClientError):
    """The broker does not offer the API, or no version of it that the client knows."""


class ClosedError(ClientError):
    """The client was used after close()."""


class BrokerError(ClientError):
    """A broker refused a request: `code` is Kafka's error code, `group`, `topic`, `partition` say where."""

    def __init__(
        self,
        code: int,
        *,
        topic: str | None = None,
        partition: int | None = None,
        detail: str | None = None,
        group: str | None = None,
    ) -> None:
        self.code = (
            ErrorCode(code) if code in ErrorCode._value2member_map_ else ErrorCode.UNKNOWN_SERVER_ERROR
        )
        self.topic = topic
        self.partition = partition
        self.detail = detail
        self.group = group
        super().__init__(self._text(code))

    @property
    def retriable(self) -> bool:  # type: ignore[override]
        return self.code in RETRIABLE

    @property
    def stale_metadata(self) -> bool:
        return self.code in STALE_METADATA

    def _text(self, code: int) -> str:
        where = "" if self.group is None else f"group {self.group!r}: "
        if self.topic is not None:
            where += f"topic {self.topic!r}" + (
                f" partition {self.partition}" if self.partition is not None else ""
            )
            where += ": "
        name = self.code.name if self.code == code else "UNKNOWN"
        parts = [self.detail] if self.detail else []
        way_out = _WAY_OUT.get(self.code)
        if way_out is not None and not self.detail:
            parts.append(way_out)
        return f"{where}{name} ({code})" + "".join(f": {part}" for part in parts)


class UnknownTopicError(BrokerError):
    """The topic or partition does not exist."""


class TopicExistsError(BrokerError):
    """A topic of that name exists already."""


class OffsetOutOfRangeError(BrokerError):
    """The offset is before the first or after the last one of the partition."""


class UnknownGroupError(BrokerError):
    """No group has that name."""


class GroupNotEmptyError(BrokerError):
    """The group has members; stop them first."""


class RecordTooLargeError(BrokerError):
    """A record is larger than the topic allows."""


class ProducerFencedError(BrokerError):
    """Another producer has the transactional id, or the transaction passed its time-out."""


class UnknownTransactionalIdError(BrokerError):
    """The transactional id does not exist, or expired."""


class TransactionFailedError(ClientError):
    """The transaction can only be aborted; `__cause__` is the reason."""


_CLASSES: dict[int, type[BrokerError]] = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: UnknownTopicError,
    ErrorCode.UNKNOWN_TOPIC_ID: UnknownTopicError,
    ErrorCode.TOPIC_ALREADY_EXISTS: TopicExistsError,
    ErrorCode.OFFSET_OUT_OF_RANGE: OffsetOutOfRangeError,
    ErrorCode.MESSAGE_TOO_LARGE: RecordTooLargeError,
    ErrorCode.GROUP_ID_NOT_FOUND: UnknownGroupError,
    ErrorCode.NON_EMPTY_GROUP: GroupNotEmptyError,
    ErrorCode.PRODUCER_FENCED: ProducerFencedError,
    ErrorCode.TRANSACTIONAL_ID_NOT_FOUND: UnknownTransactionalIdError,
}


def broker_error(
    code: int,
    *,
    topic: str | None = None,
    partition: int | None = None,
    detail: str | None = None,
    group: str | None = None,
) -> BrokerError:
    """The exception for an error code, of the most specific class."""
    kind = _CLASSES.get(code, BrokerError)
    return kind(code, topic=topic, partition=partition, detail=detail, group=group)


def raise_for(
    code: int,
    *,
    topic: str | None = None,
    partition: int | None = None,
    detail: str | None = None,
    group: str | None = None,
) -> None:
    if code != ErrorCode.NONE:
        raise broker_error(code, topic=topic, partition=partition, detail=detail, group=group)
