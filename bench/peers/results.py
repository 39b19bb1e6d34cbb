"""The results of runs: conditions and figures. Several runs can be combined."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import Any, NamedTuple

from bench.peers.contest import Entry


class Part(NamedTuple):
    """One run, with its conditions for each scenario."""

    conditions: dict[str, Any]
    entries: list[Entry]

    def without(self, scenarios: set[str]) -> Part:
        told = self.conditions["scenarios"]
        kept = {name: about for name, about in told.items() if name not in scenarios}
        entries = [entry for entry in self.entries if entry.scenario not in scenarios]
        return Part(self.conditions | {"scenarios": kept}, entries)


def merged(parts: Sequence[Part]) -> list[Part]:
    """Replace the figures of scenarios that were measured again; drop runs without figures."""
    found: list[Part] = []
    later: set[str] = set()
    for part in reversed(parts):
        rest = part.without(later)
        if rest.entries:
            found.insert(0, rest)
        later |= {entry.scenario for entry in part.entries}
    return found


def write_parts(path: str, parts: Sequence[Part]) -> None:
    """Write the file atomically: a run writes it after every scenario and may be interrupted."""
    os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
    rows = [{"conditions": part.conditions, "entries": [e.as_json() for e in part.entries]} for part in parts]
    with open(f"{path}.new", "w", encoding="utf-8") as file:
        json.dump({"parts": rows}, file, indent=1)
        file.write("\n")
    os.replace(f"{path}.new", path)


def read_parts(path: str) -> list[Part]:
    with open(path, encoding="utf-8") as file:
        rows = json.load(file)["parts"]
    return [Part(row["conditions"], [Entry.from_json(entry) for entry in row["entries"]]) for row in rows]
