"""Parses a pipeline file into a Pipeline. Problems are collected, not raised."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

import yaml

from ottla.pipeline.definition.document import (
    Document,
    Mark,
    Problems,
    Section,
    Text,
    is_empty,
    mark_of,
    parse,
    text_at,
)
from ottla.pipeline.definition.model import (
    FORMATS,
    MODES,
    ON_BAD_RECORD,
    OUTPUTS,
    STATE_STORES,
    TIMES,
    Options,
    Pipeline,
    Sink,
    Source,
    Step,
    Watermark,
)
from ottla.pipeline.definition.schemas import SchemaError, avro_column_names, column_names
from ottla.pipeline.definition.sql_scan import scan
from ottla.pipeline.definition.syntax import (
    DURATION_HELP,
    IDENTIFIER,
    NAME,
    TOPIC,
    parse_code_reference,
)
from pyspark_ottla.option_values import parse_duration_ms

TOP_KEYS = ("pipeline", "bootstrap", "kafka", "variables", "sources", "steps", "sinks", "options")
SOURCE_KEYS = (
    "topic",
    "format",
    "schema",
    "watermark",
    "table",
    "start",
    "key_format",
    "headers",
    "max_per_trigger",
    "on_bad_record",
    "options",
)
STEP_KINDS = ("sql", "python", "map", "dedup", "state")
STEP_KEYS = (*STEP_KINDS, "from", "schema", "keys", "time", "output", "event_time", "watermark")
KEYS_OF_STEP = {
    "sql": (),
    "python": ("from",),
    "map": ("from", "schema"),
    "dedup": ("from",),
    "state": ("from", "schema", "keys", "time", "output", "event_time"),
}
SINK_KINDS = ("topic", "lake", "console")
KEYS_OF_SINK = {
    "topic": (
        "mode",
        "key",
        "format",
        "value",
        "schema",
        "delete_when",
        "partitions",
        "compacted",
        "options",
    ),
    "lake": ("partition_by", "options"),
    "console": ("rows",),
}
SINK_KEYS = (
    *SINK_KINDS,
    "from",
    "output",
    "trigger",
    *dict.fromkeys(key for keys in KEYS_OF_SINK.values() for key in keys),
)
OPTION_KEYS = (
    "trigger",
    "checkpoint",
    "state_store",
    "master",
    "shuffle_partitions",
    "dead_letter",
    "on_bad_record",
    "ansi",
    "spark",
)
DEFAULT_TRIGGER = "1 second"
DEFAULT_SHUFFLE_PARTITIONS = 4
AS_SOON_AS_POSSIBLE = "as soon as possible"
STARTS = ("earliest", "latest", "group")


def read_pipeline(path: str, text: str, settings: Mapping[str, str], problems: Problems) -> Pipeline | None:
    """Parse as much of a pipeline as possible; None if the file is not a mapping."""
    root = parse(text, problems)
    if root is None:
        return None
    if not isinstance(root, yaml.MappingNode):
        problems.add(mark_of(root), f"expected a mapping with the keys {', '.join(TOP_KEYS)}")
        return None
    document = Document(text, settings, problems)
    top = Section(document, root, "the file", TOP_KEYS)
    _variables(document, top)
    return _Reader(document, top).pipeline(path)


def _variables(document: Document, top: Section) -> None:
    mark = top.names["variables"].mark if "variables" in top.names else Mark(1, 1)
    values: dict[str, str] = {}
    if "variables" in top:
        section = Section(document, top.nodes["variables"], "variables", None)
        for name, node in section.nodes.items():
            if not isinstance(node, yaml.ScalarNode):
                document.problems.add(mark_of(node), f"variables: '{name}' must be a single value")
            else:
                values[name] = "" if is_empty(node) else node.value
    document.define(values, mark)


class _Reader:
    def __init__(self, document: Document, top: Section) -> None:
        self.document = document
        self.problems = document.problems
        self.top = top

    def pipeline(self, path: str) -> Pipeline:
        top = self.top
        name = top.text("pipeline", required=True) or text_at("pipeline", top.mark)
        if not NAME.fullmatch(name):
            self.problems.add(name.mark, f"invalid name '{name}': use letters, digits, - and _ only")
        options = self.options(name)
        sources = {
            key: self.source(top_name, node, options)
            for key, top_name, node in self.entries("sources", IDENTIFIER.pattern)
        }
        steps = {
            key: self.step(top_name, node)
            for key, top_name, node in self.entries("steps", IDENTIFIER.pattern, needed=False)
        }
        sinks = {
            key: self.sink(top_name, node) for key, top_name, node in self.entries("sinks", NAME.pattern)
        }
        return Pipeline(
            name=name,
            path=path,
            bootstrap=str(top.text("bootstrap") or "localhost:9092"),
            kafka=top.pairs("kafka"),
            sources={key: each for key, each in sources.items() if each is not None},
            steps={key: each for key, each in steps.items() if each is not None},
            sinks={key: each for key, each in sinks.items() if each is not None},
            options=options,
        )

    def entries(self, group: str, pattern: str, *, needed: bool = True) -> list[tuple[str, Text, yaml.Node]]:
        """Return the named entries of `sources`, `steps` or `sinks`."""
        if group not in self.top:
            if needed:
                self.problems.add(self.top.mark, f"'{group}' is missing: a pipeline needs at least one")
            return []
        section = Section(self.document, self.top.nodes[group], group, None)
        found = []
        for key, node in section.nodes.items():
            if not re.fullmatch(pattern, key):
                allowed = (
                    "letters, digits and _" if pattern == IDENTIFIER.pattern else "letters, digits, - and _"
                )
                self.problems.add(
                    section.names[key].mark, f"{group}: invalid name '{key}': use {allowed} only"
                )
            found.append((key, section.names[key], node))
        return found

    # Sources.

    def source(self, name: Text, node: yaml.Node, options: Options) -> Source | None:
        what = f"source '{name}'"
        section = Section(self.document, node, what, SOURCE_KEYS)
        kind = section.choice("format", FORMATS, "json")
        schema = self.schema(section, kind, what)
        if schema is not None and kind in ("string", "raw"):
            self.problems.add(
                schema.mark, f"{what}: format {kind} takes no schema: it has one column 'value'"
            )
        start = section.text("start") or text_at("earliest", section.mark)
        if start not in STARTS:
            self.problems.add(start.mark, f"{what}: 'start' is '{start}', expected {' or '.join(STARTS)}")
        is_table = section.flag("table")
        for key in ("watermark", "start", "max_per_trigger"):
            if is_table and key in section:
                text = f"{what}: '{key}' is not allowed with 'table': a table is always read whole"
                self.problems.add(section.names[key].mark, text)
        topics = section.texts("topic", required=True)
        for topic in topics:
            self.topic_name(topic, what)
        return Source(
            name=name,
            topics=topics,
            format=kind,
            schema=schema,
            watermark=self.watermark(section),
            is_table=is_table,
            start=start,
            key_format=section.choice("key_format", ("string", "raw"), "string"),
            with_headers=section.flag("headers"),
            rows_max=section.number("max_per_trigger"),
            on_bad_record=section.choice("on_bad_record", ON_BAD_RECORD, options.on_bad_record),
            options=section.pairs("options"),
        )

    def schema(self, section: Section, kind: str, what: str) -> Text | None:
        schema = section.text("schema", required=kind in ("json", "avro"))
        if schema is None:
            return None
        if kind == "avro":
            self.avro(schema, what)
            return schema
        return self.ddl(schema, what, decoded=True)

    def avro(self, schema: Text, what: str) -> None:
        try:
            avro_column_names(schema)
        except SchemaError as error:
            self.problems.add(schema.mark, f"{what}: schema: {error}")

    def ddl(self, schema: Text, what: str, *, decoded: bool = False) -> Text:
        try:
            column_names(schema, decoded=decoded)
        except SchemaError as error:
            self.problems.add(schema.position(error.offset), f"{what}: schema: {error}")
        return schema

    def watermark(self, section: Section) -> Watermark | None:
        if "watermark" not in section:
            return None
        what = f"{section.what}: watermark"
        inner = Section(self.document, section.nodes["watermark"], what, ("column", "delay"))
        column, delay = inner.text("column", required=True), inner.text("delay", required=True)
        if delay is not None and parse_duration_ms(delay) is None:
            self.problems.add(delay.mark, f"{what}: 'delay' is '{delay}', {DURATION_HELP}")
            return None
        return Watermark(column, delay) if column is not None and delay is not None else None

    def topic_name(self, topic: Text, what: str) -> None:
        if not TOPIC.fullmatch(topic) or topic in (".", ".."):
            self.problems.add(
                topic.mark,
                f"{what}: invalid topic name '{topic}': use letters, digits, '.', '_' and '-' only",
            )

    # Steps.

    def step(self, name: Text, node: yaml.Node) -> Step | None:
        what = f"step '{name}'"
        section = Section(self.document, node, what, STEP_KEYS)
        kinds = [key for key in STEP_KINDS if key in section]
        if len(kinds) != 1:
            found = " and ".join(kinds) or "none"
            self.problems.add(name.mark, f"{what}: expected one of {', '.join(STEP_KINDS)}; found {found}")
            return None
        kind = kinds[0]
        for key in section.names:
            if key not in (kind, "watermark", *KEYS_OF_STEP[kind]):
                text = f"{what}: '{key}' is not allowed with '{kind}'"
                if kind == "sql" and key == "from":
                    text += ": the SQL names its inputs"
                self.problems.add(section.names[key].mark, text)
        watermark = self.watermark(section)
        if kind == "sql":
            return self.sql_step(name, section, watermark)
        if kind == "dedup":
            keys = section.texts("dedup", required=True)
            return Step(name, kind, self.inputs(section, one=True), keys=keys, watermark=watermark)
        code = section.text(kind)
        if code is not None and parse_code_reference(code) is None:
            self.problems.add(
                code.mark, f"{what}: '{kind}' is '{code}', expected file.py:name or module:name"
            )
        return self.code_step(name, kind, section, code, watermark)

    def code_step(
        self, name: Text, kind: str, section: Section, code: Text | None, watermark: Watermark | None
    ) -> Step:
        inputs = self.inputs(section, one=kind != "python")
        if kind == "python":
            return Step(name, kind, inputs, code=code, watermark=watermark)
        schema = section.text("schema", required=True)
        if schema is not None:
            self.ddl(schema, section.what)
        if kind == "map":
            return Step(name, kind, inputs, code=code, schema=schema, watermark=watermark)
        return Step(
            name,
            kind,
            inputs,
            code=code,
            schema=schema,
            keys=section.texts("keys", required=True),
            time=section.choice("time", TIMES, "none"),
            output=section.choice("output", OUTPUTS[:2], "append"),
            event_time=section.text("event_time"),
            watermark=watermark,
        )

    def inputs(self, section: Section, *, one: bool) -> tuple[Text, ...]:
        found = section.texts("from", required=True)
        if one and len(found) > 1:
            self.problems.add(found[1].mark, f"{section.what}: 'from' takes a single name here")
            return found[:1]
        return found

    def sql_step(self, name: Text, section: Section, watermark: Watermark | None) -> Step | None:
        sql = section.text("sql")
        if sql is None:
            return None
        facts = scan(sql)
        if facts.problem is not None:
            self.problems.add(sql.position(facts.problem[0]), f"{section.what}: {facts.problem[1]}")
        inputs = tuple(text_at(table.name, sql.position(table.offset)) for table in facts.tables)
        return Step(name, "sql", inputs, sql=sql, facts=facts, watermark=watermark)

    # Sinks.

    def sink(self, name: Text, node: yaml.Node) -> Sink | None:
        what = f"sink '{name}'"
        section = Section(self.document, node, what, SINK_KEYS)
        kinds = [key for key in SINK_KINDS if key in section]
        source = section.text("from", required=True)
        if len(kinds) != 1:
            found = " and ".join(kinds) or "none"
            self.problems.add(name.mark, f"{what}: expected one of {', '.join(SINK_KINDS)}; found {found}")
            return None
        kind = kinds[0]
        for key in section.names:
            if key not in (kind, "from", "output", "trigger", *KEYS_OF_SINK[kind]):
                self.problems.add(section.names[key].mark, f"{what}: '{key}' is not allowed with '{kind}'")
        target = section.text(kind, required=True)
        trigger = self.trigger(section, what)
        output = section.choice("output", OUTPUTS, "append")
        if source is None or target is None:
            return None
        sink = Sink(name, kind, source, target, output, trigger)
        if kind == "topic":
            return self.topic_sink(sink, section, what)
        if kind == "lake":
            by = section.texts("partition_by")
            return sink._replace(partition_by=by, options=section.pairs("options"))
        return sink._replace(rows=section.number("rows") or 20)

    def topic_sink(self, sink: Sink, section: Section, what: str) -> Sink:
        self.topic_name(sink.target, what)
        kind = section.choice("format", FORMATS, "json")
        schema = section.text("schema", required=kind == "avro")
        if schema is not None and kind == "avro":
            self.avro(schema, what)
        if schema is not None and kind != "avro":
            self.problems.add(
                schema.mark, f"{what}: 'schema' is for format avro; format {kind} uses the columns"
            )
        value = section.text("value")
        if value is not None and kind in ("json", "avro"):
            self.problems.add(
                value.mark, f"{what}: 'value' is for formats string and raw; format {kind} writes all columns"
            )
        return sink._replace(
            mode=section.choice("mode", MODES, "at-least-once"),
            key=section.texts("key"),
            format=kind,
            value=value,
            schema=schema,
            delete_when=section.text("delete_when"),
            partitions=section.number("partitions"),
            compacted=section.flag("compacted"),
            options=section.pairs("options"),
        )

    def trigger(self, section: Section, what: str) -> Text | None:
        trigger = section.text("trigger")
        if trigger is not None and trigger != AS_SOON_AS_POSSIBLE and parse_duration_ms(trigger) is None:
            self.problems.add(
                trigger.mark,
                f"{what}: 'trigger' is '{trigger}', {DURATION_HELP} or '{AS_SOON_AS_POSSIBLE}'",
            )
        return trigger

    # Options.

    def options(self, name: Text) -> Options:
        node = self.top.nodes.get("options") or yaml.MappingNode("", [], *_marks(self.top))
        section = Section(self.document, node, "options", OPTION_KEYS)
        dead_letter = section.text("dead_letter")
        if dead_letter is not None:
            self.topic_name(dead_letter, "options: dead_letter")
        return Options(
            trigger=self.trigger(section, "options") or text_at(DEFAULT_TRIGGER, section.mark),
            checkpoint=section.text("checkpoint")
            or text_at(os.path.join("checkpoints", str(name)), section.mark),
            state_store=section.choice("state_store", STATE_STORES, "rocksdb"),
            master=str(section.text("master") or "local[*]"),
            shuffle_partitions=section.number("shuffle_partitions") or DEFAULT_SHUFFLE_PARTITIONS,
            dead_letter=dead_letter or text_at(f"{name}.dead-letter", section.mark),
            on_bad_record=section.choice("on_bad_record", ON_BAD_RECORD, "dead-letter"),
            ansi=section.flag("ansi"),
            spark=section.pairs("spark"),
        )


def _marks(top: Section) -> tuple[yaml.Mark, yaml.Mark]:
    mark = yaml.Mark("", 0, top.mark.line - 1, top.mark.column - 1, None, 0)
    return mark, mark
