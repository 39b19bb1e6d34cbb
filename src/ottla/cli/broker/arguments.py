"""Options that `ottla serve` and `ottla cluster` share.

Both use argparse, and keep their imports light.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

LOG_LEVELS = ("debug", "info", "warning", "error")


class UsageError(ValueError):
    """Invalid arguments: exit code 2."""


def add_broker_options(parser: argparse.ArgumentParser, *, settings_help: str, log_level_help: str) -> None:
    """Add --set and --log-level."""
    parser.add_argument(
        "--set",
        metavar="KEY=VALUE",
        dest="settings",
        action="append",
        default=[],
        help=settings_help,
    )
    parser.add_argument(
        "--log-level",
        choices=LOG_LEVELS,
        type=str.lower,
        default="info",
        help=f"{log_level_help}: %(choices)s (default: info)",
        metavar="LEVEL",
    )


def parse_settings(settings: Sequence[str]) -> dict[str, str]:
    """Return the properties of --set. Raises UsageError."""
    parsed = {}
    for setting in settings:
        key, separator, value = setting.partition("=")
        if not separator or not key.strip():
            raise UsageError(f"--set {setting!r}: expected KEY=VALUE, e.g. --set num.partitions=3")
        parsed[key.strip()] = value.strip()
    return parsed
