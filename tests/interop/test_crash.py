"""`kill -9` during writes, torn tails and restarts: acknowledged records survive, and logs are consistent.

After a kill the kernel still has all writes; after a power cut it does not. A power cut is simulated by
damaging, after a kill, what was written since the last flush.
"""

from __future__ import annotations

import glob
import os
import random
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import confluent_kafka
import pytest

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.delete_records_request import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from ottla.protocol.messages.metadata_request import MetadataRequest
from ottla.protocol.messages.offset_for_leader_epoch_request import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from ottla.testing import Cluster
from tests.support.interop.wire import Wire, batch_of
from tests.support.waiting import wait_until

PARTITIONS = 3


@pytest.fixture
def cluster():
    with Cluster() as cluster:
        yield cluster


class Load:
    """An idempotent librdkafka producer that runs in the background across crashes of its broker."""

    def __init__(self, servers: str, topic: str) -> None:
        self.acknowledged: dict[tuple[int, int], bytes] = {}  # (partition, offset): value
        self.sent: dict[int, list[bytes]] = defaultdict(list)
        self.errors: list[Any] = []
        self._topic = topic
        self._stop = threading.Event()
        self._producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": servers,
                "enable.idempotence": True,
                "linger.ms": 1,
                "batch.num.messages": 20,
                "reconnect.backoff.ms": 20,
                "reconnect.backoff.max.ms": 100,
                "retry.backoff.ms": 20,
                "retry.backoff.max.ms": 100,
                "message.timeout.ms": 60_000,
                "log_level": 0,
            }
        )
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        number = 0
        while not self._stop.is_set():
            if len(self._producer) < 500:
                value = b"%d " % number + b"x" * (number % 300)
                partition = number % PARTITIONS
                self.sent[partition].append(value)
                self._producer.produce(self._topic, value, partition=partition, on_delivery=self._delivered)
                number += 1
                self._producer.poll(0)
            else:
                self._producer.poll(0.002)

    def _delivered(self, error: Any, message: Any) -> None:
        if error is not None:
            self.errors.append(error)
        else:
            self.acknowledged[message.partition(), message.offset()] = message.value()

    def finish(self) -> None:
        self._stop.set()
        self._thread.join()
        assert self._producer.flush(30) == 0


def stored(cluster: Cluster, topic: str, partition: int = 0) -> list[bytes]:
    """Return all values; check checksums and that offsets have no gaps."""
    with Wire(cluster.bootstrap_servers) as wire:
        found = wire.records(topic, partition=partition)
    assert [record.offset for record in found] == list(range(len(found)))
    return [record.value for record in found]


def check_acknowledged(cluster: Cluster, topic: str, acknowledged: dict[tuple[int, int], bytes]) -> None:
    values = {index: stored(cluster, topic, index) for index in range(PARTITIONS)}
    for (partition, offset), value in acknowledged.items():
        assert offset < len(values[partition]), f"{topic}-{partition}: offset {offset} was acknowledged"
        assert values[partition][offset] == value


@pytest.mark.parametrize(
    "configs", [{"flush.messages": 1}, {"flush.messages": 50, "segment.bytes": 1_048_576}, {}]
)
def test_kills_under_load_lose_and_duplicate_nothing(cluster, configs):
    rng = random.Random()
    cluster.create_topic("load", PARTITIONS, configs)
    load = Load(cluster.bootstrap_servers, "load")
    try:
        for _ in range(3):
            before = len(load.acknowledged)
            wait_until(
                lambda before=before: len(load.acknowledged) > before,
                lambda: f"progress after the restart: {load.errors[:3]}",
                10,
            )
            time.sleep(rng.uniform(0.05, 0.4))
            cluster.kill()
            acknowledged = dict(load.acknowledged)
            cluster.start()
            check_acknowledged(cluster, "load", acknowledged)
    finally:
        load.finish()
    assert load.errors == []
    # The producer retried after every crash: each record is there once and in order.
    for partition in range(PARTITIONS):
        assert stored(cluster, "load", partition) == load.sent[partition]
    check_acknowledged(cluster, "load", load.acknowledged)


# -- power cuts


def cut_tail(path: str, keep_bytes: int, rng: random.Random) -> None:
    os.truncate(path, rng.randint(keep_bytes, os.path.getsize(path)))


def zero_tail(path: str, keep_bytes: int, rng: random.Random) -> None:
    """The size reached the disk, the content did not."""
    start = rng.randint(keep_bytes, os.path.getsize(path))
    with open(path, "r+b") as file:
        file.seek(start)
        file.write(bytes(os.path.getsize(path) - start))


def flip_in_tail(path: str, keep_bytes: int, rng: random.Random) -> None:
    with open(path, "r+b") as file:
        data = bytearray(file.read())
        data[rng.randrange(keep_bytes, len(data))] ^= 1 << rng.randrange(8)
        file.seek(0)
        file.write(data)


def append_garbage(path: str, keep_bytes: int, rng: random.Random) -> None:
    with open(path, "ab") as file:
        file.write(rng.randbytes(rng.randint(1, 2000)))


@pytest.mark.parametrize("damage", [cut_tail, zero_tail, flip_in_tail, append_garbage])
def test_a_power_cut_leaves_a_prefix(cluster, damage: Callable[[str, int, random.Random], None]):
    seed = random.randrange(2**32)
    rng = random.Random(seed)
    cluster.create_topic("plain")
    cluster.create_topic("flushed", 1, {"flush.messages": 1})
    path = os.path.join(cluster.data_dir, "plain-0", "0" * 20 + ".log")
    expected: list[bytes] = []
    flushed: list[bytes] = []
    for round_ in range(3):
        size_before = os.path.getsize(path)
        sent: list[bytes] = []
        with Wire(cluster.bootstrap_servers) as wire:
            producer_id, epoch = wire.init_producer()
            for n in range(rng.randint(1, 60)):
                values = [b"%d/%d/%d" % (round_, n, i) + b"x" * rng.randint(0, 200) for i in range(3)]
                batch = batch_of(
                    *values,
                    producer_id=producer_id,
                    producer_epoch=epoch,
                    base_sequence=3 * n,
                    codec=rng.randrange(5),
                )
                assert wire.produce("plain", batch).base_offset == len(expected) + len(sent)
                assert wire.produce("flushed", batch_of(values[0])).error_code == 0
                sent += values
                flushed.append(values[0])
        cluster.kill()
        damage(path, size_before, rng)
        cluster.start()
        found = stored(cluster, "plain")
        assert found == (expected + sent)[: len(found)], f"seed {seed}"
        assert len(found) >= len(expected), f"seed {seed}: flushed records are lost"
        if damage is append_garbage:
            assert found == expected + sent
        assert stored(cluster, "flushed") == flushed
        with Wire(cluster.bootstrap_servers) as wire:
            # If the last batch is sent again, it is a duplicate if it survived, and appended otherwise.
            again = wire.produce("plain", batch)
            if found == expected + sent:
                assert again.base_offset == len(found) - 3
                expected = found
            elif len(found) == len(expected + sent) - 3:
                assert again.base_offset == len(found)
                expected = found + sent[-3:]
            else:
                # An earlier batch is lost too, so it is out of order, unless no batch of its producer is
                # left in a log that has others.
                is_unknown = 0 < len(found) == len(expected)
                assert again.error_code == (0 if is_unknown else ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
                expected = found + (sent[-3:] if is_unknown else [])
            assert wire.produce("plain", batch_of(b"after")).base_offset == len(expected)
            flush(wire, "plain")
            expected += [b"after", b"flush"]
        assert stored(cluster, "plain") == expected


def flush(wire: Wire, topic: str) -> None:
    """Wait until all records so far are flushed, by writing a record with flush.messages=1."""
    wire.alter(topic, **{"flush.messages": 1})
    assert wire.produce(topic, batch_of(b"flush")).error_code == 0
    wire.alter(topic, **{"flush.messages": None})


def test_lost_indexes_and_checkpoints_are_rebuilt(cluster):
    cluster.create_topic("t", 1, {"segment.bytes": 1_048_576, "index.interval.bytes": 100})
    start_ms = int(time.time()) * 1000 - 3_600_000
    with Wire(cluster.bootstrap_servers) as wire:
        for n in range(300):
            wire.produce("t", batch_of(b"%d " % n + b"x" * 10_000, timestamp_ms=start_ms + n))
    for pattern in ("*.index", "*.timeindex"):
        cluster.kill()
        lost = glob.glob(os.path.join(cluster.data_dir, "t-0", pattern))
        assert len(lost) >= 2
        for path in lost:
            os.unlink(path)
        for path in glob.glob(os.path.join(cluster.data_dir, "*checkpoint")):
            os.unlink(path)
        cluster.start()
        assert len(stored(cluster, "t")) == 300
        with Wire(cluster.bootstrap_servers) as wire:
            assert wire.list_offsets("t", start_ms + 222).offset == 222
            assert wire.records("t", 250)[0].value.startswith(b"250 ")


# -- restarts


def leader_epoch(wire: Wire, topic: str) -> int:
    return wire.list_offsets(topic, -1).leader_epoch


@pytest.mark.parametrize("how", ["restart", "kill"])
def test_a_restart_keeps_everything(cluster, how):
    cluster.create_topic("kept", 2, {"retention.ms": 123_456_789, "flush.messages": 1})
    with Wire(cluster.bootstrap_servers) as wire:
        producer_id, producer_epoch = wire.init_producer()
        batches = [
            batch_of(b"%d" % n, producer_id=producer_id, producer_epoch=producer_epoch, base_sequence=n)
            for n in range(8)
        ]
        for batch in batches[:6]:
            wire.produce("kept", batch)
        topic_id = wire.topic_id("kept")
        cluster_id = wire.ask(MetadataRequest(topics=[])).cluster_id
        epoch = leader_epoch(wire, "kept")
        if how == "restart":
            query = DeleteRecordsTopic(
                name="kept", partitions=[DeleteRecordsPartition(partition_index=0, offset=1)]
            )
            wire.ask(DeleteRecordsRequest(topics=[query], timeout_ms=1000))
    if how == "restart":
        cluster.restart()
    else:
        cluster.kill()
        cluster.start()
    with Wire(cluster.bootstrap_servers) as wire:
        start = 1 if how == "restart" else 0
        assert wire.list_offsets("kept", -2).offset == start
        assert [record.value for record in wire.records("kept", start)] == [
            b"%d" % n for n in range(start, 6)
        ]
        assert wire.topic_id("kept") == topic_id
        assert wire.ask(MetadataRequest(topics=[])).cluster_id == cluster_id
        assert config_of(wire, "kept")["retention.ms"] == "123456789"
        # Producer state survives: a retry is a duplicate, and the next batch is accepted.
        assert wire.produce("kept", batches[5]).base_offset == 5
        assert wire.produce("kept", batches[7]).error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        assert wire.produce("kept", batches[6]).base_offset == 6
        assert wire.init_producer()[0] != producer_id
        check_epochs(wire, "kept", epoch, end_of_old=6)


def config_of(wire: Wire, topic: str) -> dict[str, str | None]:
    from ottla.protocol.messages.describe_configs_request import (
        DescribeConfigsRequest,
        DescribeConfigsResource,
    )

    resource = DescribeConfigsResource(resource_type=2, resource_name=topic, configuration_keys=None)
    (found,) = wire.ask(DescribeConfigsRequest(resources=[resource])).results
    return {entry.name: entry.value for entry in found.configs}


def check_epochs(wire: Wire, topic: str, old_epoch: int, end_of_old: int) -> None:
    """Check that a restart begins a new leader epoch, fences the old one and reports its end."""
    new_epoch = leader_epoch(wire, topic)
    assert new_epoch > old_epoch
    assert wire.fetch(topic, 2, current_leader_epoch=new_epoch).error_code == 0
    fenced = wire.fetch(topic, 2, current_leader_epoch=old_epoch)
    assert fenced.error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert wire.list_offsets(topic, -1, current_leader_epoch=old_epoch).error_code == (
        ErrorCode.FENCED_LEADER_EPOCH
    )
    part = OffsetForLeaderPartition(partition=0, current_leader_epoch=new_epoch, leader_epoch=old_epoch)
    request = OffsetForLeaderEpochRequest(topics=[OffsetForLeaderTopic(topic=topic, partitions=[part])])
    (found,) = wire.ask(request).topics[0].partitions
    assert (found.error_code, found.leader_epoch, found.end_offset) == (0, old_epoch, end_of_old)
    diverged = wire.fetch(topic, end_of_old + 1, last_fetched_epoch=old_epoch)
    assert (diverged.diverging_epoch.epoch, diverged.diverging_epoch.end_offset) == (old_epoch, end_of_old)


@pytest.mark.parametrize("how", ["restart", "kill"])
def test_what_retention_deleted_stays_deleted(how):
    with Cluster(config={"log.retention.check.interval.ms": 50}) as cluster:
        with Wire(cluster.bootstrap_servers) as wire:
            wire.create_topic("t", **{"segment.bytes": 1_048_576, "retention.bytes": 1_500_000})
            for n in range(12):
                wire.produce("t", batch_of(b"%d " % n + b"x" * 500_000))
            wait_until(lambda: wire.list_offsets("t", -2).offset >= 7, "retention deletes segments", 10)
            start = wire.list_offsets("t", -2).offset
        if how == "kill":
            cluster.kill()
            cluster.start()
        else:
            cluster.restart()
        with Wire(cluster.bootstrap_servers) as wire:
            again = wire.list_offsets("t", -2).offset
            assert again >= start
            values = [record.value.split(b" ")[0] for record in wire.records("t", again)]
            assert values == [b"%d" % n for n in range(again, 12)]
            assert wire.produce("t", batch_of(b"next")).base_offset == 12


def test_acknowledged_metadata_survives_kills(cluster):
    names: set[str] = set()
    for round_ in range(4):
        with Wire(cluster.bootstrap_servers) as wire:
            for n in range(5):
                wire.create_topic(f"t-{round_}-{n}", 2)
                names.add(f"t-{round_}-{n}")
            wire.alter(f"t-{round_}-1", **{"retention.ms": 1000 + round_})
            wire.delete_topic(f"t-{round_}-4")
            names.discard(f"t-{round_}-4")
            # More requests without waiting for responses: each takes effect completely or not at all.
            more = CreatableTopic(name=f"half-{round_}", num_partitions=3, replication_factor=1)
            wire.send(CreateTopicsRequest(topics=[more], timeout_ms=1000))
            cluster.kill()
        cluster.start()
        with Wire(cluster.bootstrap_servers) as wire:
            found = {topic.name: topic for topic in wire.ask(MetadataRequest(topics=None)).topics}
            assert {name for name in found if name.startswith("t-")} == names
            for name, topic in found.items():
                assert len(topic.partitions) == (3 if name.startswith("half-") else 2)
                assert {partition.leader_id for partition in topic.partitions} == {1}
            assert config_of(wire, f"t-{round_}-1")["retention.ms"] == str(1000 + round_)
            assert wire.produce(f"t-{round_}-0", batch_of(b"x")).error_code == 0


def test_a_recreated_topic_has_a_new_id_and_no_old_data_even_over_restarts(cluster):
    ids = set()
    for round_ in range(3):
        with Wire(cluster.bootstrap_servers) as wire:
            ids.add(wire.create_topic("again"))
            assert wire.records("again") == []
            wire.produce("again", batch_of(b"%d" % round_))
        cluster.kill()
        cluster.start()
        with Wire(cluster.bootstrap_servers) as wire:
            assert [record.value for record in wire.records("again")] == [b"%d" % round_]
            wire.delete_topic("again")
    assert len(ids) == 3
