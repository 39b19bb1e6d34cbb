"""kcat, a command line client: metadata, produce, consume, lookups by time."""

from __future__ import annotations

import json
import subprocess
import time

import pytest

from tests.support.interop.clients import KCAT, Row, kcat_read
from tests.support.interop.wire import batch_of
from tests.support.waiting import wait_until

pytestmark = pytest.mark.skipif(KCAT is None, reason="kcat is not installed")


def kcat(*arguments: str, stdin: bytes = b"") -> str:
    assert KCAT is not None
    done = subprocess.run([KCAT, *arguments], input=stdin, capture_output=True, check=False, timeout=30)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()


def test_list_brokers_and_topics(servers, new_topic):
    topic = new_topic(partitions=3)
    listed = json.loads(kcat("-L", "-J", "-b", servers))
    assert [broker["name"] for broker in listed["brokers"]] == [servers]
    (found,) = [each for each in listed["topics"] if each["topic"] == topic]
    assert [part["partition"] for part in found["partitions"]] == [0, 1, 2]
    assert {part["leader"] for part in found["partitions"]} == {1}


def test_produce_and_consume_lines(servers, topic):
    kcat("-P", "-b", servers, "-t", topic, "-K", ":", stdin=b"a:one\nb:two\nc:three\n")
    assert kcat("-C", "-b", servers, "-t", topic, "-e", "-q", "-o", "1", "-f", "%o %k=%s\n") == (
        "1 b=two\n2 c=three\n"
    )
    assert kcat("-C", "-b", servers, "-t", topic, "-e", "-q", "-o", "-1", "-f", "%s") == "three"


@pytest.mark.parametrize("acks", ["0", "1", "-1"])
def test_every_kind_of_acknowledgement(servers, wire, topic, acks):
    kcat("-P", "-b", servers, "-t", topic, "-X", f"acks={acks}", stdin=b"x\ny\n")
    wait_until(lambda: wire.list_offsets(topic, -1).offset >= 2)
    assert [record.value for record in wire.records(topic)] == [b"x", b"y"]


def test_offsets_by_time(servers, wire, topic):
    start_ms = int(time.time()) * 1000 - 60_000
    for n in range(5):
        wire.produce(topic, batch_of(b"%d" % n, timestamp_ms=start_ms + n * 100))
    assert f"{topic} [0] offset 3" in kcat("-Q", "-b", servers, "-t", f"{topic}:0:{start_ms + 250}")
    output = kcat("-C", "-b", servers, "-t", topic, "-e", "-q", "-o", f"s@{start_ms + 250}", "-f", "%s")
    assert output == "34"


def test_a_large_record(servers, wire, topic):
    value = bytes(range(256)) * 3900
    wire.produce(topic, batch_of(value))
    ((offset, row),) = kcat_read(servers, topic, 0)
    assert (offset, row.value) == (0, value)
    assert isinstance(row, Row)


def test_an_idempotent_producer(servers, wire, topic):
    lines = b"".join(b"%d\n" % n for n in range(5000))
    options = ("-X", "enable.idempotence=true", "-X", "batch.num.messages=50", "-X", "linger.ms=1")
    kcat("-P", "-b", servers, "-t", topic, *options, stdin=lines)
    assert b"".join(record.value + b"\n" for record in wire.records(topic)) == lines
