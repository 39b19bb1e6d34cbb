"""Options of the data source. Spark is not started."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip(
    "pyspark", reason="the tests of the Spark data source need pyspark: pip install ottla[spark]"
)

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructType,
    TimestampType,
)

from ottla.client.blocking.arrow_read import OffsetRange
from pyspark_ottla import client_options as clients
from pyspark_ottla import offsets as offsets_json
from pyspark_ottla.data_source import OttlaDataSource
from pyspark_ottla.option_values import duration_ms
from pyspark_ottla.reader import offset_specs, ranges
from pyspark_ottla.reader.batch import OttlaReader
from pyspark_ottla.reader.columns import schema_of
from pyspark_ottla.reader.options import source_options
from pyspark_ottla.reader.stream import OttlaStreamReader
from pyspark_ottla.reader.topic_selection import topic_selection
from pyspark_ottla.sink.options import check_schema
from pyspark_ottla.sink.writers import OttlaStreamWriter, OttlaWriter

BASE = {"kafka.bootstrap.servers": "localhost:1", "subscribe": "t"}
HEADERS = ArrayType(StructType().add("key", StringType()).add("value", BinaryType()))
TYPES: dict[str, DataType] = {
    "string": StringType(),
    "binary": BinaryType(),
    "int": IntegerType(),
    "bigint": LongType(),
    "double": DoubleType(),
    "timestamp": TimestampType(),
    "headers": HEADERS,
}
ALL = (
    "key binary, value binary, topic string, partition int, offset bigint, "
    "timestamp timestamp, timestampType int"
)


def columns(text: str) -> StructType:
    """A schema from "name type, ..."; Spark's own parser would need a session."""
    schema = StructType()
    for column in text.split(", "):
        name, kind = column.split()
        schema.add(name, TYPES[kind])
    return schema


def refused(make, options: dict[str, str], *words: str) -> None:
    with pytest.raises(ValueError) as caught:
        make(options)
    for word in words:
        assert word in str(caught.value)


def test_columns_match_the_kafka_connector():
    assert schema_of({}) == columns(ALL)
    with_headers = columns(ALL + ", headers headers")
    assert schema_of({"includeheaders": "true"}) == with_headers
    assert schema_of({"columns": "Offset, value"}) == columns("offset bigint, value binary")
    refused(schema_of, {"columns": "nothing"}, "timestampType")
    refused(schema_of, {"includeheaders": "yes"}, "includeHeaders", "true or false")


def test_option_names_are_case_insensitive():
    source = OttlaDataSource({"INCLUDEheaders": "true"})
    assert "headers" in source.schema().names


def test_user_schema_is_refused():
    source = OttlaDataSource(BASE)
    for make in (source.reader, source.streamReader):
        make(source.schema())
        with pytest.raises(ValueError, match=r"struct<key:binary,.*valueFormat"):
            make(columns("value string"))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, ["subscribe, subscribePattern and assign", "none"]),
        ({"subscribe": "a", "assign": "{}"}, ["subscribe and assign"]),
        ({"subscribe": " , "}, ["at least one topic"]),
        ({"subscribepattern": ""}, ["empty"]),
        ({"subscribepattern": "("}, ["subscribePattern"]),
        ({"assign": "t"}, ["assign", '{"orders": [0, 1]}']),
        ({"assign": '{"t": ["0"]}'}, ["assign"]),
        ({"assign": "{}"}, ["at least one partition"]),
    ],
)
def test_exactly_one_topic_option(given, words):
    refused(topic_selection, given, *words)


def test_topic_selection():
    assert topic_selection({"subscribe": "a, b"}).names == ("a", "b")
    assert topic_selection({"subscribepattern": "a.*"}).pattern == "a.*"
    assert topic_selection({"assign": '{"a": [1, 0]}'}).assigned == (("a", 1), ("a", 0))


def test_starting_offsets():
    def start(streaming: bool = True, **given: str) -> offset_specs.OffsetSpec:
        return offset_specs.starting_offsets(given, streaming=streaming)

    assert start().symbolic == offset_specs.LATEST
    assert start(streaming=False).symbolic == offset_specs.EARLIEST
    assert start(startingoffsets="Earliest").symbolic == offset_specs.EARLIEST
    offsets = json.dumps({"t": {"0": 7, "1": -2, "2": -1}})
    assert start(startingoffsets=offsets).offsets == {("t", 0): 7, ("t", 1): -2, ("t", 2): -1}
    times = json.dumps({"t": {"0": 1000}})
    assert start(startingoffsets=offsets, startingoffsetsbytimestamp=times).timestamps_ms == {("t", 0): 1000}
    assert start(startingoffsetsbytimestamp=times, startingtimestamp="5").timestamp_ms == 5


@pytest.mark.parametrize(
    ("streaming", "given", "words"),
    [
        (False, {"startingoffsets": "latest"}, ["startingOffsets", "latest"]),
        (False, {"startingoffsets": '{"t": {"0": -1}}'}, ["startingOffsets", "latest"]),
        (False, {"endingoffsets": "earliest"}, ["endingOffsets", "earliest"]),
        (False, {"endingoffsets": '{"t": {"0": -2}}'}, ["endingOffsets", "earliest"]),
        (
            False,
            {"startingoffsets": '{"t": {"0": 5}}', "endingoffsets": '{"t": {"0": 4}}'},
            ["startingOffsets", "5 for t-0", "4 of endingOffsets"],
        ),
        (
            False,
            {"startingoffsets": '{"t": {"0": 5}}', "endingoffsets": '{"t": {"0": 6, "1": 4}}'},
            ["same partitions", "t-1"],
        ),
        (
            False,
            {
                "startingoffsetsbytimestamp": '{"t": {"0": 5}}',
                "endingoffsetsbytimestamp": '{"t": {"0": 4}}',
            },
            ["startingOffsetsByTimestamp", "endingOffsetsByTimestamp"],
        ),
        (False, {"startingtimestamp": "1.5"}, ["startingTimestamp"]),
        (True, {"endingoffsets": "latest"}, ["endingOffsets", "streaming"]),
        (True, {"endingtimestamp": "1"}, ["endingTimestamp", "streaming"]),
        (True, {"endingoffsetsbytimestamp": "{}"}, ["endingOffsetsByTimestamp", "streaming"]),
        (True, {"startingoffsets": "first"}, ["startingOffsets", '{"orders": {"0": 23, "1": 42}}']),
        (True, {"startingoffsets": '{"t": {"0": -3}}'}, ["startingOffsets"]),
        (True, {"startingoffsets": '{"t": [0]}'}, ["startingOffsets"]),
        (True, {"startingtimestamp": "today"}, ["startingTimestamp", "today"]),
        (True, {"startingoffsetsbytimestampstrategy": "first"}, ["error or latest"]),
        (True, {"failondataloss": "maybe"}, ["failOnDataLoss"]),
        (True, {"minpartitions": "0"}, ["minPartitions", "positive"]),
        (True, {"maxrecordsperpartition": "-1"}, ["maxRecordsPerPartition", "positive"]),
        (True, {"maxoffsetspertrigger": "many"}, ["maxOffsetsPerTrigger", "positive"]),
        (True, {"minoffsetspertrigger": "9", "maxoffsetspertrigger": "3"}, ["minOffsetsPerTrigger", "9"]),
        (True, {"maxtriggerdelay": "soon"}, ["maxTriggerDelay", "15m"]),
        (True, {"kafka.auto.offset.reset": "earliest"}, ["kafka.auto.offset.reset", "startingOffsets"]),
        (True, {"kafka.enable.auto.commit": "true"}, ["kafka.enable.auto.commit"]),
        (True, {"kafka.key.deserializer": "x"}, ["kafka.key.deserializer"]),
        (True, {"kafka.value.deserializer": "x"}, ["kafka.value.deserializer"]),
        (True, {"kafka.interceptor.classes": "x"}, ["kafka.interceptor.classes"]),
        (True, {"kafka.isolation.level": "all"}, ["kafka.isolation.level"]),
        (True, {"kafka.security.protocol": "SASL_SSL"}, ["SASL_SSL", "PLAINTEXT"]),
        (True, {"kafka.bootstrap.servers": " "}, ["kafka.bootstrap.servers"]),
    ],
)
def test_invalid_options(streaming, given, words):
    reader = OttlaStreamReader if streaming else OttlaReader
    refused(lambda options: reader(options, schema_of(options)), BASE | given, *words)


def test_client_options():
    options = BASE | {
        "kafka.client.id": "me",
        "kafka.request.timeout.ms": "77",
        "kafka.max.partition.fetch.bytes": "123",
        "kafka.isolation.level": "read_uncommitted",
        "kafkaconsumer.polltimeoutms": "9",
        "fetchoffset.numretries": "4",
        "fetchoffset.retryintervalms": "25",
        "kafka.group.id": "no harm",
        "groupidprefix": "no harm",
    }
    cluster, fetch = clients.cluster_options(options), clients.fetch_options(options)
    assert (cluster.client_id, cluster.request_timeout_ms, cluster.retry_timeout_ms) == ("me", 77, 100)
    assert (fetch.partition_max_bytes, fetch.read_committed, fetch.poll_timeout_ms) == (123, False, 9)
    assert source_options(BASE, streaming=True).read_committed
    # The Kafka connector's defaults: three attempts, a second apart.
    assert clients.cluster_options(BASE | {"fetchoffset.numretries": "3"}).retry_timeout_ms == 3000
    given = {"kafka.acks": "1", "kafka.compression.type": "zstd", "kafka.max.request.size": "5"}
    writer = clients.writer_options(given)
    assert (writer.acks, writer.compression, writer.record_bytes_max) == ("1", "zstd", 5)


def test_trigger_limits_are_ignored_in_batch_queries(caplog):
    given = BASE | {"maxoffsetspertrigger": "many", "minoffsetspertrigger": "1", "maxtriggerdelay": "1m"}
    OttlaReader(given, schema_of({}))
    said = [row.getMessage() for row in caplog.records]
    assert [line.split("'")[1] for line in said] == [
        "maxOffsetsPerTrigger",
        "minOffsetsPerTrigger",
        "maxTriggerDelay",
    ]


def test_durations():
    assert [duration_ms("x", text) for text in ("15m", "30s", "5 min", "200ms", "7", "1h")] == [
        900_000,
        30_000,
        300_000,
        200,
        7_000,
        3_600_000,
    ]


# The sink.


@pytest.mark.parametrize(
    ("schema", "topic", "words"),
    [
        ("key string", "t", ["'value' is missing"]),
        ("value string", None, ["topic"]),
        ("value int", "t", ["'value'", "string or binary", "int"]),
        ("value string, key double", "t", ["'key'", "double"]),
        ("value string, topic int", None, ["'topic'", "string"]),
        ("value string, partition bigint", "t", ["'partition'", "int"]),
        ("value string, headers string", "t", ["'headers'", "array<struct<key:string,value:binary>>"]),
    ],
)
def test_invalid_sink_columns(schema, topic, words):
    with pytest.raises(ValueError) as caught:
        check_schema(columns(schema), topic)
    for word in words:
        assert word in str(caught.value)


def test_sink_columns():
    schema = "VALUE string, extra int, key binary, headers headers"
    assert check_schema(columns(schema), "t") == ["key", "VALUE", "headers"]


def test_sink_options():
    schema = columns("value string")
    base = {"kafka.bootstrap.servers": "x:1", "topic": "t"}
    refused(lambda options: OttlaWriter(options, schema, overwrite=True), base, "append")
    for more, word in [
        ({"kafka.key.serializer": "x"}, "kafka.key.serializer"),
        ({"kafka.value.serializer": "x"}, "kafka.value.serializer"),
        ({"mode": "twice"}, "at-least-once"),
        ({"mode": "exactly-once", "kafka.acks": "1"}, "needs all"),
        ({"mode": "exactly-once", "kafka.enable.idempotence": "false"}, "needs true"),
        ({"kafka.transactional.id": "x"}, "chooses the transactional ids"),
        ({"txnappid": "x"}, "both or neither"),
        ({"acceptlostbatch": "x"}, "whole number"),
    ]:
        refused(lambda options: OttlaStreamWriter(options, schema), base | more, word)


# Limits and splits.

AMOUNTS = st.dictionaries(st.tuples(st.just("t"), st.integers(0, 9)), st.integers(0, 1000), min_size=1)


@given(AMOUNTS, st.integers(1, 2000))
def test_limits_are_proportional(amounts, rows_max):
    start = dict.fromkeys(amounts, 5)
    latest = {key: 5 + amount for key, amount in amounts.items()}
    ends = ranges.limited(start, latest, rows_max)
    taken = {key: ends[key] - 5 for key in ends}
    assert all(0 <= taken[key] <= amounts[key] for key in amounts)
    assert all(taken[key] > 0 for key in amounts if amounts[key])
    assert sum(taken.values()) <= rows_max + len(amounts)
    if sum(amounts.values()) <= rows_max:
        assert taken == amounts


@given(AMOUNTS, st.none() | st.integers(1, 50), st.none() | st.integers(1, 300))
def test_split_covers_the_ranges(amounts, partitions_min, rows_max):
    spans = [OffsetRange(*key, 7, 7 + amount) for key, amount in sorted(amounts.items())]
    pieces = ranges.split(spans, partitions_min, rows_max)
    covered = [(p.topic, p.partition, o) for p in pieces for o in range(p.start, p.end)]
    assert covered == [(s.topic, s.partition, o) for s in spans for o in range(s.start, s.end)]
    assert all(piece.end > piece.start for piece in pieces)
    if rows_max is not None:
        assert all(piece.end - piece.start <= rows_max for piece in pieces)
    if partitions_min is not None:
        assert len(pieces) >= min(partitions_min, sum(amounts.values()))


@given(AMOUNTS)
def test_offsets_json_round_trip(offsets):
    stored = json.loads(json.dumps(offsets_json.to_json(offsets)))
    assert offsets_json.from_json(stored) == offsets
    assert offsets_json.from_json(stored | {offsets_json.INITIAL: stored}) == offsets
