"""Every client reads what every other writes, in every codec: keys, values, headers, nulls, timestamps."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from functools import partial

import pytest

from ottla.testing.topics import topic_name_for
from tests.support.interop.clients import (
    CODECS,
    KCAT,
    PYTHON_CLIENTS,
    Found,
    Row,
    codecs_of,
    kcat_read,
    kcat_write,
    ottla_read,
    ottla_write,
)
from tests.support.interop.java import why_no_java

START_MS = int(time.time()) * 1000 - 60_000
_random = random.Random(7)

ROWS = [
    Row(b"key", b"value", (), START_MS),
    Row(None, b"no key", (), START_MS + 10),
    Row(b"no value", None, (), START_MS + 20),
    Row(b"", b"", (), START_MS + 40),
    Row(b"headers", b"v", (("a", b"1"), ("b", b"2"), ("a", b"again")), START_MS + 50),
    Row(b"odd headers", b"v", (("empty", b""), ("ключ", b"\x00\xff")), START_MS + 45),
    Row(bytes(range(256)), bytes(range(255, -1, -1)), (), START_MS + 60),
    Row(b"large", b"compressible " * 5000, (), START_MS + 70),
    Row(b"random", _random.randbytes(70_000), (), START_MS + 80),
    *(Row(b"%d" % n, b"record %d" % n, (), START_MS + 100 + n) for n in range(300)),
]
# kcat takes lines of text, and the same headers for all of them.
TEXT_ROWS = [
    Row(b"key-%d" % n if n % 3 else None, b"value %d" % n if n % 5 else None, (("h", b"x"), ("i", b"y")))
    for n in range(1, 60)
]
# What the pure-Python clients refuse to send.
NULL_ROWS = [
    Row(b"k", b"v", (("null", None),), START_MS + 500),
    Row(None, None, (), START_MS + 510),
]
WRITES_NULLS = {"confluent", "java", "ottla"}

java = pytest.param(
    "java", marks=[pytest.mark.java, pytest.mark.skipif(bool(why_no_java()), reason=str(why_no_java()))]
)
kcat = pytest.param("kcat", marks=pytest.mark.skipif(KCAT is None, reason="kcat is not installed"))
CLIENTS = [*PYTHON_CLIENTS, "ottla", java, kcat]


def rows_of(writer: str) -> list[Row]:
    if writer == "kcat":
        return TEXT_ROWS
    return [*ROWS, *NULL_ROWS] if writer in WRITES_NULLS else ROWS


@pytest.fixture(scope="session")
def topics(request: pytest.FixtureRequest, ottla_cluster) -> Callable[[str], str]:
    """Return the topic of a client, written on first use, with a partition for each codec."""
    written: dict[str, str] = {}
    servers = ottla_cluster.bootstrap_servers

    def topic_of(writer: str) -> str:
        if writer not in written:
            topic = topic_name_for(f"by-{writer}")
            ottla_cluster.create_topic(topic, len(CODECS))
            for index, codec in enumerate(CODECS):
                if codec not in codecs_of(writer):
                    continue
                if writer == "java":
                    request.getfixturevalue("java_client").write(topic, index, rows_of(writer), codec)
                else:
                    write = {"ottla": ottla_write, "kcat": kcat_write}.get(writer) or PYTHON_CLIENTS[writer][
                        0
                    ]
                    write(servers, topic, index, rows_of(writer), codec)
            written[writer] = topic
        return written[writer]

    return topic_of


@pytest.fixture
def read(request: pytest.FixtureRequest, servers: str) -> Callable[[str, str, int], Found]:
    def run(reader: str, topic: str, index: int) -> Found:
        if reader == "java":
            return request.getfixturevalue("java_client").read(topic, index)
        by_name = {"ottla": ottla_read, "kcat": kcat_read}
        return (by_name.get(reader) or PYTHON_CLIENTS[reader][1])(servers, topic, index)

    return run


def comparable(row: Row, writer: str, reader: str) -> Row:
    """Return what both clients support: kcat sets no timestamps and prints headers as text."""
    headers = row.headers
    if reader == "kcat" and writer != "kcat":
        # It prints an odd header's bytes as they are; which is which cannot be told from its output.
        headers = (
            () if any(not name.isascii() or value in (b"", None) for name, value in headers) else headers
        )
    return row._replace(headers=headers, timestamp_ms=0 if writer == "kcat" else row.timestamp_ms)


@pytest.mark.parametrize("reader", CLIENTS)
@pytest.mark.parametrize("writer", CLIENTS)
def test_every_client_reads_every_other(topics, read, writer, reader):
    topic = topics(writer)
    compare = partial(comparable, writer=writer, reader=reader)
    expected = [(offset, compare(row)) for offset, row in enumerate(rows_of(writer))]
    for index, codec in enumerate(CODECS):
        if codec not in codecs_of(writer) or codec not in codecs_of(reader):
            continue
        found = [(offset, compare(row)) for offset, row in read(reader, topic, index)]
        assert found == expected, codec


@pytest.mark.parametrize("writer", CLIENTS)
def test_batches_are_stored_with_the_codec_of_the_producer(topics, wire, writer):
    from ottla.records.batch import iter_headers
    from ottla.records.compression import CODEC_BY_NAME

    topic = topics(writer)
    for index, codec in enumerate(CODECS):
        if codec not in codecs_of(writer):
            continue
        stored = bytes(wire.fetch(topic, partition=index).records)
        codecs = {header.codec for _, header in iter_headers(stored)}
        # A client may not compress a batch that compression would make larger.
        assert CODEC_BY_NAME[codec] in codecs, codec
        assert codecs <= {CODEC_BY_NAME[codec], 0}
