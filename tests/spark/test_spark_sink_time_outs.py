"""The exactly-once sink when transactions time out, and when attempts leave transactions behind."""

from __future__ import annotations

import time

import pytest

pytest.importorskip("pyspark", reason="the sink of Spark needs pyspark: pip install ottla[spark]")

from ottla.client import SyncTransactions, shared_cluster
from ottla.client.errors import RequestTimeoutError, UnsupportedApiError
from ottla.testing import Cluster
from pyspark_ottla.sink import writers
from pyspark_ottla.sink.exactly_once import batch_commit, commit_log, time_left
from pyspark_ottla.sink.exactly_once.commit_log import CommitLog
from pyspark_ottla.sink.exactly_once.marker import Marker
from pyspark_ottla.sink.exactly_once.time_left import BatchExpiredError
from tests.support.spark.sink_harness import SCHEMA, SinkHarness, rows
from tests.support.waiting import wait_until

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module", params=["with time-outs", "two phases"])
def brokers(request):
    two_phases = request.param == "two phases"
    with Cluster(in_process=True, config={"transaction.two.phase.commit.enable": two_phases}) as cluster:
        cluster.has_two_phases = two_phases
        yield cluster


@pytest.fixture
def harness(brokers, monkeypatch):
    topic = f"out-{time.monotonic_ns()}"
    brokers.create_topic(topic, 3)
    return SinkHarness(brokers, topic, monkeypatch)


def last_marker(harness):
    return CommitLog(shared_cluster(harness.servers), harness.options["committopic"]).last(harness.query)


def test_batch_that_outlasts_the_first_transaction_is_redone(brokers, harness):
    """No process dies: the other tasks of the batch take longer than the time-out."""
    harness.batch(0, range(10))
    harness.options["kafka.transaction.timeout.ms"] = "300"
    messages = [harness.task(1, 0, range(10, 15))]
    if not brokers.has_two_phases:
        wait_until(lambda: harness.open_ids() == [], harness.open_ids, 30)
    harness.options["kafka.transaction.timeout.ms"] = "60000"
    messages.append(harness.task(1, 1, range(15, 20)))
    if brokers.has_two_phases:
        harness.commit(messages, 1)
        harness.check(range(20))
        return
    with pytest.raises(BatchExpiredError, match=r"batch 1 .*1 of its 2 .*transaction\.timeout\.ms"):
        harness.commit(messages, 1)
    assert last_marker(harness).batch == 0, "the batch is not decided"
    harness.check(range(10))
    harness.start()
    harness.batch(1, range(10, 20))
    harness.check(range(20))


def test_transactions_that_are_about_to_time_out_do_not_decide_a_batch(brokers, harness, monkeypatch):
    harness.options["kafka.transaction.timeout.ms"] = "60000"
    messages = harness.tasks(0, range(10))
    now_ms = time_left.now_ms
    monkeypatch.setattr(time_left, "now_ms", lambda: now_ms() + 50_000)
    if brokers.has_two_phases:
        harness.commit(messages, 0)
        harness.check(range(10))
        return
    with pytest.raises(BatchExpiredError, match="has a time-out of 60000 ms"):
        harness.commit(messages, 0)
    harness.check([])
    monkeypatch.undo()


def test_brokers_without_descriptions_of_transactions(harness, monkeypatch):
    """Apache Kafka before 3.0: the sink cannot look, and continues as it did."""

    def refuse(*_):
        raise UnsupportedApiError("no DescribeTransactions")

    monkeypatch.setattr(SyncTransactions, "describe", refuse)
    harness.batch(0, range(10))
    harness.batch(1, range(10, 20))
    harness.check(range(20))


def test_batch_job_that_outlasts_its_first_task_writes_nothing(harness):
    """Transactions of a job without a name have a time-out with two-phase commit too."""
    options = {**harness.options, "kafka.transaction.timeout.ms": "300"}
    job = writers.OttlaWriter(options, SCHEMA, overwrite=False)
    transactions = SyncTransactions(shared_cluster(harness.servers))
    messages = [job.write(iter(rows(range(10))))]
    prefix = f"ottla-spark/{job._key}/"
    wait_until(lambda: transactions.open_ids(prefix) == [], transactions.open_ids, 30)
    job._options.transaction_timeout_ms = 60_000
    messages.append(job.write(iter(rows(range(10, 20)))))
    with pytest.raises(BatchExpiredError, match=r"1 of its 2"):
        job.commit(messages)
    job.abort(messages)
    assert transactions.open_ids(prefix) == []
    harness.check([])


def test_attempt_that_outlives_its_batch_is_aborted_by_an_empty_one(harness, monkeypatch):
    """A stateful query runs batches without rows while its input is idle."""
    harness.batch(0, range(10))
    harness.batch(1, range(10, 20))
    harness.task(1, 0, range(10, 15), attempt=1)  # it was still running when the batch was committed
    harness.commit(harness.tasks(2, range(0)), 2)
    assert len(harness.open_ids()) == 1, "the driver looks at most every ten seconds"
    monkeypatch.setattr(batch_commit, "SWEEP_INTERVAL_S", 0.0)
    harness.commit(harness.tasks(3, range(0)), 3)
    harness.check(range(20))


def test_failed_sweep_is_repeated_by_the_next_batch_although_it_is_empty(harness, monkeypatch):
    harness.batch(0, range(10))
    harness.task(1, 1, range(15, 20), attempt=1)

    def fail(*_, **__):
        raise RequestTimeoutError("no answer")

    for name in ("fence", "open_ids"):
        with monkeypatch.context() as patched:
            patched.setattr(SyncTransactions, name, fail)
            harness.batch(1 if name == "fence" else 2, range(10, 20) if name == "fence" else range(20, 30))
        assert len(harness.open_ids()) == 1
    harness.commit(harness.tasks(3, range(0)), 3)
    harness.check(range(30))


def test_driver_that_was_fenced_aborts_nothing_in_an_empty_batch(harness, monkeypatch):
    harness.batch(0, range(10))
    older = dict(commit_log._marker_writers)
    empty = harness.tasks(1, range(0))
    harness.start()
    harness.batch(1, range(10, 20))
    ahead = harness.tasks(2, range(20, 30))
    newer = dict(commit_log._marker_writers)
    commit_log._marker_writers.clear()
    commit_log._marker_writers.update(older)
    monkeypatch.setattr(batch_commit, "SWEEP_INTERVAL_S", 0.0)
    harness.writer().commit(empty, 1)
    commit_log._marker_writers.clear()
    commit_log._marker_writers.update(newer)
    harness.commit(ahead, 2)
    harness.check(range(30))


def test_late_abort_of_a_leftover_does_not_hit_a_later_batch(harness, monkeypatch):
    harness.batch(0, range(10))
    harness.batch(1, range(10, 20))
    harness.task(2, 0, range(20, 25))  # the driver gets no message, but the worker lives on
    messages = [harness.task(2, 0, range(20, 25), attempt=1), harness.task(2, 1, range(25, 30), attempt=1)]
    late = []

    def delay(self, name):
        late.append(name)
        raise RequestTimeoutError("no answer")

    with monkeypatch.context() as patched:
        patched.setattr(SyncTransactions, "fence", delay)
        harness.commit(messages, 2)
    assert len(late) == 1
    messages = harness.tasks(3, range(30, 40), parallelism=3)
    SyncTransactions(shared_cluster(harness.servers)).fence(late[0])
    harness.commit(messages, 3)
    harness.check(range(40))


def test_driver_whose_transactions_another_one_aborted_does_not_decide(harness):
    """The other driver had only a batch without rows, and left no marker."""
    harness.batch(0, range(10))
    older = dict(commit_log._marker_writers)
    messages = harness.tasks(1, range(10, 20))
    harness.start()
    harness.commit(harness.tasks(1, range(0)), 1)
    commit_log._marker_writers.clear()
    commit_log._marker_writers.update(older)
    with pytest.raises(BatchExpiredError, match="no longer open"):
        harness.commit(messages, 1)
    harness.start()
    harness.batch(1, range(10, 20))
    harness.check(range(20))


def test_driver_with_a_new_producer_id_fences_those_with_the_old_one(harness, monkeypatch):
    """As after 32766 epochs, when the coordinator changes the producer id of the commit producer."""
    init = SyncTransactions.init
    harness.batch(0, range(10))
    older = dict(commit_log._marker_writers)
    messages = harness.tasks(1, range(10, 20))
    monkeypatch.setattr(
        SyncTransactions,
        "init",
        lambda self, name, *timeout: init(self, f"{name}/next" if "-commit/" in name else name, *timeout),
    )
    (stale,) = older.values()
    for _ in range(2):
        harness.start()
        (newest,) = [commit_log.marker_writer(key[0], key[1], harness.query) for key in older]
        newest.marker()
        stale._marker = None
        with pytest.raises(commit_log.FencedError):
            stale.append(Marker(7, ()))
        assert last_marker(harness).batch == 0
        stale._writer = stale._new_writer(stale._producer)
    commit_log._marker_writers.clear()
    commit_log._marker_writers.update(older)
    harness.commit(messages, 1)  # it fences first, and takes over again
    harness.check(range(20))
