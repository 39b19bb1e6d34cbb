"""The identity of a task."""

from __future__ import annotations

from typing import NamedTuple


class TaskId(NamedTuple):
    """An attempt of a task of a batch. `key` identifies the query, `run` one start of it."""

    key: str
    run: str
    batch: int
    partition: int = 0
    attempt: int = 0
