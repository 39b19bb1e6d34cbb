"""The order of batches: Spark repeats at most the last batch of a query."""

from __future__ import annotations

from pyspark_ottla.checkpoints import CheckpointBehindError


def check_order(path: str, batch: int, newest: int) -> None:
    """Raise CheckpointBehindError for a batch before the last one in the table (-1: it has none)."""
    if batch < newest:
        raise CheckpointBehindError(
            f"table {path}: cannot write batch {batch} of this query, because batch {newest} is committed "
            "already: the checkpoint is older than the table, or another driver runs the query. Start with a "
            "new checkpoint, or restore the table to the version of that time"
        )
