"""The state store of a step as a DataFrame, read from the checkpoint of its query."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from pyspark.sql import DataFrame, Row, SparkSession

from ottla.pipeline.definition.graph import Graph, keeps_state
from ottla.pipeline.definition.model import Pipeline, Step
from ottla.pipeline.plan import QueryPlan, queries_of

# Spark's names of stateful operators, by kind.
_AGGREGATES = ("stateStoreSave", "sessionWindowStateStoreSaveExec")
_NAMES = {
    "dedup": ("dedupe", "dedupeWithinWatermark"),
    "state": ("transformWithStateExec", "transformWithStateInPySparkExec", "transformWithStateInPandasExec"),
    "join": ("symmetricHashJoin",),
}


class StateNotFound(Exception):
    """There is no state to show; the message says why."""


class Operator(NamedTuple):
    id: int
    name: str
    partitions: int
    variables: tuple[str, ...]


def queries_with(pipeline: Pipeline, step: str) -> list[QueryPlan]:
    """Return the queries that keep state for a step: one for every sink that uses it."""
    graph = Graph(pipeline)
    return [
        plan
        for plan in queries_of(pipeline)
        if not plan.is_dead_letters and step in graph.upstream(plan.input)
    ]


def operators(spark: SparkSession, plan: QueryPlan) -> list[Operator]:
    """Return the stateful operators of a query from its checkpoint. Raises StateNotFound."""
    from pyspark.errors import PySparkException

    try:
        rows = spark.read.format("state-metadata").load(plan.checkpoint).collect()
    except PySparkException as error:
        raise StateNotFound(
            f"query '{plan.name}' has no state in {plan.checkpoint}: it has not run, or is stateless"
        ) from error
    found: dict[int, Operator] = {}
    for row in rows:
        found.setdefault(
            row.operatorId, Operator(row.operatorId, row.operatorName, row.numPartitions, _variables(row))
        )
    return [found[number] for number in sorted(found)]


def _variables(row: Row) -> tuple[str, ...]:
    """Return the names of the state variables of a transformWithState operator."""
    try:
        properties = json.loads(row.operatorProperties or "{}")
        listed: Any = properties.get("stateVariables", [])
        if isinstance(listed, str):
            listed = json.loads(listed)
        return tuple(str(each["stateName"]) for each in listed)
    except (AttributeError, ValueError, TypeError, KeyError):
        return ()


def operators_of(step: Step, there: Sequence[Operator]) -> list[Operator]:
    """Return the operators that a step of this kind can have."""
    names: tuple[str, ...] = _NAMES.get(step.kind, ())
    if step.facts is not None:
        names += _AGGREGATES if step.facts.aggregates else ()
        names += _NAMES["dedup"] if step.facts.distinct else ()
        names += _NAMES["join"] if any(table.join for table in step.facts.tables) else ()
    if step.kind == "python":
        return list(there)
    return [each for each in there if each.name in names]


def choose(step: Step, there: Sequence[Operator], wanted: int | None) -> Operator:
    """Return the operator to show. Raises StateNotFound with the candidates."""
    candidates = operators_of(step, there) if wanted is None else [one for one in there if one.id == wanted]
    if len(candidates) == 1:
        return candidates[0]
    shown = ", ".join(f"{one.id} ({one.name})" for one in there) or "none"
    if not candidates:
        why = "is stateless" if not keeps_state(step) and wanted is None else "has no such operator"
        raise StateNotFound(f"step '{step.name}' {why}; operators of its query: {shown}")
    raise StateNotFound(
        f"several operators may belong to step '{step.name}': {shown}; choose one with --operator"
    )


def read_state(
    spark: SparkSession, plan: QueryPlan, operator: Operator, *, variable: str | None, side: str | None
) -> DataFrame:
    """Return keys and values as columns, and the partition of the state store. Raises StateNotFound."""
    reader = spark.read.format("statestore").option("operatorId", operator.id)
    if operator.name in _NAMES["state"]:
        chosen = variable or (operator.variables[0] if len(operator.variables) == 1 else None)
        if chosen is None:
            names = ", ".join(operator.variables) or "unknown"
            raise StateNotFound(f"choose a state variable with --variable: {names}")
        reader = reader.option("stateVarName", chosen)
    elif operator.name in _NAMES["join"]:
        reader = reader.option("joinSide", side or "left")
    frame = reader.load(plan.checkpoint)
    columns = [f"{name}.*" for name in ("key", "value") if name in frame.columns]
    others = [name for name in frame.columns if name not in ("key", "value")]
    return frame.selectExpr(*columns, *others)
