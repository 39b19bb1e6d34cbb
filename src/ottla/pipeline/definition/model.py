"""The model of a pipeline file. `parser` creates it, `validation` checks it, `queries.builder` uses it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import NamedTuple

from ottla.pipeline.definition.document import Mark, Text
from ottla.pipeline.definition.sql_scan import SqlFacts
from ottla.pipeline.definition.syntax import is_remote

FORMATS = ("json", "avro", "string", "raw")
OUTPUTS = ("append", "update", "complete")
MODES = ("at-least-once", "exactly-once")
ON_BAD_RECORD = ("dead-letter", "drop", "fail")
STATE_STORES = ("rocksdb", "memory")
TIMES = ("none", "processing", "event")
# Columns that every source has in addition to those of its values. Columns that start with an underscore are
# not written to the values of a topic.
RECORD_COLUMNS = ("_key", "_topic", "_partition", "_offset", "_timestamp")


class Watermark(NamedTuple):
    column: Text
    delay: Text


class Source(NamedTuple):
    name: Text
    topics: tuple[Text, ...]
    format: str
    schema: Text | None
    watermark: Watermark | None
    is_table: bool
    start: str
    key_format: str
    with_headers: bool
    rows_max: int | None
    on_bad_record: str
    options: Mapping[str, str]

    @property
    def can_be_bad(self) -> bool:
        """Whether values can fail to decode: raw values cannot."""
        return self.format != "raw"


class Step(NamedTuple):
    """`kind` is sql, python, map, dedup or state."""

    name: Text
    kind: str
    inputs: tuple[Text, ...]
    sql: Text | None = None
    facts: SqlFacts | None = None
    code: Text | None = None
    schema: Text | None = None
    keys: tuple[Text, ...] = ()
    time: str = "none"
    output: str = "append"
    event_time: Text | None = None
    watermark: Watermark | None = None

    @property
    def can_fail_on_a_row(self) -> bool:
        return self.kind == "map"


class Sink(NamedTuple):
    """`kind` is topic, lake or console."""

    name: Text
    kind: str
    input: Text
    target: Text
    output: str
    trigger: Text | None
    mode: str = "at-least-once"
    key: tuple[Text, ...] = ()
    format: str = "json"
    value: Text | None = None
    schema: Text | None = None
    delete_when: Text | None = None
    partitions: int | None = None
    compacted: bool = False
    partition_by: tuple[Text, ...] = ()
    rows: int = 20
    options: Mapping[str, str] = {}


class Options(NamedTuple):
    trigger: Text
    checkpoint: Text
    state_store: str
    master: str
    shuffle_partitions: int
    dead_letter: Text
    on_bad_record: str
    ansi: bool
    spark: Mapping[str, str]


class Pipeline(NamedTuple):
    name: Text
    path: str
    bootstrap: str
    kafka: Mapping[str, str]
    sources: Mapping[str, Source]
    steps: Mapping[str, Step]
    sinks: Mapping[str, Sink]
    options: Options

    @property
    def directory(self) -> str:
        return os.path.dirname(os.path.abspath(self.path))

    def resolved(self, path: str) -> str:
        """Resolve a path relative to the directory of the pipeline file; URLs are unchanged."""
        return path if is_remote(path) else os.path.normpath(os.path.join(self.directory, path))

    def named(self, name: str) -> Source | Step | None:
        return self.sources.get(name) or self.steps.get(name)

    def mark_of(self, name: str) -> Mark:
        for group in (self.steps, self.sources, self.sinks):
            if name in group:
                return group[name].name.mark
        return self.name.mark
