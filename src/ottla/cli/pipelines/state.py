"""`ottla pipeline state`."""

from __future__ import annotations

from ottla.cli.output import console, fail, print_json, table
from ottla.cli.pipelines.run import quiet_spark
from ottla.cli.pipelines.view import cell, plain
from ottla.pipeline.definition.model import Pipeline


def show_state(
    pipeline: Pipeline,
    step_name: str,
    *,
    sink: str | None,
    operator: int | None,
    variable: str | None,
    side: str | None,
    limit: int,
    as_json: bool,
) -> None:
    spark = quiet_spark(pipeline, as_json=as_json, local=True)
    from ottla.pipeline.queries.state_store import StateNotFound, choose, operators, queries_with, read_state

    try:
        plans = queries_with(pipeline, step_name)
        if sink is not None:
            plans = [plan for plan in plans if plan.name == sink]
        if not plans:
            raise StateNotFound(
                f"no sink uses step '{step_name}'" + (f" under the name '{sink}'" if sink else "")
            )
        plan = plans[0]
        chosen = choose(pipeline.steps[step_name], operators(spark, plan), operator)
        frame = read_state(spark, plan, chosen, variable=variable, side=side)
        rows = [row.asDict() for row in frame.limit(limit).collect()]
        columns = frame.columns
    except StateNotFound as error:
        fail(str(error), as_json=as_json)
    finally:
        spark.stop()
    if as_json:
        found = [{name: plain(value) for name, value in row.items()} for row in rows]
        print_json({"step": step_name, "query": plan.name, "operator": chosen.name, "rows": found})
        return
    shown = table(*columns)
    for row in rows:
        shown.add_row(*(cell(row[name]) for name in columns))
    console.print(shown)
    print(f"step '{step_name}' in query '{plan.name}', operator {chosen.id} ({chosen.name})")
