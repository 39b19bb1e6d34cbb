"""Options shared by the commands, and parsing of KEY=VALUE pairs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

import typer

DEFAULT_BOOTSTRAP = "localhost:9092"

Bootstrap = Annotated[
    str,
    typer.Option(
        "--bootstrap",
        "--bootstrap-server",
        "-b",
        metavar="HOST:PORT",
        envvar="OTTLA_BOOTSTRAP",
        help="Brokers to connect to, separated by commas.",
        rich_help_panel="Connection",
    ),
]
Json = Annotated[
    bool,
    typer.Option("--json", help="Print JSON instead of text.", rich_help_panel="Output"),
]


def pairs(texts: Iterable[str], option: str, example: str) -> dict[str, str]:
    """Parse `KEY=VALUE` arguments. Raises typer.BadParameter, which leads to exit code 2."""
    found = {}
    for text in texts:
        key, separator, value = text.partition("=")
        if not separator or not key.strip():
            raise typer.BadParameter(f"{option} {text!r}: expected KEY=VALUE, e.g. {option} {example}")
        found[key.strip()] = value.strip()
    return found
