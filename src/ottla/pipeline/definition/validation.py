"""Static validation of a pipeline: names, cycles, and what Spark would refuse when the queries start."""

from __future__ import annotations

import os
from collections.abc import Mapping

from ottla.pipeline.definition.code_lookup import find_code_problem
from ottla.pipeline.definition.document import Mark, Problems, Text, suggestion
from ottla.pipeline.definition.graph import Graph
from ottla.pipeline.definition.model import RECORD_COLUMNS, Pipeline, Sink, Source, Step
from ottla.pipeline.definition.parser import read_pipeline
from ottla.pipeline.definition.schemas import SchemaError, avro_column_names, column_names
from ottla.pipeline.definition.syntax import parse_code_reference


def validate(
    path: str, settings: Mapping[str, str] | None = None, master: str | None = None
) -> tuple[Pipeline | None, Problems]:
    """Parse and check a file. `master` overrides the master in the file."""
    problems = Problems()
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except OSError as error:
        problems.add(Mark(1, 1), f"cannot read the file: {error.strerror}")
        return None, problems
    except UnicodeDecodeError as error:
        problems.add(Mark(1, 1), f"the file is not UTF-8: {error.reason}")
        return None, problems
    pipeline = read_pipeline(os.path.abspath(path), text, settings or {}, problems)
    if pipeline is not None:
        if master is not None:
            pipeline = pipeline._replace(options=pipeline.options._replace(master=master))
        check(pipeline, problems)
    return pipeline, problems


def own_columns(source: Source) -> list[str] | None:
    """Return the columns of a source's values in lower case; None if the schema is invalid."""
    if source.schema is None:
        return ["value"]
    try:
        if source.format == "avro":
            return avro_column_names(source.schema)
        return column_names(source.schema)
    except SchemaError:
        return None


def check(pipeline: Pipeline, problems: Problems) -> None:
    _Checks(pipeline, problems).run()


class _Checks:
    def __init__(self, pipeline: Pipeline, problems: Problems) -> None:
        self.pipeline = pipeline
        self.problems = problems
        self.graph = Graph(pipeline)
        self.named: list[Source | Step] = [*pipeline.sources.values(), *pipeline.steps.values()]

    def run(self) -> None:
        self.names()
        for source in self.pipeline.sources.values():
            self.source(source)
        for step in self.pipeline.steps.values():
            self.code(step)
        complete = self.references()
        cycle = self.graph.cycle()
        if cycle is not None:
            text = f"the steps form a cycle: {' -> '.join(cycle)}"
            self.problems.add(self.pipeline.mark_of(cycle[0]), text)
            return
        if complete:
            for step in self.pipeline.steps.values():
                self.step(step)
            for sink in self.pipeline.sinks.values():
                self.sink(sink)
            self.unused()
        self.targets()

    # Names.

    def names(self) -> None:
        seen: dict[str, Text] = {}
        for each in self.named:
            first = seen.setdefault(each.name.lower(), each.name)
            if first is not each.name:
                text = f"duplicate name '{each.name}': '{first}' is defined on line {first.mark.line}"
                self.problems.add(each.name.mark, text)

    def references(self) -> bool:
        known = [*self.pipeline.sources, *self.pipeline.steps]
        complete = True
        owners: list[Step | Sink] = [*self.pipeline.steps.values(), *self.pipeline.sinks.values()]
        for owner in owners:
            kind = "step" if isinstance(owner, Step) else "sink"
            inputs = owner.inputs if isinstance(owner, Step) else (owner.input,)
            for name in inputs:
                if self.graph.find(name) is None:
                    hint = suggestion(name, known) or f"defined are {', '.join(known) or 'none'}"
                    text = f"{kind} '{owner.name}': unknown source or step '{name}'; {hint}"
                    self.problems.add(name.mark, text)
                    complete = False
        return complete

    def unused(self) -> None:
        read = {each for sink in self.pipeline.sinks.values() for each in self.graph.needed_by(sink)}
        for each in self.named:
            if each.name not in read:
                self.problems.warn(each.name.mark, f"'{each.name}' is not used by any sink and is not run")

    def targets(self) -> None:
        """Check that no two sinks write to one table, and that a pipeline does not read its own output."""
        lakes: dict[str, Sink] = {}
        read = {topic: source for source in self.pipeline.sources.values() for topic in source.topics}
        for sink in self.pipeline.sinks.values():
            if sink.kind == "lake":
                first = lakes.setdefault(self.pipeline.resolved(sink.target), sink)
                if first is not sink:
                    text = f"sink '{sink.name}': sink '{first.name}' also writes to {sink.target}"
                    self.problems.add(sink.target.mark, text)
            if sink.kind == "topic" and sink.target in read:
                name = read[sink.target].name
                text = f"sink '{sink.name}' writes to the topic that source '{name}' reads"
                self.problems.warn(sink.target.mark, text)
        if self.pipeline.options.dead_letter in read:
            name = read[self.pipeline.options.dead_letter].name
            self.problems.add(
                self.pipeline.options.dead_letter.mark,
                f"options: source '{name}' reads the dead_letter topic: bad records would loop",
            )

    # Sources and steps.

    def source(self, source: Source) -> None:
        for name in own_columns(source) or ():
            if name in (*RECORD_COLUMNS, "_headers") and source.schema is not None:
                text = f"source '{source.name}': schema: column name '{name}' is reserved"
                self.problems.add(source.schema.mark, text)
        mark = source.watermark
        if mark is None:
            return
        known = self.columns_of(source)
        if known is not None and mark.column.lower() not in known:
            hint = suggestion(mark.column, known) or f"the columns are {', '.join(known)}"
            text = f"source '{source.name}': watermark: unknown column '{mark.column}'; {hint}"
            self.problems.add(mark.column.mark, text)

    def columns_of(self, source: Source) -> list[str] | None:
        """Return the column names in lower case, or None if only Spark can determine them."""
        extra = [*RECORD_COLUMNS, "_headers"] if source.with_headers else [*RECORD_COLUMNS]
        own = own_columns(source)
        return None if own is None else [*own, *extra]

    def code(self, step: Step) -> None:
        reference = parse_code_reference(step.code) if step.code is not None else None
        if reference is None or step.code is None:
            return
        why = find_code_problem(reference, self.pipeline.directory)
        if why is not None:
            self.problems.add(step.code.mark, f"step '{step.name}': {why}")

    def step(self, step: Step) -> None:
        what = f"step '{step.name}'"
        before = [self.graph.facts(each) for each in self.graph.inputs(step.name)]
        marks = [mark for facts in before for mark in facts.watermarks]
        if step.kind == "dedup" and not marks:
            self.problems.add(
                step.name.mark,
                f"{what}: 'dedup' needs a watermark on '{step.inputs[0] if step.inputs else '?'}', "
                "which limits how long keys are kept",
            )
        if step.kind in ("dedup", "state", "map") and before and not before[0].is_stream:
            text = f"{what}: '{step.kind}' needs a stream, but '{step.inputs[0]}' is a table"
            self.problems.add(step.inputs[0].mark, text)
        if step.kind == "state" and self.pipeline.options.state_store != "rocksdb":
            self.problems.add(step.name.mark, f"{what}: 'state' needs 'state_store: rocksdb'")
        if step.kind == "state" and step.time == "event" and not marks:
            self.problems.add(
                step.name.mark, f"{what}: 'time: event' needs a watermark on '{step.inputs[0]}'"
            )
        if step.kind == "state" and step.event_time is not None and step.schema is not None:
            self.event_time(step, step.event_time, step.schema)
        if step.kind == "sql":
            self.joins(step)

    def event_time(self, step: Step, column: Text, schema: Text) -> None:
        try:
            known = column_names(schema)
        except SchemaError:
            return
        if column.lower() not in known:
            self.problems.add(
                column.mark, f"step '{step.name}': event_time: unknown column '{column}' in its schema"
            )

    def joins(self, step: Step) -> None:
        """Check for joins that Spark does not support: it refuses them only when the query starts."""
        assert step.facts is not None
        left_is_stream: bool | None = None
        left_marked = False
        for table, name in zip(step.facts.tables, step.inputs, strict=True):
            found = self.graph.find(name)
            assert found is not None
            facts = self.graph.facts(found)
            marked = bool(facts.watermarks)
            if not table.join or left_is_stream is None:
                left_is_stream, left_marked = facts.is_stream, marked
                continue
            if table.join in ("LEFT", "RIGHT", "FULL", "SEMI"):
                self.outer(step, table.join, name, (left_is_stream, left_marked), (facts.is_stream, marked))
            elif left_is_stream and facts.is_stream and not (left_marked and marked):
                self.problems.warn(
                    name.mark,
                    f"step '{step.name}': a join of two streams without watermarks on both keeps every row "
                    "in state forever",
                )
            left_is_stream = left_is_stream or facts.is_stream
            left_marked = left_marked and marked

    def outer(
        self, step: Step, join: str, name: Text, left: tuple[bool, bool], right: tuple[bool, bool]
    ) -> None:
        what = f"step '{step.name}': {join} JOIN"
        if left[0] and right[0]:
            if not (left[1] and right[1]):
                self.problems.add(
                    name.mark,
                    f"{what} of two streams needs a watermark on both: without it Spark never emits a row "
                    "without a match",
                )
        elif left[0] != right[0]:
            kept_is_table = (join in ("LEFT", "SEMI") and not left[0]) or (join == "RIGHT" and not right[0])
            if join == "FULL" or kept_is_table:
                self.problems.add(
                    name.mark, f"{what}: the outer side is a table; only the stream may be the outer side"
                )

    # Sinks.

    def sink(self, sink: Sink) -> None:
        found = self.graph.find(sink.input)
        assert found is not None
        facts = self.graph.facts(found)
        what = f"sink '{sink.name}'"
        if not facts.is_stream:
            text = f"{what}: '{sink.input}' reads tables only: a sink needs at least one stream"
            self.problems.add(sink.input.mark, text)
            return
        if sink.kind == "lake" and sink.output != "append":
            self.problems.add(sink.name.mark, f"{what}: a lake table supports 'output: append' only")
        if sink.kind == "console" and self.pipeline.options.master.startswith("sc://"):
            text = f"{what}: a console sink does not work with Spark Connect; use another master or sink"
            self.problems.add(sink.name.mark, text)
        if sink.output != "append":
            self.not_append(sink, what)
        else:
            self.append(sink, what)
        if sink.compacted and not sink.key:
            self.problems.add(sink.name.mark, f"{what}: a compacted topic needs a 'key'")
        if sink.delete_when is not None and not sink.key:
            self.problems.add(sink.delete_when.mark, f"{what}: 'delete_when' needs a 'key'")

    def aggregating(self, sink: Sink) -> list[Step]:
        steps = [
            self.pipeline.steps[each] for each in self.graph.needed_by(sink) if each in self.pipeline.steps
        ]
        return [
            step
            for step in steps
            if step.facts is not None and step.facts.aggregates and self.graph.facts(step.name).is_stream
        ]

    def append(self, sink: Sink, what: str) -> None:
        for step in self.aggregating(sink):
            if not self.graph.facts(step.name).watermarks:
                self.problems.add(
                    sink.name.mark,
                    f"{what}: step '{step.name}' aggregates a stream without a watermark, so no result is "
                    "ever final: add a watermark to the source, or set 'output: update'",
                )
        for each in self.graph.needed_by(sink):
            found = self.pipeline.steps.get(each)
            if found is None or found.facts is None or not self.graph.facts(each).is_stream:
                continue
            if found.facts.sorts:
                text = f"{what}: step '{each}' sorts a stream, which needs 'output: complete'"
                self.problems.add(sink.name.mark, text)

    def not_append(self, sink: Sink, what: str) -> None:
        found = self.graph.find(sink.input)
        assert found is not None
        facts = self.graph.facts(found)
        aggregates = self.aggregating(sink)
        if facts.joins_streams:
            text = f"{what}: step '{facts.joins_streams[0]}' joins two streams, which needs 'output: append'"
            self.problems.add(sink.name.mark, text)
        elif len(facts.stateful) > 1:
            self.problems.add(
                sink.name.mark,
                f"{what}: steps {' and '.join(facts.stateful)} are chained stateful operators, "
                "which need 'output: append'",
            )
        if sink.output == "complete" and not aggregates:
            text = f"{what}: 'output: complete' needs an aggregation, but no step aggregates"
            self.problems.add(sink.name.mark, text)
        if sink.output == "update" and any(step.facts and step.facts.sorts for step in aggregates):
            self.problems.add(sink.name.mark, f"{what}: sorting needs 'output: complete'")
        if sink.mode == "exactly-once" and sink.output == "update":
            self.problems.add(
                sink.name.mark,
                f"{what}: 'mode: exactly-once' does not support 'output: update'; updates are written at "
                "least once, and the latest value of a key is the same if it is written twice",
            )
        if sink.kind == "topic" and sink.output == "update" and not sink.key:
            self.problems.warn(
                sink.name.mark, f"{what}: without a 'key' an update does not replace the earlier record"
            )
