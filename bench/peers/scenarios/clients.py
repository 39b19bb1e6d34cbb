"""A cross-check of produce and consume with Kafka's Java tools and kcat, if installed."""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence

from bench.batches import produce_records
from bench.broker import BenchError
from bench.meter import ready_page_cache
from bench.peers.contest import Effort, Figures, Scenario, Stopwatch
from bench.peers.costs import moved, read
from bench.peers.fleet import Fleet
from bench.peers.jars import Kafka
from bench.peers.scenarios.produce import Shape, producer, texts
from ottla.client import NewTopic

RECORD_BYTES = 1024
SECONDS_MAX = 300
MIB = 1024 * 1024
PRODUCER = "org.apache.kafka.tools.ProducerPerformance"
CONSUMER = "org.apache.kafka.tools.ConsumerPerformance"
PRODUCER_SETTINGS = ("batch.size=65536", "linger.ms=50", "acks=all")
SENT = re.compile(r"^(\d+) records sent, .*?\(([\d.]+) MB/sec\)", re.MULTILINE)


def clients(fleet: Fleet, effort: Effort) -> Figures:
    topic = f"clients-{os.urandom(4).hex()}"
    fleet.create_topic(NewTopic(topic, 1, 1))
    fleet.await_in_sync(topic)
    records = effort.produce_bytes // RECORD_BYTES
    ready_page_cache(fleet.directory, effort.produce_bytes, 1_000_000)
    tools, kcat = fleet.peer.tools, shutil.which("kcat")
    found: Figures = {}
    if tools is None:
        _print_skipped("skipping Kafka's Java tools: the jars are not available")
        produce_records(producer(fleet, Shape()), topic, texts(RECORD_BYTES), records)
    else:
        found |= _java_producer(fleet, tools, topic, records)
        found |= _java_consumer(fleet, tools, topic, records)
    if kcat is None:
        _print_skipped("skipping kcat: it is not installed")
    else:
        found |= _kcat(fleet, kcat, topic, records)
    fleet.delete_topic(topic)
    return found


@functools.cache
def _print_skipped(what: str) -> None:
    print(f"bench: {what}", file=sys.stderr)


def _java_producer(fleet: Fleet, tools: Kafka, topic: str, records: int) -> Figures:
    where = ["--bootstrap-server", fleet.address, "--topic", topic]
    amount = ["--num-records", str(records), "--record-size", str(RECORD_BYTES), "--throughput", "-1"]
    watch = Stopwatch(fleet)
    text = _run([*_java(tools, PRODUCER), *where, *amount, "--command-property", *PRODUCER_SETTINGS])
    _, used = watch.stop()
    # The tool prints intermediate reports; the last line is the total.
    sent, mib_per_s = (SENT.findall(text) or [(0, 0)])[-1]
    if int(sent) != records:
        raise BenchError(f"ProducerPerformance sent {sent} of {records}: {text[-500:]}")
    nbytes = records * RECORD_BYTES
    return moved("Java producer, 1 KB in 64 KB", nbytes, nbytes / MIB / float(mib_per_s), used, goal=1)


def _java_consumer(fleet: Fleet, tools: Kafka, topic: str, records: int) -> Figures:
    where = ["--bootstrap-server", fleet.address, "--topic", topic]
    watch = Stopwatch(fleet)
    text = _run([*_java(tools, CONSUMER), *where, "--num-records", str(records), "--hide-header"])
    _, used = watch.stop()
    # start, end, MB, MB/s, records, records/s, ms to rebalance, ms to fetch, MB/s of that, records/s of that
    columns = [column.strip() for column in text.strip().splitlines()[-1].split(",")]
    if len(columns) != 10 or int(columns[4]) < records:
        raise BenchError(f"ConsumerPerformance did not read {records} records: {text[-500:]}")
    nbytes = records * RECORD_BYTES
    return read("Java consumer, catch-up", nbytes, int(columns[7]) / 1000, used, goal=1)


def _kcat(fleet: Fleet, kcat: str, topic: str, records: int) -> Figures:
    where = ["-b", fleet.address, "-t", topic, "-p", "0", "-o", "beginning", "-c", str(records)]
    watch = Stopwatch(fleet)
    _run([kcat, "-C", "-q", "-f", "", *where])
    took_s, used = watch.stop()
    return read("kcat, catch-up", records * RECORD_BYTES, took_s, used, goal=1)


def _java(tools: Kafka, name: str) -> list[str]:
    return [tools.java, "-Xmx512M", "-cp", tools.class_path, name]


def _run(command: Sequence[str]) -> str:
    try:
        done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=SECONDS_MAX)
    except subprocess.TimeoutExpired:
        raise BenchError(f"{command[0]} did not end in {SECONDS_MAX} s") from None
    if done.returncode != 0:
        raise BenchError(f"{command[0]}: {done.stdout[-300:]}{done.stderr[-300:]}")
    return done.stdout


SCENARIOS = (
    Scenario("clients", "Produce and consume with other clients: Java, kcat", clients, rounds_max=3),
)
