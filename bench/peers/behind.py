"""The figures in which Ottla is behind, with the reasons."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from bench.figures import rounded
from bench.peers.contest import Entry
from bench.peers.reasons import REASONS, Reason, reason_of
from bench.peers.table import standing

UNKNOWN = Reason("", "", "The reason is not known yet.")


def behind(entries: Sequence[Entry], reasons: Sequence[Reason] = REASONS) -> Iterator[str]:
    """Return the figures, the largest deficit first, grouped by reason."""
    losses = [entry for entry in entries if standing(entry) == "behind" or entry.verdict == "BEHIND"]
    if not losses:
        compared = any(entry.advantage is not None for entry in entries)
        yield "Nothing.\n" if compared else "Unknown: only Ottla was measured.\n"
        return
    groups: dict[Reason, list[Entry]] = {}
    for entry in sorted(losses, key=lambda entry: entry.advantage or 0):
        reason = reason_of(entry.scenario, entry.figure, reasons) or UNKNOWN
        groups.setdefault(reason, []).append(entry)
    for reason, explained in groups.items():
        yield from [_line(entry) for entry in explained]
        yield f"\n{reason.why}\n"
        if reason.profile:
            yield f"```\n{reason.profile.strip()}\n```\n"


def _line(entry: Entry) -> str:
    goal = entry.measure.goal
    wanted = "" if goal is None else f", goal {goal:g} {'reached' if entry.verdict == 'ok' else '**missed**'}"
    return f"- {entry.scenario}, {entry.figure}: {rounded(entry.advantage or 0)} x{wanted}"
