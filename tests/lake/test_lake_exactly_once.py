"""Exactly-once writes: each kind of failure in Spark, followed by a repeated batch."""

from __future__ import annotations

import glob
import os
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from deltalake.exceptions import CommitFailedError

from pyspark_ottla.checkpoints import CheckpointBehindError
from pyspark_ottla.task_context import SparkTask
from pyspark_ottla_lake import commit, writers


def numbers(first: int, count: int) -> list[dict]:
    return [{"id": number} for number in range(first, first + count)]


def files_on_disk(query) -> set[str]:
    found = glob.glob(os.path.join(query.path, "**", "*.parquet"), recursive=True)
    return {os.path.relpath(path, query.path) for path in found if "_delta_log" not in path}


def files_in_table(query) -> set[str]:
    return {os.path.relpath(path, query.path) for path in query.table().file_uris()}


def vacuum(query) -> list[str]:
    return query.table().vacuum(0, dry_run=False, enforce_retention_duration=False, full=True)


@pytest.fixture(autouse=True)
def fresh_process(monkeypatch):
    """Clear the per-process cache of committed batches."""
    monkeypatch.setattr(writers, "_committed", {})


class Died(Exception):
    """Stands for the death of the driver."""


@pytest.fixture
def die(monkeypatch):
    """die(before=True): the driver dies in the next commit, just before or just after the commit point."""

    def arrange(*, before: bool, error: Exception | None = None) -> None:
        real = commit._write_transaction

        def act(*arguments) -> None:
            monkeypatch.setattr(commit, "_write_transaction", real)
            if not before:
                real(*arguments)
            raise error or Died

        monkeypatch.setattr(commit, "_write_transaction", act)

    return arrange


def test_repeated_task_counts_once(lake):
    query = lake("id long")
    winner = query.task(0, numbers(0, 5))
    query.task(0, numbers(0, 5))
    other = query.task(0, numbers(5, 5), partition=1)
    query.writer().commit([winner, other], 0)
    assert query.column("id") == list(range(10))
    # Spark does not clean up after the losing attempt: a vacuum removes its files, and nothing else.
    orphans = files_on_disk(query) - files_in_table(query)
    assert len(orphans) == 1
    assert set(vacuum(query)) == orphans
    assert query.column("id") == list(range(10))


def test_failed_task_removes_its_files(lake, monkeypatch):
    query = lake("id long, k int")
    query.options |= {"partitionBy": "k", "targetFileSize": "1k"}
    identity = SparkTask("q-1", 0, "run", 0)
    monkeypatch.setattr(writers, "current_task", lambda: identity)

    def batches():
        for first in range(0, 1000, 100):
            yield query.arrow([{"id": first + number, "k": number % 3} for number in range(100)])
        assert files_on_disk(query)
        raise Died

    with pytest.raises(Died):
        query.writer().write(batches())
    assert not files_on_disk(query)


def test_failed_batch_is_repeated(lake):
    query = lake("id long")
    message = query.task(0, numbers(0, 5))
    query.writer().abort([message, None], 0)
    assert not files_on_disk(query)
    query.restart()
    query.run(0, numbers(0, 5), numbers(5, 5))
    assert query.column("id") == list(range(10))


@pytest.mark.parametrize("before", [True, False], ids=["before the commit point", "after it"])
def test_commit_raises_and_is_aborted(lake, die, before):
    query = lake("id long")
    query.run(0, numbers(0, 3))
    messages = query.tasks(1, [numbers(3, 3), numbers(6, 3)])
    die(before=before)
    with pytest.raises(Died):
        query.writer().commit(messages, 1)
    query.writer().abort(messages, 1)
    assert query.column("id") == list(range(3 if before else 9))
    query.restart()
    # The same batch with other tasks and another distribution of rows.
    query.run(1, numbers(3, 1), numbers(4, 1), numbers(5, 4))
    query.run(2, numbers(9, 1))
    assert query.column("id") == list(range(10))


def test_checkpoint_behind_the_table(lake, monkeypatch):
    """The checkpoint was restored from a copy: Spark runs batches again that are not the last one."""
    query = lake("id long")
    for batch in range(3):
        query.run(batch, numbers(batch * 3, 3))
    query.restart()
    with pytest.raises(CheckpointBehindError, match=r"batch 1.*batch 2 is committed.*older.*new checkpoint"):
        query.task(1, numbers(3, 3))
    # On executors without deltalake the driver detects it.
    monkeypatch.setattr(writers, "_newest_committed", lambda *_: None)
    query.restart()
    messages = query.tasks(1, [numbers(3, 3)])
    with pytest.raises(CheckpointBehindError, match=r"batch 1.*batch 2 is committed"):
        query.writer().commit(messages, 1)
    # The last batch may be repeated.
    query.run(2, numbers(6, 3))
    query.run(3, numbers(9, 1))
    assert query.column("id") == list(range(10))


def test_empty_batches_of_a_checkpoint_behind_the_table(lake):
    query = lake("id long")
    for batch in range(3):
        query.run(batch, numbers(batch * 3, 3))
    query.restart()
    with pytest.raises(CheckpointBehindError):
        query.run(1, [])


def test_repeated_batch_after_its_commit_is_skipped(lake):
    query = lake("id long")
    query.run(0, numbers(0, 3))
    version = query.table().version()
    query.restart()
    messages = query.tasks(0, [numbers(0, 3)])
    assert messages[0].skipped
    query.writer().commit(messages, 0)
    assert files_on_disk(query) == files_in_table(query)
    assert query.table().version() == version
    query.run(1, numbers(3, 3))
    assert query.column("id") == list(range(6))


def test_commit_that_succeeds_but_raises(lake, die):
    query = lake("id long")
    query.run(0, numbers(0, 3))
    die(before=False, error=CommitFailedError("the answer was lost"))
    query.run(1, numbers(3, 3))
    assert query.column("id") == list(range(6))
    assert query.table().transaction_version("q-1") == 1


def test_stale_driver_commits_nothing(lake):
    query = lake("id long")
    query.run(0, numbers(0, 3))
    late = query.tasks(1, [numbers(3, 3)])
    zombie = query.writer()
    query.restart()
    query.run(1, numbers(3, 3))
    query.run(2, numbers(6, 3))
    with pytest.raises(CheckpointBehindError):
        zombie.commit(late, 1)
    zombie.abort(late, 1)
    assert query.column("id") == list(range(9))


def test_two_concurrent_drivers(lake, monkeypatch):
    query = lake("id long")
    query.run(0, numbers(0, 3))
    first, second = query.tasks(1, [numbers(3, 3)]), query.tasks(1, [numbers(3, 3)])
    real = commit._write_transaction

    def let_the_other_go_first(*arguments) -> None:
        monkeypatch.setattr(commit, "_write_transaction", real)
        query.writer().commit(first, 1)
        real(*arguments)

    monkeypatch.setattr(commit, "_write_transaction", let_the_other_go_first)
    query.writer().commit(second, 1)
    assert query.column("id") == list(range(6))


def test_restored_table_is_detected(lake):
    query = lake("id long")
    query.run(0, numbers(0, 3))
    query.restart()
    messages = query.tasks(0, [numbers(0, 3)])
    os.rename(query.path, query.path + ".away")
    with pytest.raises(RuntimeError, match=r"had batch 0 of this query .* no longer has it"):
        query.writer().commit(messages, 0)


def test_concurrent_writers_of_one_table(lake):
    """Four queries create a table and add columns concurrently: no row is lost."""
    schemas = ["id long", "id long, a int", "id long, b string", "id long, a int, c struct<x: int>"]
    queries = [lake(schema, f"q-{place}") for place, schema in enumerate(schemas)]
    batches = 8

    def run(place: int) -> None:
        query = queries[place]
        for batch in range(batches):
            rows = [{"id": place * 1000 + batch}]
            identity = SparkTask(query.query_id, batch, "run", 0)
            message = query.writer()._task.write(iter([query.arrow(rows)]), identity)
            query.writer().commit([message], batch)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(run, range(4)))
    assert queries[0].column("id") == sorted(
        place * 1000 + batch for place in range(4) for batch in range(batches)
    )
    assert [queries[0].table().transaction_version(f"q-{place}") for place in range(4)] == [batches - 1] * 4


def test_compaction_while_a_stream_writes(lake):
    query = lake("id long")
    for batch in range(6):
        query.run(batch, numbers(batch, 1))
        if batch % 2:
            query.table().optimize.compact()
    assert query.column("id") == list(range(6))
    query.restart()
    query.run(5, numbers(5, 1))
    assert query.column("id") == list(range(6))


def test_transaction_ids_survive_log_checkpoints(lake):
    """After many small batches the log has checkpoints, which keep the transaction ids."""
    query = lake("id long")
    for batch in range(12):
        query.run(batch, numbers(batch, 1))
    query.table().create_checkpoint()
    for path in glob.glob(os.path.join(query.path, "_delta_log", "*.json"))[:]:
        if int(os.path.basename(path)[:20]) < 10:
            os.remove(path)
    query.restart()
    messages = query.tasks(11, [numbers(11, 1)])
    assert messages[0].skipped
    assert query.column("id") == list(range(12))


def test_recent_files_survive_a_vacuum(lake):
    """A batch in flight has files that are not in the log yet."""
    query = lake("id long")
    query.run(0, numbers(0, 1))
    messages = query.tasks(1, [numbers(1, 1)])
    orphan = os.path.join(query.path, "part-old.parquet")
    with open(orphan, "wb") as file:
        file.write(b"old")
    ten_days_ago = time.time() - 10 * 86400
    os.utime(orphan, (ten_days_ago, ten_days_ago))
    assert query.table().vacuum(dry_run=False, full=True) == ["part-old.parquet"]
    query.writer().commit(messages, 1)
    assert query.column("id") == [0, 1]
