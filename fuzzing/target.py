"""The broker process under test, and its health check."""

from __future__ import annotations

import os
import re
import time
from types import TracebackType
from typing import Self

from fuzzing.batches import ordinary_batch
from fuzzing.peer import Peer
from ottla.protocol.messages.api_versions_request import ApiVersionsRequest
from ottla.protocol.messages.create_topics_request import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from ottla.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from ottla.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.testing.ports import free_port
from ottla.testing.process_node import BrokerProcess

HOST = "127.0.0.1"
START_TIMEOUT_S = 30.0
RESPONSE_S_MAX = 5.0
HEALTHY_TOPIC = "untouched"
# Set on the topic, so that changes of broker defaults do not affect it.
HEALTHY_CONFIGS = {
    "cleanup.policy": "delete",
    "retention.ms": "-1",
    "retention.bytes": "-1",
    "max.message.bytes": "1048588",
    "compression.type": "producer",
    "message.timestamp.type": "CreateTime",
    "message.timestamp.before.max.ms": str(2**63 - 1),
    "message.timestamp.after.max.ms": str(2**63 - 1),
    "flush.messages": str(2**63 - 1),
}
_ERRORS = re.compile(r"Traceback|handler failed|CRITICAL|Fatal error|never retrieved|command failed")


class BrokerUnhealthy(AssertionError):
    """The broker failed the health check."""


class TargetBroker:
    """A broker process, its log, and a healthy connection that was opened first."""

    def __init__(self, directory: str, settings: dict[str, str] | None = None) -> None:
        self.log_path = os.path.join(directory, "broker.log")
        self._process = BrokerProcess(
            data_dir=os.path.join(directory, "data"),
            listen=f"{HOST}:{free_port(HOST)}",
            settings=settings or {},
            log_path=self.log_path,
        )
        self._log_pos = 0
        self._healthy: Peer | None = None

    def __enter__(self) -> Self:
        self._process.start(START_TIMEOUT_S)
        try:
            self._connect()
        except BaseException:
            self._disconnect()
            self._process.kill()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._disconnect()
        if kind is None:
            self._process.stop(START_TIMEOUT_S)
        else:
            self._process.kill()

    @property
    def address(self) -> str:
        return self._process.address

    @property
    def healthy(self) -> Peer:
        assert self._healthy is not None
        return self._healthy

    def restart(self, *, kill: bool = False) -> None:
        """Stop or kill the broker, and restart it on the same data."""
        self._disconnect()
        if kill:
            self._process.kill()
        else:
            self._process.stop(START_TIMEOUT_S)
        self._process.start(START_TIMEOUT_S)
        self._connect()

    def _connect(self) -> None:
        self._healthy = Peer(self.address)
        configs = [CreatableTopicConfig(name=name, value=value) for name, value in HEALTHY_CONFIGS.items()]
        topic = CreatableTopic(name=HEALTHY_TOPIC, num_partitions=1, replication_factor=1, configs=configs)
        self._healthy.call(CreateTopicsRequest(topics=[topic], timeout_ms=5000), 7)

    def _disconnect(self) -> None:
        if self._healthy is not None:
            self._healthy.close()
            self._healthy = None

    # -- checks

    def rss_bytes(self, what: str = "VmRSS") -> int:
        with open(f"/proc/{self._process.pid}/status", encoding="ascii") as status:
            for line in status:
                if line.startswith(what + ":"):
                    return int(line.split()[1]) * 1024
        raise BrokerUnhealthy("the broker process has ended")

    def new_log(self) -> str:
        """Return the log lines since the last call."""
        with open(self.log_path, "rb") as log:
            log.seek(self._log_pos)
            text = log.read()
        self._log_pos += len(text)
        return text.decode("utf-8", "replace")

    def wait_for_log(self, text: str, within_s: float = 5.0) -> str:
        """Wait until the new log lines contain `text`, and return them."""
        seen = ""
        deadline_s = time.monotonic() + within_s
        while text not in seen:
            if time.monotonic() > deadline_s:
                raise AssertionError(f"no log line with {text!r} in:\n{seen[-2000:]}")
            seen += self.new_log()
            time.sleep(0.005)
        return seen

    def check(self, *, rss_bytes_max: int | None = None) -> None:
        """Raise BrokerUnhealthy unless the broker runs, responds in time and logged no error."""
        if not self._process.running:
            raise BrokerUnhealthy(f"the broker has ended:\n{self._process.log_tail()}")
        try:
            self._check_answers()
        except (OSError, ValueError, AssertionError) as error:
            raise BrokerUnhealthy(
                f"the healthy connection failed: {error!r}\n{self.new_log()[-4000:]}"
            ) from error
        logged = self.new_log()
        match = _ERRORS.search(logged)
        if match is not None:
            raise BrokerUnhealthy(
                f"error in the log:\n{logged[max(0, match.start() - 300) : match.start() + 3000]}"
            )
        if rss_bytes_max is not None and self.rss_bytes() > rss_bytes_max:
            raise BrokerUnhealthy(f"{self.rss_bytes() >> 20} MB in use, limit {rss_bytes_max >> 20} MB")

    def _check_answers(self) -> None:
        began_s = time.monotonic()
        self.healthy.call(ApiVersionsRequest(client_software_name="x", client_software_version="1"), 3)
        took_s = time.monotonic() - began_s
        if took_s > RESPONSE_S_MAX:
            raise AssertionError(f"no response for {took_s:.1f} s")
        batch = bytes(ordinary_batch(int(time.time() * 1000), 3))
        offset = produce(self.healthy, HEALTHY_TOPIC, batch)
        found = fetch(self.healthy, HEALTHY_TOPIC, offset)
        # The broker stamps the base offset and the leader epoch; everything else is unchanged.
        if found[8:12] + found[16:] != batch[8:12] + batch[16:]:
            raise AssertionError(f"wrote {batch.hex()}, read {found.hex()} at offset {offset}")


def produce(peer: Peer, topic: str, batch: bytes, acks: int = 1, version: int = 9) -> int:
    """Produce a batch and return its offset; raise AssertionError on an error."""
    result = produce_result(peer, topic, batch, acks, version)
    if result[0]:
        raise AssertionError(f"produce: error {result[0]} {result[1]}")
    return result[2]


def produce_request(topic: str, batch: bytes, acks: int = 1) -> ProduceRequest:
    data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=0, records=batch)])
    return ProduceRequest(acks=acks, timeout_ms=5000, topic_data=[data])


def produce_result(
    peer: Peer, topic: str, batch: bytes, acks: int = 1, version: int = 9
) -> tuple[int, str | None, int]:
    """Return error code, message and offset."""
    answer = peer.call(produce_request(topic, batch, acks), version)
    found = answer.responses[0].partition_responses[0]
    return found.error_code, found.error_message, found.base_offset


def fetch_request(topic: str, offset: int, max_wait_ms: int = 0) -> FetchRequest:
    partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        max_bytes=1 << 20,
        session_epoch=-1,
        topics=[FetchTopic(topic=topic, partitions=[partition])],
    )


def fetch(peer: Peer, topic: str, offset: int) -> bytes:
    answer = peer.call(fetch_request(topic, offset), 12)
    found = answer.responses[0].partitions[0]
    if found.error_code:
        raise AssertionError(f"fetch: error {found.error_code}")
    return bytes(found.records)
