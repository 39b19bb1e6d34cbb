"""The entry point of the `ottla` command.

`ottla serve` must start in a fraction of a second, and importing typer and rich would take a third of that.
So `serve` and `cluster` use argparse; all other commands belong to the typer application.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    arguments = list(sys.argv[1:] if argv is None else argv)
    if arguments and arguments[0] == "serve":
        from ottla.cli.broker.serve import main as serve

        return serve(arguments[1:])
    if arguments and arguments[0] == "cluster":
        from ottla.cli.cluster.commands import main as cluster

        return cluster(arguments[1:])
    from ottla.cli.app import run

    return run(arguments)
