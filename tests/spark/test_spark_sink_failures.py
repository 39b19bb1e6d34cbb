"""The exactly-once sink under each kind of failure of tasks, the driver and brokers."""

from __future__ import annotations

import threading
import time

import pyarrow as pa
import pytest

pytest.importorskip("pyspark", reason="the sink of Spark needs pyspark: pip install ottla[spark]")

from ottla.client import SyncTransactions, read_arrow, write_arrow
from ottla.client.core import transaction_api
from ottla.client.errors import BrokerError, RequestTimeoutError
from ottla.protocol.errors import ErrorCode
from ottla.testing import Cluster
from pyspark_ottla.sink import writers
from pyspark_ottla.sink.exactly_once import batch_commit, commit_log
from pyspark_ottla.sink.exactly_once.batch_commit import CheckpointBehindError, LostBatchError
from pyspark_ottla.sink.exactly_once.commit_log import MarkerWriter
from pyspark_ottla.sink.exactly_once.marker import Marker
from pyspark_ottla.sink.exactly_once.time_left import BatchExpiredError
from tests.support.spark.sink_harness import SCHEMA, KilledError, SinkHarness, rows

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module", params=["with time-outs", "two phases"])
def brokers(request):
    two_phases = request.param == "two phases"
    with Cluster(config={"transaction.two.phase.commit.enable": two_phases}) as cluster:
        cluster.has_two_phases = two_phases
        yield cluster


@pytest.fixture
def harness(brokers, monkeypatch):
    topic = f"out-{time.monotonic_ns()}"
    brokers.create_topic(topic, 3)
    return SinkHarness(brokers, topic, monkeypatch)


def kill_after(monkeypatch, owner, name: str, call: int = 1, *, before: bool = False) -> None:
    """Kill the driver right after (or before) the nth call of a method."""
    original = getattr(owner, name)
    calls = [0]

    def act(*arguments, **named):
        calls[0] += 1
        if before and calls[0] == call:
            raise KilledError(name)
        result = original(*arguments, **named)
        if not before and calls[0] == call:
            raise KilledError(name)
        return result

    monkeypatch.setattr(owner, name, act)


def test_consecutive_batches(harness):
    for batch in range(5):
        harness.batch(batch, range(batch * 10, batch * 10 + 10), parallelism=1 + batch % 3)
    harness.check(range(50))


def test_ids_are_reused_but_not_by_two_attempts(harness):
    names = []
    for batch in range(4):
        messages = harness.tasks(batch, range(batch * 6, batch * 6 + 6), parallelism=3)
        names.append({message.handle.transactional_id for message in messages})
        harness.commit(messages, batch)
    assert all(len(ids) == 3 for ids in names)
    assert not names[0] & names[1], "another driver may take those of the first batch for leftovers"
    assert names[1] == names[2] == names[3]
    harness.check(range(24))


def test_task_fails_after_prepare(harness):
    harness.task(0, 0, range(10))  # its executor dies: the driver gets no message
    messages = [harness.task(0, 0, range(10), attempt=1), harness.task(0, 1, range(10, 20))]
    harness.commit(messages, 0)
    harness.check(range(20))


def test_lost_speculative_attempt_is_aborted(harness):
    harness.batch(0, range(10))
    harness.task(1, 1, range(15, 20), attempt=1)  # slower than attempt 0: the driver gets no message
    harness.batch(1, range(10, 20))
    harness.check(range(20))  # no batch may follow for long, and readers must not wait
    harness.batch(2, range(20, 30))
    harness.check(range(30))


def test_task_that_fails_while_writing_aborts(harness):
    def broken():
        yield rows(range(10))[0]
        raise RuntimeError("the user's function failed")

    harness.task(0, 0, [])
    with pytest.raises(RuntimeError, match="user's function"):
        harness.writer().write(broken())
    assert harness.open_ids() == []
    harness.batch(0, range(10))
    harness.check(range(10))


def test_task_fails_four_times(harness):
    messages = [harness.task(0, 0, range(10)), None]
    harness.task(0, 1, range(10, 20), attempt=3)
    harness.writer().abort(messages, 0)
    harness.check([])
    harness.writer().abort([None, None], 0)
    harness.start()
    harness.batch(0, range(20))
    harness.check(range(20))


def test_commit_raises_before_the_marker(harness, monkeypatch):
    harness.batch(0, range(10))
    harness.batch(1, range(10, 20))
    messages = harness.tasks(2, range(20, 30))  # with the ids of the previous batch

    def fail(*_):
        raise RequestTimeoutError("no answer")

    with monkeypatch.context() as patched:
        patched.setattr(MarkerWriter, "append", fail)
        with pytest.raises(RequestTimeoutError):
            harness.commit(messages, 2)
    harness.check(range(20))
    harness.start()
    harness.batch(2, range(20, 30), parallelism=3)
    harness.check(range(30))


def test_commit_raises_after_the_marker(harness, monkeypatch):
    messages = harness.tasks(0, range(10))

    def fail(*_, **__):
        raise RequestTimeoutError("no answer")

    with monkeypatch.context() as patched:
        patched.setattr(batch_commit.BatchCommitter, "roll_forward", fail)
        with pytest.raises(RequestTimeoutError):
            harness.commit(messages, 0)
    assert len(harness.open_ids()) == 2, "abort saw that they are decided"
    harness.start()
    harness.batch(0, range(10), parallelism=3)
    harness.check(range(10))


def test_lost_response_to_a_marker(harness, monkeypatch):
    messages = harness.tasks(0, range(10))
    append = MarkerWriter.append

    def lose(self, marker):
        append(self, marker)
        self._writer = None
        raise RequestTimeoutError("no answer")

    with monkeypatch.context() as patched:
        patched.setattr(MarkerWriter, "append", lose)
        with pytest.raises(RequestTimeoutError):
            harness.commit(messages, 0)
    harness.start()
    harness.batch(0, range(10))
    harness.check(range(10))


def test_delayed_marker_is_refused_after_abort(harness, monkeypatch):
    """The marker is in flight during the abort, which must make the broker refuse it."""
    messages = harness.tasks(0, range(10))
    late = []

    def delay(self, marker):
        late.append((self._writer, marker))
        self._writer = None
        raise RequestTimeoutError("no answer")

    with monkeypatch.context() as patched:
        patched.setattr(MarkerWriter, "append", delay)
        with pytest.raises(RequestTimeoutError):
            harness.commit(messages, 0)
    writer, marker = late[0]
    row = {
        "key": [harness.query.encode()],
        "value": [marker.encode()],
        "partition": pa.array([0], pa.int32()),
    }
    writer.write(pa.record_batch(row))
    with pytest.raises(BrokerError, match="INVALID_PRODUCER_EPOCH"):
        writer.flush()
    writer.close()
    harness.start()
    harness.batch(0, range(10))
    harness.check(range(10))


@pytest.mark.parametrize(
    ("owner", "name", "call", "before"),
    [
        (MarkerWriter, "append", 1, True),
        (MarkerWriter, "append", 1, False),
        (SyncTransactions, "end", 1, False),
        (MarkerWriter, "append", 2, False),
    ],
    ids=["before the marker", "after the marker", "after the ends", "after it is done"],
)
@pytest.mark.parametrize("known", [True, False], ids=["later", "first"])
def test_the_driver_is_killed(harness, monkeypatch, owner, name, call, before, known):
    numbers = range(20, 30) if known else range(10)
    batch = 2 if known else 0
    if known:
        harness.batch(0, range(10))
        harness.batch(1, range(10, 20))
    messages = harness.tasks(batch, numbers)
    with monkeypatch.context() as patched:
        kill_after(patched, owner, name, call, before=before)
        with pytest.raises(KilledError):
            harness.commit(messages, batch)
    harness.start()
    harness.batch(batch, numbers, parallelism=5)
    harness.batch(batch + 1, range(30, 40))
    harness.check([*range(30 if known else 10), *range(30, 40)])


def test_brokers_without_transactions_v2(harness, monkeypatch):
    monkeypatch.setattr(transaction_api, "SECOND_VERSION", 3)
    harness.batch(0, range(10))
    harness.task(1, 0, range(10, 15))
    messages = [harness.task(1, 0, range(10, 15), attempt=1), harness.task(1, 1, range(15, 20))]
    with monkeypatch.context() as patched:
        kill_after(patched, MarkerWriter, "append", 1)
        with pytest.raises(KilledError):
            harness.commit(messages, 1)
    harness.start()
    harness.batch(1, range(10, 20), parallelism=3)
    harness.batch(2, range(20, 30))
    harness.check(range(30))


def test_first_task_rolls_the_marker_forward(harness, monkeypatch):
    with monkeypatch.context() as patched:
        kill_after(patched, MarkerWriter, "append", 1)
        with pytest.raises(KilledError):
            harness.batch(0, range(10))
    assert len(harness.open_ids()) == 2
    harness.start()
    message = harness.task(0, 0, range(10))
    assert message.handle is None and message.records == 0
    harness.check(range(10))
    harness.commit([message], 0)
    harness.batch(1, range(10, 20))
    harness.check(range(20))


def test_lost_response_to_end_txn(harness, monkeypatch):
    from ottla.client.blocking.connection import SyncConnection
    from ottla.protocol.messages.end_txn_response import EndTxnResponse

    receive = SyncConnection.receive
    lost = []

    def lose(self, response, memory=None):
        answer = receive(self, response, memory)
        if response is EndTxnResponse and len(lost) < 3:
            lost.append(answer)
            self.close()
            raise RequestTimeoutError("no answer")
        return answer

    monkeypatch.setattr(SyncConnection, "receive", lose)
    harness.batch(0, range(10))
    assert len(lost) == 3
    harness.batch(1, range(10, 20))
    harness.check(range(20))


def test_stale_driver_is_fenced(harness):
    harness.batch(0, range(10))
    messages = harness.tasks(1, range(10, 20))
    older = dict(commit_log._marker_writers)
    # A second driver starts, repeats the batch and continues, while the first is only slow.
    harness.start()
    harness.batch(1, range(10, 20), parallelism=3)
    ahead = harness.tasks(2, range(20, 30))
    committers = commit_log._marker_writers
    newer = dict(committers)
    committers.clear()
    committers.update(older)
    harness.writer().commit(messages, 1)
    committers.clear()
    committers.update(newer)
    harness.commit(ahead, 2)
    harness.check(range(30))


def test_abort_in_another_process_fences_a_marker_in_flight(harness, monkeypatch):
    """Spark may abort in another process than the one that tried to commit."""
    harness.batch(0, range(10))
    committers = commit_log._marker_writers
    first = dict(committers)
    messages = harness.tasks(1, range(10, 20))
    committers.clear()
    late = []

    def delay(self, marker):
        late.append((self._writer, marker))
        raise KilledError("append")

    with monkeypatch.context() as patched:
        patched.setattr(MarkerWriter, "append", delay)
        with pytest.raises(KilledError):
            harness.commit(messages, 1)
    committers.clear()
    committers.update(first)
    harness.writer().abort(messages, 1)
    writer, marker = late[0]
    row = {
        "key": [harness.query.encode()],
        "value": [marker.encode()],
        "partition": pa.array([0], pa.int32()),
    }
    writer.write(pa.record_batch(row))
    with pytest.raises(BrokerError, match="INVALID_PRODUCER_EPOCH"):
        writer.flush()
    writer.close()
    harness.start()
    harness.batch(1, range(10, 20))
    harness.check(range(20))


def test_slow_driver_does_not_abort_newer_transactions(harness, monkeypatch):
    """Between its marker and its clean-up another driver has started the next batch."""
    harness.batch(0, range(10))
    committers = commit_log._marker_writers
    older, messages = dict(committers), harness.tasks(1, range(10, 20))
    harness.start()
    again = harness.tasks(1, range(10, 20))
    newer = dict(committers)
    clear_up = batch_commit.BatchCommitter._abort_leftovers
    ahead = []

    def stall(self, names, markers):
        monkeypatch.setattr(batch_commit.BatchCommitter, "_abort_leftovers", clear_up)
        assert len(names) == 2, "those of the other driver, which has not decided"
        committers.clear()
        committers.update(newer)
        harness.writer().commit(again, 1)
        ahead.extend(harness.tasks(2, range(20, 30)))
        clear_up(self, names, markers)

    committers.clear()
    committers.update(older)
    monkeypatch.setattr(batch_commit.BatchCommitter, "_abort_leftovers", stall)
    harness.writer().commit(messages, 1)
    harness.commit(ahead, 2)
    harness.check(range(30))


def test_two_concurrent_drivers(harness):
    harness.batch(0, range(10))
    attempts = []
    for _ in range(3):
        harness.start()
        attempts.append(harness.tasks(1, range(10, 20)))
    harness.forget()
    failures = []

    def commit(messages):
        try:
            committer = batch_commit.BatchCommitter(harness.writer()._options)
            options = committer.options
            log = batch_commit.marker_writer(options.cluster, options.commit_topic, "x").log
            markers = MarkerWriter(log, harness.query)
            committer._marker_writer = lambda key: markers
            committer.commit(writers.batch_attempt(messages))
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=commit, args=(messages,)) for messages in attempts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(isinstance(error, batch_commit.FencedError) for error in failures)
    harness.start()
    harness.batch(1, range(10, 20))
    harness.batch(2, range(20, 30))
    harness.check(range(30))


def test_transaction_lost_after_the_marker_stops_the_query(brokers, harness, monkeypatch):
    harness.options["kafka.transaction.timeout.ms"] = "600"
    messages = harness.tasks(0, range(10))
    with monkeypatch.context() as patched:
        kill_after(patched, MarkerWriter, "append", 1)
        with pytest.raises(KilledError):
            harness.commit(messages, 0)
    deadline = time.monotonic() + (1.5 if brokers.has_two_phases else 30)
    while len(harness.open_ids()) == 2 and time.monotonic() < deadline:
        time.sleep(0.1)
    time.sleep(0.3)
    harness.options["kafka.transaction.timeout.ms"] = "60000"
    harness.start()
    if brokers.has_two_phases:
        harness.batch(0, range(10))
        harness.check(range(10))
        return
    for _ in range(2):  # and fails again after a restart
        harness.start()
        with pytest.raises(LostBatchError, match=r"batch 0 .*cannot be committed.*acceptLostBatch to 0"):
            harness.task(0, 0, range(10))
        other = harness.task(0, 1, range(10))  # only the first task of a process reads the marker
        with pytest.raises(LostBatchError):
            harness.commit([other], 0)
    harness.options["acceptlostbatch"] = "0"
    harness.start()
    harness.batch(0, range(10))
    harness.batch(1, range(10, 20))
    harness.check(range(10, 20))


def test_empty_batches_make_no_requests(harness, monkeypatch):
    harness.commit([], 0)
    harness.commit(harness.tasks(1, range(0)), 1)
    harness.batch(2, range(10))
    asked = []
    monkeypatch.setattr(MarkerWriter, "append", lambda *_: asked.append(1))
    monkeypatch.setattr(SyncTransactions, "init", lambda *_: asked.append(2))
    harness.commit(harness.tasks(3, range(0)), 3)
    assert not asked
    harness.check(range(10))


def test_checkpoint_behind_the_output(harness):
    harness.batch(0, range(10))
    harness.batch(1, range(10, 20))
    harness.start()
    with pytest.raises(CheckpointBehindError, match=r"batch 0.*batch 1 is committed.*older"):
        harness.task(0, 0, range(10))
    harness.forget()
    # After a tombstone, as in the error message, the query writes again.
    table = pa.table({"key": [harness.query.encode()], "value": pa.array([None], pa.binary())})
    write_arrow(table, harness.options["committopic"], bootstrap_servers=harness.servers)
    harness.batch(0, range(10))
    harness.check(sorted([*range(20), *range(10)]))


def test_queries_share_the_commit_topic(brokers, harness, monkeypatch):
    other = SinkHarness(brokers, harness.topic, monkeypatch, commitTopic=harness.options["committopic"])
    stages = [harness, other]
    for batch in range(3):
        for number, one in enumerate(stages):
            monkeypatch.setattr(writers, "stream_task_id", lambda one=one: one.task_id)
            first = batch * 20 + number * 10
            one.batch(batch, range(first, first + 10))
    harness.check(range(60))
    assert other.open_ids() == []


def test_marker_round_trip(harness):
    harness.batch(0, range(10))
    log = batch_commit.CommitLog(batch_commit.shared_cluster(harness.servers), harness.options["committopic"])
    marker = log.last(harness.query)
    assert marker is not None and marker.done and marker.batch == 0 and len(marker.winners) == 2
    assert Marker.decode(marker.encode()) == marker
    assert log.last("another") is None
    with pytest.raises(ValueError, match="newer version"):
        Marker.decode(b'{"format":2}')


def test_marker_is_found_among_thousands(harness):
    harness.batch(0, range(10))
    count = 6000
    table = pa.table(
        {"key": [b"other-%d" % (number % 50) for number in range(count)], "value": [b"{}"] * count}
    )
    write_arrow(table, harness.options["committopic"], bootstrap_servers=harness.servers)
    harness.start()
    assert harness.task(0, 0, range(10)).handle is None
    harness.batch(1, range(10, 20))
    harness.check(range(20))


class TestBatchJobs:
    def job(self, harness, **options: str):
        given = {**harness.options, **{name.lower(): value for name, value in options.items()}}
        return writers.OttlaWriter(given, SCHEMA, overwrite=False)

    def test_all_or_nothing(self, harness):
        job = self.job(harness)
        messages = [job.write(iter(rows(range(10)))), job.write(iter(rows(range(10, 20))))]
        job.write(iter(rows(range(10))))  # an attempt without a message to the driver
        harness.check_prefix = f"ottla-spark/{job._key}/"
        job.commit(messages)
        harness.check(range(20))
        assert (
            SyncTransactions(batch_commit.shared_cluster(harness.servers)).open_ids(harness.check_prefix)
            == []
        )

        again = self.job(harness)
        messages = [again.write(iter(rows(range(20, 30)))), None]
        assert not messages[0].handle.waits, "nobody would end it if the driver died"
        again.abort(messages)
        harness.check(range(20))

    def test_writes_with_app_id_are_idempotent(self, harness):
        for version in (3, 4, 4, 3):
            job = self.job(harness, txnAppId="load", txnVersion=str(version))
            messages = [job.write(iter(rows(range(version * 10, version * 10 + 10))))]
            job.commit(messages)
        harness.check(range(30, 50))

    def test_writes_with_app_id_survive_a_driver_crash(self, harness, monkeypatch):
        job = self.job(harness, txnAppId="load", txnVersion="0")
        messages = [job.write(iter(rows(range(10))))]
        with monkeypatch.context() as patched:
            kill_after(patched, MarkerWriter, "append", 1)
            with pytest.raises(KilledError):
                job.commit(messages)
        harness.forget()
        job = self.job(harness, txnAppId="load", txnVersion="0")
        job.commit([job.write(iter(rows(range(10))))])
        harness.check(range(10))

    def test_refused_commit_raises(self, harness, monkeypatch):
        job = self.job(harness)
        messages = [job.write(iter(rows(range(10))))]
        SyncTransactions(batch_commit.shared_cluster(harness.servers)).fence(
            messages[0].handle.transactional_id
        )
        with pytest.raises(BatchExpiredError, match="1 of its 1"):
            job.commit(messages)
        # And if it is aborted between the check and the commit:
        monkeypatch.setattr(batch_commit, "check_time_left", lambda *_: None)
        with pytest.raises(LostBatchError, match="1 of 1"):
            job.commit(messages)


def test_dead_letters_are_part_of_the_transaction(brokers, harness):
    letters = f"{harness.topic}-letters"
    brokers.create_topic(letters, 1)
    harness.options |= {"deadlettertopic": letters, "kafka.max.request.size": "1000"}
    large = pa.record_batch({"key": [b"1", b"2"], "value": [b"1", b"2" * 2000]})
    harness.task(0, 0, [])
    message = harness.writer().write(iter([large]))
    assert message.dead_letters == 1
    harness.writer().abort([message], 0)
    harness.start()
    harness.task(0, 0, [])
    message = harness.writer().write(iter([large]))
    harness.commit([message], 0)
    harness.check([1])
    (letter,) = read_arrow(letters, bootstrap_servers=harness.servers).read_all().to_pylist()
    headers = {header["key"]: header["value"].decode() for header in letter["headers"]}
    assert letter["key"] == b"2"
    assert headers["topic"] == harness.topic
    assert headers["reason"].startswith(ErrorCode.MESSAGE_TOO_LARGE.name)
    del harness.options["deadlettertopic"]
    harness.start()
    harness.task(1, 0, [])
    with pytest.raises(BrokerError, match="key b'2'"):
        harness.writer().write(iter([large]))
    harness.check([1])
