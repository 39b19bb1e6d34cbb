"""The typer application: all commands except `serve` and `cluster`, which it lists and delegates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from ottla import __version__
from ottla.cli.broker import format
from ottla.cli.groups import commands as groups
from ottla.cli.lake import commands as lake
from ottla.cli.pipelines import commands as pipeline
from ottla.cli.records import consume, produce
from ottla.cli.topics import commands as topics
from ottla.cli.topics import partitions
from ottla.cli.transactions import commands as txn

app = typer.Typer(
    name="ottla",
    help=(
        "A distributed, replicated, append-only log that speaks Kafka's protocol.\n\n"
        "Start with `ottla serve` (one broker) or `ottla cluster` (three, replicated) in one terminal, then "
        "`ottla topic create orders`, `ottla produce orders` and `ottla consume orders` in another. All "
        "commands except `serve` and `cluster` work with any Kafka-compatible cluster, and so does "
        "`cluster status`."
    ),
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"ottla {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Options before the command."""


@app.command(
    "serve",
    help="Run a broker. See `ottla serve --help` for its options.",
    add_help_option=False,
    context_settings={
        "ignore_unknown_options": True,
        "allow_extra_args": True,
        "allow_interspersed_args": False,
    },
)
def serve(context: typer.Context) -> None:
    """Delegate to the argparse parser of `serve`, which starts faster than typer."""
    from ottla.cli.broker.serve import main

    raise typer.Exit(main(context.args))


@app.command(
    "cluster",
    help="Run a replicated cluster on this machine, or show the state of a cluster: `ottla cluster status`.",
    add_help_option=False,
    context_settings={
        "ignore_unknown_options": True,
        "allow_extra_args": True,
        "allow_interspersed_args": False,
    },
)
def cluster(context: typer.Context) -> None:
    """Delegate to the argparse parser of `cluster`."""
    from ottla.cli.cluster.commands import main

    raise typer.Exit(main(context.args))


app.add_typer(topics.app, name="topic")
app.add_typer(partitions.app, name="partition")
app.add_typer(groups.app, name="group")
app.add_typer(lake.app, name="lake")
app.add_typer(txn.app, name="txn")
app.add_typer(pipeline.app, name="pipeline")
app.command("produce", help=produce.HELP)(produce.produce)
app.command("consume", help=consume.HELP)(consume.consume)
app.command("format", help=format.HELP)(format.format_node)


def run(arguments: Sequence[str]) -> int:
    """Run a command; return the exit code: 0 success, 1 failure, 2 invalid arguments."""
    try:
        app(args=list(arguments), prog_name="ottla")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    return 0
