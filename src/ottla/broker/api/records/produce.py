"""Produce (0): check the batch of each partition, append it, and respond when the requested acks hold.

The records are a view of the connection's receive buffer: every append happens before the handler returns.
Only the first batches of transactions may wait for the transaction coordinator: those are copied.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from ottla.broker.api.declaration import ApiDeclaration
from ottla.broker.api.records.leader_hints import add_endpoints, add_leader
from ottla.broker.net.request import CloseConnection
from ottla.broker.replicas.pending_commits import PendingCommits
from ottla.controller.topics.names import INTERNAL_TOPICS
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.produce_request import PartitionProduceData, ProduceRequest
from ottla.protocol.messages.produce_response import (
    BatchIndexAndErrorMessage,
    NodeEndpoint,
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from ottla.protocol.versions import (
    PRODUCE_CURRENT_LEADER_SINCE,
    PRODUCE_TOPIC_IDS_SINCE,
    PRODUCE_ZSTD_SINCE,
)
from ottla.records.batch import ATTRIBUTES_POS, HEADER_BYTES, TRANSACTIONAL_BIT, RecordsError
from ottla.records.compression import ZSTD
from ottla.storage.errors import StorageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla.broker.api.declaration import Handler
    from ottla.broker.api.parts import ApiParts
    from ottla.broker.coordinators.produce_verification import ProduceVerification
    from ottla.broker.metadata_cache import MetadataCache
    from ottla.broker.net.request import Request
    from ottla.broker.replicas.partition import Partition
    from ottla.broker.replicas.partition_table import PartitionTable

ACKS_ALL = -1
ADMIN_CLIENT_ID = "__admin_client"  # may write internal topics, as in Kafka
_ATTRIBUTES_LOW_BYTE = ATTRIBUTES_POS + 1

log = logging.getLogger("ottla.produce")


class Produce:
    def __init__(
        self,
        partitions: PartitionTable,
        metadata: MetadataCache,
        clock: Callable[[], int],
        verify: Callable[[ProduceRequest, int], ProduceVerification],
    ) -> None:
        self.partitions = partitions
        self.metadata = metadata
        self.clock = clock
        self._verify = verify

    def handle(self, request: Request, message: ProduceRequest) -> Any:
        appends = _Appends(self, request, message)
        if message.transactional_id is not None:
            appends.verification = verification = self._verify(message, request.version)
            if verification and message.acks and not verification.known_now():
                return self._verify_then_append(appends, verification)
        return appends.respond()

    async def _verify_then_append(self, appends: _Appends, verification: ProduceVerification) -> Any:
        await verification.verify()
        response = appends.respond()
        return await response if isinstance(response, asyncio.Future) else response


def create(parts: ApiParts) -> Handler:
    return Produce(parts.partitions, parts.metadata, parts.clock, parts.coordinators.verify_produce).handle


class _Appends:
    """The appends of one request, and which of them are not committed yet."""

    __slots__ = ("_message", "_produce", "_request", "first_error", "pending", "response", "verification")

    def __init__(self, produce: Produce, request: Request, message: ProduceRequest) -> None:
        self._produce = produce
        self._request = request
        self._message = message
        self.response = ProduceResponse()
        self.first_error: str | None = None
        self.pending = PendingCommits(self.response)
        self.verification: ProduceVerification | None = None  # of a transactional producer

    def respond(self) -> Any:
        """Append everything and return the response, or its future."""
        self._append_all()
        response = self.response
        if self._message.acks == 0:
            if self.first_error is not None:
                # acks=0 has no response for the error: closing makes the producer refresh its metadata.
                raise CloseConnection(f"produce with acks=0 failed: {self.first_error}")
            return None
        has_leaders = self._request.version >= PRODUCE_CURRENT_LEADER_SINCE
        if has_leaders and self.first_error is not None:
            self._add_leaders()
        if not self.pending:
            return response
        done = self.pending.future(self._message.timeout_ms)
        if has_leaders:
            done.add_done_callback(lambda _: self._add_leaders())
        return done

    def _add_leaders(self) -> None:
        """Add the leaders of partitions that are led elsewhere."""
        image = self._produce.metadata.image
        leaders = [
            add_leader(image, topic.name or topic.topic_id, data, data.index, data.error_code)
            for topic in self.response.responses
            for data in topic.partition_responses
            if data.error_code
        ]
        if leaders:
            add_endpoints(image, self._request.listener.name, self.response, NodeEndpoint, leaders)

    def _append_all(self) -> None:
        produce = self._produce
        partitions, now_ms = produce.partitions, produce.clock()
        by_id = self._request.version >= PRODUCE_TOPIC_IDS_SINCE
        for topic in self._message.topic_data:
            results: list[PartitionProduceResponse] = []
            for data in topic.partition_data:
                if by_id:
                    partition = partitions.by_id(topic.topic_id, data.index)
                else:
                    partition = partitions.by_name(topic.name, data.index)
                if partition is None:
                    code = partitions.missing_error(topic.topic_id if by_id else topic.name, data.index)
                    results.append(self._failed(data.index, code, None))
                else:
                    results.append(self._append(partition, data, now_ms))
            self.response.responses.append(
                TopicProduceResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=results)
            )

    def _append(
        self, partition: Partition, data: PartitionProduceData, now_ms: int
    ) -> PartitionProduceResponse:
        acks = self._message.acks
        if not -1 <= acks <= 1:
            return self._failed(
                data.index, ErrorCode.INVALID_REQUIRED_ACKS, f"acks={acks}; -1, 0 and 1 are allowed"
            )
        records = data.records
        if records is None or not len(records):
            return self._failed(
                data.index, ErrorCode.INVALID_RECORD, "a produce request needs a record batch"
            )
        if partition.topic in INTERNAL_TOPICS and self._request.client_id != ADMIN_CLIENT_ID:
            reason = f"{partition.topic} is internal: only brokers write to it"
            return self._failed(data.index, ErrorCode.INVALID_TOPIC_EXCEPTION, reason)
        try:
            partition.check_append(acks_all=acks == ACKS_ALL)
            is_transactional = self._check_features(partition, records)
            result = partition.append(records, now_ms)
            if is_transactional and self.verification is not None:
                self.verification.opened(partition, records)
        except RecordsError as error:
            return self._failed(data.index, error.code, error.message or None, error.record_errors)
        except StorageError as error:
            log.error("append failed: partition=%s-%d error=%s", partition.topic, data.index, error)
            return self._failed(data.index, ErrorCode.KAFKA_STORAGE_ERROR, None)
        response = PartitionProduceResponse(
            index=data.index,
            base_offset=result.first_offset,
            log_append_time_ms=result.log_append_time_ms,
            log_start_offset=partition.log.log_start_offset,
        )
        if acks:
            end_offset = result.last_offset + 1
            if end_offset > partition.high_watermark:
                self.pending.add(partition, end_offset, response, local=acks != ACKS_ALL)
        return response

    def _check_features(self, partition: Partition, records: memoryview) -> bool:
        """Check what depends on the request alone; return whether the batch is transactional."""
        if len(records) < HEADER_BYTES:
            return False  # too short for a batch: the validation of the records reports it
        attributes = records[_ATTRIBUTES_LOW_BYTE]
        if attributes & 7 == ZSTD and self._request.version < PRODUCE_ZSTD_SINCE:
            raise RecordsError(
                ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
                f"zstd needs Produce {PRODUCE_ZSTD_SINCE} or later, this is {self._request.version}",
            )
        if not attributes & TRANSACTIONAL_BIT:
            return False
        if self.verification is None:
            raise RecordsError(
                ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "no transactional id is given"
            )
        if not self._message.acks:
            raise RecordsError(ErrorCode.INVALID_REQUIRED_ACKS, "a transactional producer needs acks=all")
        code = self.verification.refusal(partition, records)
        if code:
            raise RecordsError(code, "the batch cannot be part of the transaction")
        return True

    def _failed(
        self,
        index: int,
        code: ErrorCode,
        reason: str | None,
        record_errors: list[tuple[int, str]] | None = None,
    ) -> PartitionProduceResponse:
        if self.first_error is None:
            self.first_error = f"{code.name} {reason or ''}"
        return PartitionProduceResponse(
            index=index,
            error_code=code,
            base_offset=-1,
            error_message=reason,
            record_errors=[
                BatchIndexAndErrorMessage(batch_index=i, batch_index_error_message=text)
                for i, text in record_errors or ()
            ],
        )


API = ApiDeclaration(ApiKey.PRODUCE, create)
