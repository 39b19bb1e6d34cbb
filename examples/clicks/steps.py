"""Python code of the clicks pipeline: a row function and a stateful processor."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

TIMES_UNTIL_ALARM = 3


def split_page(row: dict[str, Any]) -> dict[str, Any] | None:
    """Split /shop/lamps/17 into section shop and item lamps/17; drop the start page."""
    if row["page"] == "/":
        return None
    _, section, item = row["page"].split("/", 2)  # any other form raises: a dead letter
    return {"visitor": row["visitor"], "section": section, "item": item}


class Impatient(StatefulProcessor):
    """Keeps each visitor's last page and how often it was requested in a row."""

    def init(self, handle: Any) -> None:
        self._last = handle.getValueState("last", "page STRING, times INT")

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:  # noqa: N802, N803
        page, times = self._last.get() if self._last.exists() else (None, 0)
        for row in sorted(rows, key=lambda each: each.clicked_at):
            times = times + 1 if row.page == page else 1
            page = row.page
            if times == TIMES_UNTIL_ALARM:
                yield Row(visitor=key[0], page=page, times=times)
        self._last.update((page, times))

    def close(self) -> None:
        """No resources to release."""
