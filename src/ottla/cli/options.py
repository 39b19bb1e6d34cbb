"""Options that every command shares, and the parsing of KEY=VALUE pairs."""

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
        help="A broker of the cluster, or several with commas.",
        rich_help_panel="Connection",
    ),
]
Json = Annotated[
    bool,
    typer.Option(
        "--json", help="Print JSON for machines instead of text for people.", rich_help_panel="Output"
    ),
]


def pairs(texts: Iterable[str], option: str, example: str) -> dict[str, str]:
    """`KEY=VALUE` arguments as a dict. Raises typer.BadParameter, which ends in exit code 2."""
    found = {}
    for text in texts:
        key, separator, value = text.partition("=")
        if not separator or not key.strip():
            raise typer.BadParameter(f"{option} {text!r}: expected KEY=VALUE, e.g. {option} {example}")
        found[key.strip()] = value.strip()
    return found
