"""The effect of a rebalance on uninvolved members: one member joins and leaves while all others read.

With heartbeats every 200 ms, some records of the cooperative case are late by up to a second in about every
other run. A trace shows that the cause is librdkafka (2.16): it pauses all partitions during the revocation
callback. If a fetch response arrives then, its broker thread finds nothing to fetch and sleeps for up to a
second; resuming does not wake it, and no Fetch is in flight meanwhile. It also sends heartbeats at most every
500 to 1000 ms, whatever the setting. Neither is observed with the defaults.
"""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from bench.background import Background
from bench.batches import QUIET
from bench.broker import BenchError, Broker, Launch
from bench.cases.group_members import CLASSIC, CONSUMER, CONSUMER_INTERVAL_MS, settings
from bench.cluster import wait_until
from bench.figures import Figure, figure_of
from bench.members import CLASSIC_INTERVAL_MS
from bench.sizes import Sizes
from bench.wire import Wire

TOPIC = "bench"
PARTITIONS = 12
READERS = 3
PER_SECOND = 240
QUIET_SECONDS = 1.5  # after the group has settled
HURRY_INTERVAL_MS = 200
POLL_SECONDS = 0.1


class Arrival(NamedTuple):
    partition: int
    sent_s: float
    arrived_s: float


class Reader:
    """A librdkafka consumer in a thread that records the arrival times of records."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self._config = config
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.owned: dict[int, None] = {}
        self.revoked: list[tuple[float, int]] = []
        self.arrivals: list[Arrival] = []
        self._thread.start()

    def end(self) -> None:
        self._ended.set()
        self._thread.join(60)

    def _run(self) -> None:
        from confluent_kafka import Consumer

        consumer = Consumer(dict(self._config))
        consumer.subscribe([TOPIC], on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._revoked)
        while not self._ended.is_set():
            message = consumer.poll(POLL_SECONDS)
            if message is not None and not message.error():
                partition = message.partition() or 0
                self.arrivals.append(Arrival(partition, float(message.value() or b""), time.perf_counter()))
        consumer.close()

    def _assigned(self, _: Any, partitions: Sequence[Any]) -> None:
        self.owned = {**self.owned, **{each.partition: None for each in partitions}}

    def _revoked(self, _: Any, partitions: Sequence[Any]) -> None:
        gone = {each.partition: None for each in partitions}
        self.revoked += [(time.perf_counter(), partition) for partition in gone]
        self.owned = {partition: None for partition in self.owned if partition not in gone}


class Load(Background):
    """Writes single records, which contain the time, to all partitions round-robin."""

    def __init__(self, broker: Broker) -> None:
        super().__init__()
        self._broker = broker

    def _run(self) -> None:
        from confluent_kafka import Producer

        client = Producer({**QUIET, "bootstrap.servers": self._broker.address, "linger.ms": 0})
        number = 0
        while not self._ended.wait(1 / PER_SECOND):
            client.produce(TOPIC, str(time.perf_counter()).encode(), partition=number % PARTITIONS)
            client.poll(0)
            number += 1
        client.flush(30)


class Change(NamedTuple):
    """A member joined or left: begin, end, and the partitions that the other members kept."""

    began_s: float
    ended_s: float
    kept: dict[int, Reader]


def rebalance(launch: Launch, sizes: Sizes) -> Iterator[Figure]:
    for protocol, default_ms, own in (
        (
            f"cooperative {CLASSIC}",
            CLASSIC_INTERVAL_MS,
            {"partition.assignment.strategy": "cooperative-sticky"},
        ),
        (CONSUMER, CONSUMER_INTERVAL_MS, {"group.protocol": "consumer"}),
    ):
        interval_ms = HURRY_INTERVAL_MS if sizes.group_hurry else default_ms
        if "group.protocol" not in own:
            own["heartbeat.interval.ms"] = str(interval_ms)
        with Broker(launch, settings(sizes)) as broker:
            config = {**QUIET, "bootstrap.servers": broker.address, "group.id": "bench", **own}
            with Wire(broker) as wire:
                wire.create_topic(TOPIC, PARTITIONS)
            with Load(broker):
                readers = [Reader(config) for _ in range(READERS)]
                try:
                    changes, guests = _come_and_go(config, readers, sizes.rebalances)
                finally:
                    for reader in readers:
                        reader.end()
        yield from _figures(protocol, interval_ms, changes, [*readers, *guests])


def _come_and_go(
    config: Mapping[str, Any], readers: Sequence[Reader], times: int
) -> tuple[list[Change], list[Reader]]:
    changes: list[Change] = []
    guests: list[Reader] = []
    share = PARTITIONS // READERS
    wait_until(lambda: all(len(reader.owned) == share for reader in readers), "every member has its share")
    time.sleep(QUIET_SECONDS)
    for _ in range(times):
        began_s = time.perf_counter()
        owned = [dict(reader.owned) for reader in readers]
        guest = Reader(config)
        guests.append(guest)
        wait_until(lambda: _is_settled([*readers, guests[-1]]), "the new member has its share")
        changes.append(_change(readers, owned, began_s))
        time.sleep(QUIET_SECONDS)
        began_s = time.perf_counter()
        owned = [dict(reader.owned) for reader in readers]
        guest.end()
        wait_until(lambda: _is_settled(readers), "the other members have all partitions again")
        changes.append(_change(readers, owned, began_s))
        time.sleep(QUIET_SECONDS)
    return changes, guests


def _is_settled(readers: Sequence[Reader]) -> bool:
    owned = [partition for reader in readers for partition in reader.owned]
    share = PARTITIONS // len(readers)
    return sorted(owned) == list(range(PARTITIONS)) and all(len(reader.owned) == share for reader in readers)


def _change(readers: Sequence[Reader], owned: Sequence[dict[int, None]], began_s: float) -> Change:
    ended_s = time.perf_counter()
    kept: dict[int, Reader] = {}
    for reader, before in zip(readers, owned, strict=True):
        gone = {partition for at_s, partition in reader.revoked if at_s >= began_s}
        kept.update({partition: reader for partition in before if partition not in gone})
    return Change(began_s, ended_s, kept)


def _figures(
    protocol: str, interval_ms: int, changes: Sequence[Change], readers: Sequence[Reader]
) -> Iterator[Figure]:
    first: dict[tuple[int, float], tuple[float, Reader]] = {}  # records that are read twice count once
    for reader in readers:
        for arrival in reader.arrivals:
            key = (arrival.partition, arrival.sent_s)
            if key not in first or arrival.arrived_s < first[key][0]:
                first[key] = (arrival.arrived_s, reader)
    kept_ms: list[float] = []
    moved_ms: list[float] = []
    for (partition, sent_s), (arrived_s, reader) in first.items():
        for change in changes:
            # Delays after a change count for that change, until the next one begins.
            if change.began_s <= sent_s <= change.ended_s + QUIET_SECONDS:
                stayed = change.kept.get(partition) is reader
                (kept_ms if stayed else moved_ms).append((arrived_s - sent_s) * 1000)
    if not kept_ms or not moved_ms:
        raise BenchError(f"{protocol}: no partition was kept, or none moved")
    name = f"rebalance, {protocol}"
    late = sum([delay_ms > interval_ms for delay_ms in kept_ms])
    note = f"of {len(kept_ms)} in partitions that stay; heartbeats every {interval_ms / 1000:g} s, librdkafka"
    yield Figure(f"{name}: records late by a heartbeat", late, "records", 0, note)
    note = f"in partitions that stay; median {statistics.median(kept_ms):.1f}"
    yield Figure(f"{name}: longest delay", max(kept_ms), "ms", None, note)
    yield Figure(
        f"{name}: longest delay of what moves", max(moved_ms), "ms", None, f"of {len(moved_ms)} records"
    )
    took_s = [change.ended_s - change.began_s for change in changes]
    note = f"1 of {READERS + 1} members comes or goes, {len(changes)} times; {PER_SECOND} records/s"
    yield figure_of(f"{name}: until settled", took_s, "s", None, note)
