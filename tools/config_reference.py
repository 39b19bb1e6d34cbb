"""Print the configuration reference as markdown, generated from the definitions in ottla.config.

`make docs-pages` writes it to docs/CONFIGURATION.md.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby

from ottla.config.reference import ReferenceRow, reference_rows

INTRODUCTION = """\
# Configuration reference

Ottla uses Kafka's property names. Broker properties are set in a properties file (`ottla serve --config
FILE`) or with `--set KEY=VALUE`; dynamic properties, topic properties and group properties can be changed in
a running cluster with AlterConfigs.

**Update**: *read-only* properties need a restart of the broker. *per-broker* properties can be changed for
one running broker, *cluster-wide* properties also for all brokers at once. Topic and group properties take
effect at once.

**Supported**: properties marked *ignored* are accepted, so that a properties file written for Kafka works,
but have no effect.
"""


def cell(text: str) -> str:
    return text.replace("|", "\\|")


def table(rows: Iterable[ReferenceRow], with_default_from: bool) -> Iterable[str]:
    titles = ["Name", "Type", "Default", "Valid values", "Update", "Supported", "Description"]
    if with_default_from:
        titles.insert(3, "Default from")
    yield "| " + " | ".join(titles) + " |"
    yield "| " + " | ".join("---" for _ in titles) + " |"
    for row in rows:
        cells = [
            f"`{row.name}`",
            row.type,
            row.default,
            row.valid,
            row.update,
            "yes" if row.supported else "ignored",
            row.description,
        ]
        if with_default_from:
            cells.insert(3, ", ".join(f"`{name}`" for name in row.default_from))
        yield "| " + " | ".join(cell(text) for text in cells) + " |"


def reference() -> str:
    lines = [INTRODUCTION, "## Broker properties", ""]
    for (level, section), rows in groupby(reference_rows(), key=lambda row: (row.level, row.section)):
        title = f"### {section}" if level == "broker" else f"## {level.capitalize()} properties"
        lines += [title, "", *table(rows, with_default_from=level != "broker"), ""]
    return "\n".join(lines)


if __name__ == "__main__":
    print(reference(), end="")
