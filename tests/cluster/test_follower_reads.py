"""Consumers with a rack read from a follower in it (KIP-392)."""

from __future__ import annotations

import json
import time
from typing import Any

from confluent_kafka import Consumer, TopicPartition

from tests.support.cluster.racks import UnlikeCluster
from tests.support.cluster.view import ClusterView
from tests.support.cluster.write import codes, write

RACKS = {broker: {"broker.rack": f"rack-{broker}"} for broker in range(3)}
SELECTOR = "org.apache.kafka.common.replica.RackAwareReplicaSelector"


class Reader:
    """A consumer that knows from which broker it reads."""

    def __init__(self, servers: str, **config: str) -> None:
        self.reads_from = -1
        self._consumer = Consumer(
            {
                "bootstrap.servers": servers,
                "group.id": "reader",
                "enable.auto.commit": False,
                "fetch.wait.max.ms": 50,
                "statistics.interval.ms": 50,
                "stats_cb": self._told,
                "log_level": 0,
                **{name.replace("_", "."): value for name, value in config.items()},
            }
        )
        self._consumer.assign([TopicPartition("t", 0, 0)])

    def _told(self, text: str) -> None:
        partitions: dict[str, Any] = json.loads(text).get("topics", {}).get("t", {}).get("partitions", {})
        if "0" in partitions:
            self.reads_from = partitions["0"]["broker"]

    def read(self, count: int, *, from_broker: int, timeout_s: float = 15.0) -> list[bytes]:
        """Read `count` records, then continue until it reads from that broker."""
        found: list[bytes] = []
        deadline = time.monotonic() + timeout_s
        while len(found) < count or self.reads_from != from_broker:
            assert time.monotonic() < deadline, (len(found), self.reads_from)
            message = self._consumer.poll(0.05)
            if message is not None and message.error() is None:
                found.append(message.value())
        return found

    def close(self) -> None:
        self._consumer.close()


def test_a_consumer_reads_from_the_follower_in_its_rack() -> None:
    config = {"replica.selector.class": SELECTOR}
    with UnlikeCluster(3, RACKS, config=config, proxied="none") as cluster:
        servers = cluster.bootstrap_servers
        view = ClusterView(servers)
        view.create("t", [0, 1, 2])
        first = [b"first %d" % n for n in range(100)]
        assert codes(write(servers, "t", first)) == [0]
        near = Reader(servers, client_rack="rack-2")
        nowhere = Reader(servers, client_rack="rack-9")
        try:
            assert near.read(100, from_broker=2) == first
            assert nowhere.read(100, from_broker=0) == first
            second = [b"second %d" % n for n in range(100)]
            assert codes(write(servers, "t", second)) == [0]
            assert near.read(100, from_broker=2) == second, "it stays there"
            cluster.kill(2)
            view.await_isr("t", 2)
            third = [b"third %d" % n for n in range(100)]
            assert codes(write(servers, "t", third)) == [0]
            assert near.read(100, from_broker=0) == third, "the leader takes over"
        finally:
            near.close()
            nowhere.close()
