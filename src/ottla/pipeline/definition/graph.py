"""The graph of sources, steps and sinks: dependencies, order, and properties of each node."""

from __future__ import annotations

from typing import NamedTuple

from ottla.pipeline.definition.model import Pipeline, Sink, Step, Watermark


class Facts(NamedTuple):
    """Properties of a source or step that are known without Spark."""

    is_stream: bool
    watermarks: tuple[Watermark, ...]
    # Names of upstream steps that keep state, and of this one if it does.
    stateful: tuple[str, ...]
    joins_streams: tuple[str, ...]


class Graph:
    """The graph of a pipeline. `facts` needs a pipeline without cycles and unknown names."""

    def __init__(self, pipeline: Pipeline) -> None:
        self.pipeline = pipeline
        # Names are case-insensitive in SQL.
        self._by_lower = {name.lower(): name for name in (*pipeline.sources, *pipeline.steps)}
        self._facts: dict[str, Facts] = {}

    def find(self, name: str) -> str | None:
        """Return the name as it is spelled in the file; None if it is unknown."""
        return self._by_lower.get(name.lower())

    def inputs(self, name: str) -> list[str]:
        step = self.pipeline.steps.get(name)
        found = [self.find(each) for each in step.inputs] if step is not None else []
        return list(dict.fromkeys(each for each in found if each is not None))

    def cycle(self) -> list[str] | None:
        """Return a cycle such as [a, b, a], or None."""
        done: dict[str, None] = {}
        for start in self.pipeline.steps:
            path: list[str] = []
            found = self._walk(start, path, done)
            if found is not None:
                return found
        return None

    def _walk(self, name: str, path: list[str], done: dict[str, None]) -> list[str] | None:
        if name in path:
            return [*path[path.index(name) :], name]
        if name in done:
            return None
        path.append(name)
        for each in self.inputs(name):
            found = self._walk(each, path, done)
            if found is not None:
                return found
        path.pop()
        done[name] = None
        return None

    def upstream(self, name: str) -> list[str]:
        """Return everything that a source or step depends on in topological order, itself last."""
        found: dict[str, None] = {}

        def visit(each: str) -> None:
            if each not in found:
                for before in self.inputs(each):
                    visit(before)
                found[each] = None

        visit(name)
        return list(found)

    def needed_by(self, sink: Sink) -> list[str]:
        found = self.find(sink.input)
        return self.upstream(found) if found is not None else []

    def facts(self, name: str) -> Facts:
        if name not in self._facts:
            self._facts[name] = self._compute_facts(name)
        return self._facts[name]

    def _compute_facts(self, name: str) -> Facts:
        source = self.pipeline.sources.get(name)
        if source is not None:
            own = (source.watermark,) if source.watermark is not None else ()
            return Facts(not source.is_table, own, (), ())
        step = self.pipeline.steps[name]
        before = [self.facts(each) for each in self.inputs(name)]
        streams = [facts for facts in before if facts.is_stream]
        marks = tuple(dict.fromkeys(mark for facts in before for mark in facts.watermarks))
        if step.kind in ("map", "state"):
            marks = ()  # their columns are new: Spark drops the watermark of the input
        if step.watermark is not None:
            marks = (*marks, step.watermark)
        joins = tuple(dict.fromkeys(each for facts in before for each in facts.joins_streams))
        if step.facts is not None and len(streams) > 1 and any(table.join for table in step.facts.tables):
            joins = (*joins, name)
        stateful = tuple(dict.fromkeys(each for facts in before for each in facts.stateful))
        if (streams and keeps_state(step)) or name in joins:
            stateful = (*stateful, name)
        return Facts(bool(streams), marks, stateful, joins)


def keeps_state(step: Step) -> bool:
    """Return whether Spark keeps state for this step on a stream, as far as its definition shows."""
    if step.kind in ("dedup", "state"):
        return True
    return step.facts is not None and (step.facts.aggregates or step.facts.distinct)
