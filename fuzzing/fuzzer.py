"""The fuzzer: rounds of hostile connections to a live broker, with a health check after each round.

A case is the data of one connection. It depends on the seed and on the state of the broker, so a failed
round is saved as bytes: `replay` sends them again, one connection at a time, to find the failing one.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, NamedTuple, Self

from fuzzing.batches import CODECS, bomb, with_payload
from fuzzing.mutations import garbage, mutated, pieces
from fuzzing.peer import Peer
from fuzzing.recorder import RecordedFrame
from fuzzing.samples import KnownState, Sampler
from fuzzing.target import HEALTHY_TOPIC, BrokerUnhealthy, TargetBroker, produce_request
from ottla.broker.api.registry import BROKER_LISTENER, served_versions
from ottla.protocol.api import API_BY_KEY
from ottla.protocol.frames import encode_request
from ottla.protocol.messages.api_versions_request import ApiVersionsRequest
from ottla.protocol.messages.create_topics_request import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from ottla.protocol.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from ottla.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from ottla.protocol.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ottla.protocol.messages.metadata_request import MetadataRequest
from ottla.records.batch import crc_ok, iter_headers

CASES_PER_ROUND = 60
LINGERING_MAX = 40  # connections that stay open without sending the rest of a request
RSS_GROWTH_BYTES_MAX = 150 * 1024 * 1024
BOMB_BYTES = 256 * 1024 * 1024
# The topics of the recorded frames, with configurations that make the broker inspect batches.
TOPICS: dict[str, dict[str, str]] = {
    "rec-a": {},
    "rec-b": {"cleanup.policy": "compact"},
    "rec-c": {"compression.type": "zstd"},
    "rec-k": {"message.timestamp.type": "LogAppendTime"},
    "rec-aio": {"compression.type": "gzip", "message.timestamp.before.max.ms": "3600000"},
}
TOPIC_OF_BOMBS = "rec-c"
RESOURCE_BROKER = 4
OP_DELETE = 1


class Case(NamedTuple):
    """The writes of one connection, and whether it stays open afterwards."""

    writes: list[bytes]
    lingers: bool


class Fuzzer:
    def __init__(self, target: TargetBroker, frames: Sequence[RecordedFrame], seed: int) -> None:
        self._target = target
        self._frames = frames
        self._rng = random.Random(seed)
        self._known = KnownState()
        self._lingering: list[Peer] = []
        self.seed = seed
        self.rounds = 0
        self.cases = 0
        self.responses = 0
        self._rss_limit_bytes = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close_lingering(0)

    def prepare(self) -> None:
        """Create the topics and send everything once, so that lazy imports do not count as growth."""
        self._refresh()
        self._send_cases([self._case() for _ in range(CASES_PER_ROUND)])
        self._sample_all()
        self._target.check()
        self._rss_limit_bytes = self._target.rss_bytes() + RSS_GROWTH_BYTES_MAX

    def round(self) -> list[Case]:
        """Run one round and the check after it; return its cases."""
        self.rounds += 1
        cases = [self._case() for _ in range(CASES_PER_ROUND)]
        try:
            self._send_cases(cases)
            self._target.check(rss_bytes_max=self._rss_limit_bytes)
            self._refresh()
        except (OSError, AssertionError, ValueError) as error:
            raise FuzzFailure(str(error), self.seed, self.rounds, cases) from error
        return cases

    def finish(self) -> None:
        """Check that all accepted records are readable, also after a kill and a clean restart."""
        self._close_lingering(0)
        for kill in (True, False):
            self._target.check()
            verify_all_data(self._target.healthy)
            self._target.restart(kill=kill)
        self._target.check()
        verify_all_data(self._target.healthy)

    # -- cases

    def _case(self) -> Case:
        rng = self._rng
        kind = rng.random()
        if kind < 0.5:
            data = b"".join(mutated(rng, self._frames) for _ in range(rng.choice((1, 1, 2, 5))))
        elif kind < 0.9:
            data = b"".join(self._sample() for _ in range(rng.choice((1, 3))))
        elif kind < 0.98:
            data = garbage(rng)
        elif kind < 0.995:
            data = rng.choice(LARGE_REQUESTS)()
        else:
            data = self._bomb()
        if rng.random() < 0.1:
            data = data[: rng.randrange(len(data) + 1)]
        return Case(pieces(rng, data), rng.random() < 0.1)

    def _sample(self) -> bytes:
        key = self._rng.choice(list(served_versions(BROKER_LISTENER)))
        api = API_BY_KEY[key]
        return self._sample_of(key, self._rng.randint(api.min_version, api.max_version))

    def _sample_of(self, key: int, version: int) -> bytes:
        sampler = Sampler(self._rng, self._known, int(time.time() * 1000))
        return encode_request(version, self._rng.randrange(1 << 31), "fuzz", sampler.request(key, version))

    def _sample_all(self) -> None:
        for key in served_versions(BROKER_LISTENER):
            for version in range(API_BY_KEY[key].min_version, API_BY_KEY[key].max_version + 1):
                self._send_cases([Case([self._sample_of(key, version)], lingers=False)])

    def _bomb(self) -> bytes:
        codec = self._rng.randrange(1, CODECS - 1)  # the topic uses zstd: other codecs are decompressed
        batch = with_payload(int(time.time() * 1000), codec, bomb(codec, BOMB_BYTES), 1)
        return encode_request(9, 1, "fuzz", produce_request(TOPIC_OF_BOMBS, bytes(batch)))

    # -- sending

    def _send_cases(self, cases: Sequence[Case]) -> None:
        """Open all connections of a round at once; read the responses at its end."""
        peers = []
        with contextlib.ExitStack() as stack:
            for case in cases:
                self.cases += 1
                peer = Peer(self._target.address)
                if case.lingers:
                    self._lingering.append(peer)
                else:
                    peers.append(stack.enter_context(peer))
                with contextlib.suppress(ConnectionError):  # the broker may have closed it
                    for data in case.writes:
                        peer.send(data)
            self._target.healthy.call(ApiVersionsRequest(), 0)  # handled after most of the others
            self.responses += sum(bool(peer.drain()) for peer in peers)
        self._close_lingering(LINGERING_MAX)

    def _close_lingering(self, keep: int) -> None:
        while len(self._lingering) > keep:
            self._lingering.pop(0).close()

    # -- state of the broker

    def _refresh(self) -> None:
        """Undo permanent changes, and read the current topics."""
        peer = self._target.healthy
        by_name = {topic.name: topic for topic in peer.call(MetadataRequest(topics=None), 12).topics}
        unexpected = [name for name in by_name if name not in TOPICS and name != HEALTHY_TOPIC]
        if unexpected:
            states = [DeleteTopicState(name=name) for name in unexpected]
            peer.call(DeleteTopicsRequest(topics=states, timeout_ms=5000), 6)
        missing = [name for name in TOPICS if name not in by_name]
        if missing:
            peer.call(CreateTopicsRequest(topics=[_definition(name) for name in missing], timeout_ms=5000), 7)
        _reset_broker_configs(peer)
        topics = peer.call(MetadataRequest(topics=None), 12).topics
        self._known.topics = [topic.name for topic in topics if topic.name != HEALTHY_TOPIC]
        self._known.topic_ids = [topic.topic_id for topic in topics if topic.name != HEALTHY_TOPIC]


class FuzzFailure(AssertionError):
    """The broker failed the check after a round."""

    def __init__(self, reason: str, seed: int, round_number: int, cases: list[Case]) -> None:
        super().__init__(f"seed {seed}, round {round_number}: {reason}")
        self.seed = seed
        self.round_number = round_number
        self.cases = cases

    def save(self, directory: str) -> str:
        """Write the bytes of the round to a file that `load_cases` reads; returns its path."""
        os.makedirs(directory, exist_ok=True)
        path = os.path.join(directory, f"fuzz-{self.seed}-{self.round_number}.json")
        with open(path, "w", encoding="ascii") as out:
            json.dump(
                {
                    "reason": str(self)[:4000],
                    "cases": [
                        {"writes": [w.hex() for w in c.writes], "lingers": c.lingers} for c in self.cases
                    ],
                },
                out,
                indent=1,
            )
        return path


def load_cases(path: str) -> list[Case]:
    with open(path, encoding="ascii") as source:
        saved = json.load(source)
    return [Case([bytes.fromhex(w) for w in case["writes"]], case["lingers"]) for case in saved["cases"]]


def replay(target: TargetBroker, cases: Sequence[Case]) -> Case | None:
    """Send cases one by one with a check after each; return the first that fails."""
    with Fuzzer(target, [], 0) as fuzzer:
        fuzzer._refresh()
        for case in cases:
            fuzzer._send_cases([case])
            time.sleep(0.02)
            try:
                target.check()
            except BrokerUnhealthy as error:
                print(error)
                return case
    return None


def _definition(name: str) -> CreatableTopic:
    configs = [CreatableTopicConfig(name=key, value=value) for key, value in TOPICS[name].items()]
    return CreatableTopic(name=name, num_partitions=2, replication_factor=1, configs=configs)


def _reset_broker_configs(peer: Peer) -> None:
    """Remove broker-wide defaults that cases may have set."""
    from fuzzing.samples import CONFIGS

    names = sorted({f"log.{name}" for name, _ in CONFIGS if name} | {"message.max.bytes", "compression.type"})
    for resource_name in ("", "1"):
        changes = [AlterableConfig(name=name, config_operation=OP_DELETE, value=None) for name in names]
        for change in changes:
            resource = AlterConfigsResource(
                resource_type=RESOURCE_BROKER, resource_name=resource_name, configs=[change]
            )
            peer.call(IncrementalAlterConfigsRequest(resources=[resource]), 1)


def verify_all_data(peer: Peer) -> None:
    """Read every partition completely: whole batches, valid checksums, increasing offsets."""
    for topic in peer.call(MetadataRequest(topics=None), 12).topics:
        for partition in topic.partitions:
            _verify_partition(peer, topic.name, partition.partition_index)


def _verify_partition(peer: Peer, topic: str, index: int) -> None:
    offset, end = 0, 1
    while offset < end:
        data = _fetch_partition(peer, topic, index, offset)
        if data.error_code == 1:  # out of range: records were deleted below
            if data.log_start_offset <= offset:
                raise BrokerUnhealthy(
                    f"{topic}-{index}: offset {offset} is out of range, start {data.log_start_offset}"
                )
            offset = data.log_start_offset
            continue
        if data.error_code:
            raise BrokerUnhealthy(f"{topic}-{index}: error {data.error_code} at offset {offset}")
        end = data.high_watermark
        before = offset
        for position, header in iter_headers(data.records):
            if not crc_ok(data.records, position, header):
                raise BrokerUnhealthy(f"{topic}-{index}: wrong checksum at offset {header.base_offset}")
            offset = max(offset, header.next_offset)
        if offset == before and offset < end:
            raise BrokerUnhealthy(
                f"{topic}-{index}: nothing to read at offset {offset}, high watermark {end}"
            )


def _fetch_partition(peer: Peer, topic: str, index: int, offset: int) -> Any:
    wanted = FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=8 << 20)
    request = FetchRequest(
        max_wait_ms=0,
        max_bytes=8 << 20,
        session_epoch=-1,
        topics=[FetchTopic(topic=topic, partitions=[wanted])],
    )
    return peer.call(request, 12).responses[0].partitions[0]


def _many_fetch() -> bytes:
    partitions = [
        FetchPartition(partition=n % 5000, fetch_offset=n, partition_max_bytes=1 << 20) for n in range(10_000)
    ]
    request = FetchRequest(max_wait_ms=0, topics=[FetchTopic(topic="rec-a", partitions=partitions)])
    return encode_request(12, 1, "fuzz", request)


def _many_offsets() -> bytes:
    from ottla.protocol.messages.list_offsets_request import (
        ListOffsetsPartition,
        ListOffsetsRequest,
        ListOffsetsTopic,
    )

    asked = [ListOffsetsPartition(partition_index=n, timestamp=-1) for n in range(10_000)]
    topic = ListOffsetsTopic(name="rec-a", partitions=asked)
    return encode_request(7, 1, "fuzz", ListOffsetsRequest(replica_id=-1, topics=[topic]))


def _many_topics() -> bytes:
    from ottla.protocol.messages.metadata_request import MetadataRequestTopic

    topics = [MetadataRequestTopic(name=f"none-{n}") for n in range(10_000)]
    return encode_request(9, 1, "fuzz", MetadataRequest(topics=topics, allow_auto_topic_creation=False))


LARGE_REQUESTS: tuple[Callable[[], bytes], ...] = (_many_fetch, _many_offsets, _many_topics)
