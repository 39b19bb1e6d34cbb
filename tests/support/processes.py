"""Python processes that can import the packages of this repository."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def python_module(module: str, *arguments: str) -> list[str]:
    """Return the command that runs a module; start it with `cwd=ROOT`."""
    return [sys.executable, "-m", module, *arguments]
