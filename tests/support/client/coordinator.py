"""A stub broker that coordinates transactions, in version 1 or 2 of the protocol."""

from __future__ import annotations

from functools import partial
from typing import Any

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages import (
    add_partitions_to_txn_response,
    end_txn_response,
    init_producer_id_response,
)
from ottla.records.batch import iter_headers
from tests.support.client.stub import StubBroker


class TransactionCoordinator:
    """Answers the transaction APIs of a stub; `refusals` are the next error codes of an API."""

    def __init__(self, stub: StubBroker, version: int) -> None:
        self.stub = stub
        self.version = version
        self.epoch = -1
        self.refusals: dict[str, list[int]] = {}
        self.log: list[str] = []
        # Set to reject all requests because another broker is the coordinator.
        self.has_moved = False
        stub.features["transaction.version"] = version
        mine = {
            "InitProducerId": self.init,
            "AddPartitionsToTxn": self.add,
            "EndTxn": self.end,
        }
        for name, handler in mine.items():
            stub.handlers[name] = partial(self._handle, name, handler)
        plain_find = stub.handlers["FindCoordinator"]
        stub.handlers["FindCoordinator"] = lambda request: self._find(plain_find(request))
        plain_answer, plain_append = stub.answer, stub.append
        epochs: dict[tuple[str, int, int], int] = {}

        async def answer(name: str, request: Any) -> Any:
            if name in mine:
                self.log.append(name)
            return await plain_answer(name, request)

        def append(topic: str, partition: int, data: bytes) -> tuple[int, int]:
            # As in a real log, every epoch has its own sequence numbers.
            ((_, header),) = iter_headers(data)
            producer = (topic, partition, header.producer_id)
            if epochs.get(producer) != header.producer_epoch:
                epochs[producer] = header.producer_epoch
                stub.sequences.pop(producer, None)
            return plain_append(topic, partition, data)

        stub.answer = answer  # type: ignore[method-assign]
        stub.append = append  # type: ignore[method-assign]

    def _handle(self, name: str, handler: Any, request: Any) -> Any:
        codes = self.refusals.get(name)
        code = codes.pop(0) if codes else 0
        return handler(request, ErrorCode.NOT_COORDINATOR if self.has_moved else code)

    def _find(self, response: Any) -> Any:
        codes = self.refusals.get("FindCoordinator")
        if codes:
            response.coordinators[0].error_code = codes.pop(0)
        return response

    def init(self, request: Any, code: int) -> Any:
        self.epoch += not code
        return init_producer_id_response.InitProducerIdResponse(
            producer_id=7, producer_epoch=self.epoch, error_code=code
        )

    def add(self, request: Any, code: int) -> Any:
        wire = add_partitions_to_txn_response
        return wire.AddPartitionsToTxnResponse(
            results_by_topic_v3_and_below=[
                wire.AddPartitionsToTxnTopicResult(
                    name=topic.name,
                    results_by_partition=[
                        wire.AddPartitionsToTxnPartitionResult(
                            partition_index=index, partition_error_code=code
                        )
                        for index in topic.partitions
                    ],
                )
                for topic in request.v3_and_below_topics
            ]
        )

    def end(self, request: Any, code: int) -> Any:
        if self.version == 1 or code:
            return end_txn_response.EndTxnResponse(error_code=code)
        self.epoch += 1
        return end_txn_response.EndTxnResponse(producer_id=7, producer_epoch=self.epoch)

    def epochs(self, topic: str = "t", partition: int = 0) -> list[tuple[int, int]]:
        """Return producer epoch and first sequence number of each batch of a partition."""
        headers = [header for batch in self.stub.logs[topic, partition] for _, header in iter_headers(batch)]
        assert all(header.is_transactional for header in headers)
        return [(header.producer_epoch, header.base_sequence) for header in headers]
