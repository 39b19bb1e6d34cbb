"""The table of the Kafka APIs that Ottla serves, derived from the declarations in ottla.broker.api.

python tools/api_table.py          print it as Markdown
"""

from __future__ import annotations

import sys
from typing import NamedTuple

from ottla.broker.api.registry import declarations, served_modules
from ottla.protocol.api import API_BY_KEY


class Row(NamedTuple):
    key: int
    name: str
    min_version: int
    max_version: int
    listeners: tuple[str, ...]
    decided_by: str
    module: str  # below src/ottla/broker/api


def rows() -> list[Row]:
    """One row per API that a listener serves, by API key."""
    found = []
    for declared in declarations():
        api = API_BY_KEY[declared.key]
        folder, name = served_modules()[declared.key].split(".")[-2:]
        found.append(
            Row(
                api.key,
                api.name,
                api.min_version,
                api.max_version,
                tuple(sorted(declared.listeners)),
                declared.decided_by,
                f"{folder}/{name}.py",
            )
        )
    return found


def not_served() -> list[str]:
    """The names of the APIs in Kafka's protocol that no listener serves."""
    return [api.name for key, api in API_BY_KEY.items() if key not in served_modules()]


def table() -> str:
    """The table as Markdown."""
    lines = [
        "| key | API | versions | listeners | decided by | module |",
        "| --: | --- | --- | --- | --- | --- |",
    ]
    for row in rows():
        low, high = row.min_version, row.max_version
        versions = f"{low}" if low == high else f"{low}-{high}"
        listeners = ", ".join(row.listeners)
        cells = (str(row.key), row.name, versions, listeners, row.decided_by, f"`{row.module}`")
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([*lines, "", f"Not served: {', '.join(not_served())}."])


def main() -> int:
    print(table())
    return 0


if __name__ == "__main__":
    sys.exit(main())
