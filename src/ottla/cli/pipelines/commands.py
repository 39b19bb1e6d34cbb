"""`ottla pipeline`: validate, run, state, list."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from ottla.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, Json, pairs
from ottla.cli.output import connected, console, fail, plural, print_json, run_command, table

if TYPE_CHECKING:
    from ottla.pipeline.definition.document import Problem, Problems
    from ottla.pipeline.definition.model import Pipeline

app = typer.Typer(
    help="Spark pipelines, defined in YAML files: validate, run, show their state, list them.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
)

File = Annotated[str, typer.Argument(metavar="FILE", help="The pipeline.", show_default=False)]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="Set a variable of the file; may be repeated."),
]
Master = Annotated[
    str | None,
    typer.Option(
        "--master",
        metavar="URL",
        help="Spark master: `local[*]`, `spark://...`, `yarn`, `k8s://...` or `sc://...`.",
        show_default=False,
    ),
]


@app.command(
    "validate",
    help="""Check a pipeline, and report all errors with line and column.

    Starts nothing and runs no user code. With `--deep`, Spark also parses and analyses every query, without
    reading a topic. The exit code is 1 if there are errors; warnings do not count.

    Examples:

    - `ottla pipeline validate orders.yaml`
    - `ottla pipeline validate orders.yaml --deep`
    - `ottla pipeline validate orders.yaml --json | jq '.problems[].message'`
    """,
)
def validate(
    path: File,
    *,
    settings: Settings = None,
    deep: Annotated[bool, typer.Option("--deep", help="Start Spark and analyse the queries.")] = False,
    as_json: Json = False,
) -> None:
    pipeline, problems = _checked(path, settings)
    if deep and pipeline is not None and not problems.errors:
        _deep(pipeline, problems, as_json=as_json)
    found = list(problems)
    if as_json:
        print_json(
            {"file": path, "valid": not problems.errors, "problems": [_as_json(each) for each in found]}
        )
    else:
        for each in found:
            print(each.shown(path))
        print(_summary(path, pipeline, problems))
    if problems.errors:
        raise typer.Exit(1)


@app.command(
    "run",
    help="""Run a pipeline until it is stopped, or with `--once` until it has processed the available records.

    Shows the batches, rows per second, lag, state size and dead letters of every query: as a table on a
    terminal, otherwise as lines. SIGTERM and Ctrl-C stop it after the running batches; a restart continues
    from the checkpoints. Topics of sinks are created if they do not exist.

    Examples:

    - `ottla pipeline run orders.yaml`
    - `ottla pipeline run orders.yaml --once --set day=2026-01-31`
    - `ottla pipeline run orders.yaml --master spark://host:7077`
    """,
)
def run(
    path: File,
    *,
    master: Master = None,
    once: Annotated[
        bool, typer.Option("--once", help="Stop when all available records are processed.")
    ] = False,
    settings: Settings = None,
    bootstrap: Annotated[
        str | None,
        typer.Option(
            "--bootstrap",
            "-b",
            metavar="HOST:PORT",
            help="Brokers, instead of those in the file.",
            show_default=False,
        ),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print progress as JSON, one object per line.")
    ] = False,
) -> None:
    from ottla.cli.pipelines.run import run_file

    pipeline, problems = _checked(path, settings, master)
    for each in problems:
        print(each.shown(path), file=sys.stderr)
    if pipeline is None or problems.errors:
        print(_summary(path, pipeline, problems), file=sys.stderr)
        raise typer.Exit(1)
    if bootstrap is not None:
        pipeline = pipeline._replace(bootstrap=bootstrap)
    raise typer.Exit(run_file(pipeline, once=once, as_json=as_json))


@app.command(
    "state",
    help="""Show the state store of a step as a table, as of the last completed batch.

    Reads the checkpoint, whether or not the pipeline is running. A step used by several sinks has a state
    store for each of them: select one with `--sink`. Joins have two sides (`--side`), state processors have
    named variables (`--variable`).

    Examples:

    - `ottla pipeline state orders.yaml revenue_per_customer`
    - `ottla pipeline state orders.yaml sessions --variable carts --limit 100 --json`
    """,
)
def state(
    path: File,
    step: Annotated[str, typer.Argument(metavar="STEP", help="The step.", show_default=False)],
    *,
    sink: Annotated[str | None, typer.Option("--sink", help="Sink whose query is shown.")] = None,
    operator: Annotated[
        int | None, typer.Option("--operator", help="Operator, if a step has several.", show_default=False)
    ] = None,
    variable: Annotated[
        str | None, typer.Option("--variable", help="Variable of a state processor.", show_default=False)
    ] = None,
    side: Annotated[
        str | None, typer.Option("--side", help="Side of a join: left or right.", show_default=False)
    ] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="Maximum number of rows.")] = 50,
    settings: Settings = None,
    as_json: Json = False,
) -> None:
    from ottla.cli.pipelines.state import show_state

    pipeline, problems = _checked(path, settings)
    if pipeline is None or problems.errors:
        fail(f"{path} has errors; 'ottla pipeline validate {path}' lists them", as_json=as_json)
    if step not in pipeline.steps:
        from ottla.pipeline.definition.document import suggestion

        hint = suggestion(step, pipeline.steps) or f"the steps are {', '.join(pipeline.steps) or 'none'}"
        fail(f"there is no step '{step}'; {hint}", as_json=as_json)
    show_state(
        pipeline,
        step,
        sink=sink,
        operator=operator,
        variable=variable,
        side=side,
        limit=limit,
        as_json=as_json,
    )


@app.command(
    "list",
    help="""List the pipelines that have committed offsets to a cluster, with their queries, topics and lag.

    Every query commits its offsets to the group `ottla-pipeline.PIPELINE.QUERY`, so this command needs
    neither the files nor Spark. `ottla group describe` shows the details of a group.

    Examples:

    - `ottla pipeline list`
    - `ottla pipeline list --json | jq '.queries[] | select(.lag > 1000)'`
    """,
)
def list_pipelines(*, bootstrap: Bootstrap = DEFAULT_BOOTSTRAP, as_json: Json = False) -> None:
    _need_extra()

    async def work() -> None:
        from ottla.cli.pipelines.registry import list_queries
        from ottla.client import Admin

        async with connected(bootstrap) as cluster:
            rows = await list_queries(Admin(cluster))
        if as_json:
            print_json({"queries": rows})
            return
        if not rows:
            print("No pipeline has committed offsets. Start one: ottla pipeline run FILE")
            return
        right = ("lag",)
        shown = table("pipeline", "query", "topics", "lag", "where", right=right)
        for row in rows:
            lag = "-" if row["lag"] is None else str(row["lag"])
            shown.add_row(row["pipeline"], row["query"], ", ".join(row["topics"]), lag, row["where"] or "-")
        console.print(shown)

    run_command(work, as_json=as_json)


def _need_extra() -> None:
    from importlib.util import find_spec

    if find_spec("yaml") is None:
        fail("pipelines need additional packages: pip install 'ottla[pipeline]'")


def _checked(
    path: str, settings: list[str] | None, master: str | None = None
) -> tuple[Pipeline | None, Problems]:
    _need_extra()
    from ottla.pipeline.definition.validation import validate as validated

    return validated(path, pairs(settings or [], "--set", "bootstrap=localhost:9092"), master)


def _deep(pipeline: Pipeline, problems: Problems, *, as_json: bool) -> None:
    from ottla.cli.pipelines.run import quiet_spark
    from ottla.pipeline.queries.builder import analyse

    spark = quiet_spark(pipeline, as_json=as_json, local=True)
    try:
        analyse(spark, pipeline, problems)
    finally:
        spark.stop()


def _as_json(problem: Problem) -> dict[str, object]:
    return {
        "line": problem.mark.line,
        "column": problem.mark.column,
        "severity": "warning" if problem.is_warning else "error",
        "message": problem.message,
    }


def _summary(path: str, pipeline: Pipeline | None, problems: Problems) -> str:
    name = os.path.basename(path)
    if problems.errors:
        return f"{name}: {plural(len(problems.errors), 'error')}"
    assert pipeline is not None
    parts = (plural(len(pipeline.sources), "source"), plural(len(pipeline.steps), "step"))
    return f"{name}: valid, {parts[0]}, {parts[1]}, {plural(len(pipeline.sinks), 'sink')}"
