"""The pipelines of a cluster, found by the committed offsets of their queries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ottla.client import Admin, PartitionLag
from ottla.pipeline.plan import parse_group


async def list_queries(admin: Admin) -> list[dict[str, Any]]:
    """Return one row per query, in the form of the JSON output."""
    groups = [row.group_id for row in await admin.list_groups([], [])]
    named = {group: found for group in groups if (found := parse_group(group)) is not None}
    if not named:
        return []
    lags = await admin.group_lags({group: {} for group in named})
    return [
        _row(group, pipeline, query, lags.get(group, []))
        for group, (pipeline, query) in sorted(named.items(), key=lambda item: item[1])
    ]


def _row(group: str, pipeline: str, query: str, lags: Sequence[PartitionLag]) -> dict[str, Any]:
    known = [row.lag for row in lags if row.lag >= 0]
    places = {row.metadata: None for row in lags if row.metadata}
    return {
        "pipeline": pipeline,
        "query": query,
        "group": group,
        "topics": sorted({row.topic for row in lags}),
        "lag": sum(known) if known else None,
        "where": ", ".join(places),
    }
