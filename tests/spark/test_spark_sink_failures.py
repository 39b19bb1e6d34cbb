"""Each way in which Spark, its workers, its driver or the brokers fail the exactly-once sink, one by one."""

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
from tests.support.spark.sink_stage import SCHEMA, KilledError, Stage, rows

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module", params=["with time-outs", "two phases"])
def brokers(request):
    two_phases = request.param == "two phases"
    with Cluster(config={"transaction.two.phase.commit.enable": two_phases}) as cluster:
        cluster.has_two_phases = two_phases
        yield cluster


@pytest.fixture
def stage(brokers, monkeypatch):
    topic = f"out-{time.monotonic_ns()}"
    brokers.create_topic(topic, 3)
    return Stage(brokers, topic, monkeypatch)


def kill_after(monkeypatch, owner, name: str, call: int = 1, *, before: bool = False) -> None:
    """The driver dies right after (or before) the nth call of a method; the others are as ever."""
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


def test_batches_one_after_the_other(stage):
    for batch in range(5):
        stage.batch(batch, range(batch * 10, batch * 10 + 10), parallelism=1 + batch % 3)
    stage.check(range(50))


def test_ids_are_used_again_and_never_by_two_attempts(stage):
    names = []
    for batch in range(4):
        messages = stage.tasks(batch, range(batch * 6, batch * 6 + 6), parallelism=3)
        names.append({message.handle.transactional_id for message in messages})
        stage.commit(messages, batch)
    assert all(len(ids) == 3 for ids in names)
    assert not names[0] & names[1], "another driver may take those of the first batch for leftovers"
    assert names[1] == names[2] == names[3]
    stage.check(range(24))


def test_a_task_that_failed_after_preparing(stage):
    stage.task(0, 0, range(10))  # its executor dies: nobody hears of it
    messages = [stage.task(0, 0, range(10), attempt=1), stage.task(0, 1, range(10, 20))]
    stage.commit(messages, 0)
    stage.check(range(20))


def test_a_speculative_attempt_that_lost_is_found_in_time(stage, monkeypatch):
    stage.batch(0, range(10))
    stage.task(1, 1, range(15, 20), attempt=1)  # slower than attempt 0, and not told to the driver
    stage.batch(1, range(10, 20))
    assert len(stage.open_ids()) == 1
    monkeypatch.setattr(batch_commit, "SWEEP_INTERVAL_S", 0.0)
    stage.batch(2, range(20, 30))
    stage.check(range(30))


def test_a_task_that_fails_while_it_writes_aborts_by_itself(stage):
    def broken():
        yield rows(range(10))[0]
        raise RuntimeError("the user's function failed")

    stage.task(0, 0, [])
    with pytest.raises(RuntimeError, match="user's function"):
        stage.writer().write(broken())
    assert stage.open_ids() == []
    stage.batch(0, range(10))
    stage.check(range(10))


def test_a_task_that_failed_four_times(stage):
    messages = [stage.task(0, 0, range(10)), None]
    stage.task(0, 1, range(10, 20), attempt=3)
    stage.writer().abort(messages, 0)
    stage.check([])
    stage.writer().abort([None, None], 0)
    stage.start()
    stage.batch(0, range(20))
    stage.check(range(20))


def test_commit_raises_before_the_marker(stage, monkeypatch):
    stage.batch(0, range(10))
    stage.batch(1, range(10, 20))
    messages = stage.tasks(2, range(20, 30))  # under the ids of the batch before

    def fail(*_):
        raise RequestTimeoutError("no answer")

    with monkeypatch.context() as patched:
        patched.setattr(MarkerWriter, "append", fail)
        with pytest.raises(RequestTimeoutError):
            stage.commit(messages, 2)
    stage.check(range(20))
    stage.start()
    stage.batch(2, range(20, 30), parallelism=3)
    stage.check(range(30))


def test_commit_raises_after_the_marker_and_abort_leaves_it(stage, monkeypatch):
    messages = stage.tasks(0, range(10))

    def fail(*_, **__):
        raise RequestTimeoutError("no answer")

    with monkeypatch.context() as patched:
        patched.setattr(batch_commit.BatchCommitter, "roll_forward", fail)
        with pytest.raises(RequestTimeoutError):
            stage.commit(messages, 0)
    assert len(stage.open_ids()) == 2, "abort saw that they are decided"
    stage.start()
    stage.batch(0, range(10), parallelism=3)
    stage.check(range(10))


def test_a_marker_whose_answer_is_lost_counts(stage, monkeypatch):
    messages = stage.tasks(0, range(10))
    append = MarkerWriter.append

    def lose(self, marker):
        append(self, marker)
        self._writer = None
        raise RequestTimeoutError("no answer")

    with monkeypatch.context() as patched:
        patched.setattr(MarkerWriter, "append", lose)
        with pytest.raises(RequestTimeoutError):
            stage.commit(messages, 0)
    stage.start()
    stage.batch(0, range(10))
    stage.check(range(10))


def test_a_marker_that_comes_late_does_not(stage, monkeypatch):
    """It is still on its way when abort asks for it: abort must see to it that it is refused."""
    messages = stage.tasks(0, range(10))
    late = []

    def delay(self, marker):
        late.append((self._writer, marker))
        self._writer = None
        raise RequestTimeoutError("no answer")

    with monkeypatch.context() as patched:
        patched.setattr(MarkerWriter, "append", delay)
        with pytest.raises(RequestTimeoutError):
            stage.commit(messages, 0)
    writer, marker = late[0]
    row = {"key": [stage.query.encode()], "value": [marker.encode()], "partition": pa.array([0], pa.int32())}
    writer.write(pa.record_batch(row))
    with pytest.raises(BrokerError, match="INVALID_PRODUCER_EPOCH"):
        writer.flush()
    writer.close()
    stage.start()
    stage.batch(0, range(10))
    stage.check(range(10))


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
def test_the_driver_is_killed(stage, monkeypatch, owner, name, call, before, known):
    numbers = range(20, 30) if known else range(10)
    batch = 2 if known else 0
    if known:
        stage.batch(0, range(10))
        stage.batch(1, range(10, 20))
    messages = stage.tasks(batch, numbers)
    with monkeypatch.context() as patched:
        kill_after(patched, owner, name, call, before=before)
        with pytest.raises(KilledError):
            stage.commit(messages, batch)
    stage.start()
    stage.batch(batch, numbers, parallelism=5)
    stage.batch(batch + 1, range(30, 40))
    stage.check([*range(30 if known else 10), *range(30, 40)])


def test_brokers_with_the_first_version_of_the_protocol(stage, monkeypatch):
    monkeypatch.setattr(transaction_api, "SECOND_VERSION", 3)
    stage.batch(0, range(10))
    stage.task(1, 0, range(10, 15))
    messages = [stage.task(1, 0, range(10, 15), attempt=1), stage.task(1, 1, range(15, 20))]
    with monkeypatch.context() as patched:
        kill_after(patched, MarkerWriter, "append", 1)
        with pytest.raises(KilledError):
            stage.commit(messages, 1)
    stage.start()
    stage.batch(1, range(10, 20), parallelism=3)
    stage.batch(2, range(20, 30))
    stage.check(range(30))


def test_winners_are_rolled_forward_by_the_first_task(stage, monkeypatch):
    with monkeypatch.context() as patched:
        kill_after(patched, MarkerWriter, "append", 1)
        with pytest.raises(KilledError):
            stage.batch(0, range(10))
    assert len(stage.open_ids()) == 2
    stage.start()
    message = stage.task(0, 0, range(10))
    assert message.handle is None and message.records == 0
    stage.check(range(10))
    stage.commit([message], 0)
    stage.batch(1, range(10, 20))
    stage.check(range(20))


def test_the_answer_of_an_end_is_lost(stage, monkeypatch):
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
    stage.batch(0, range(10))
    assert len(lost) == 3
    stage.batch(1, range(10, 20))
    stage.check(range(20))


def test_an_older_driver_that_is_still_there_decides_nothing(stage):
    stage.batch(0, range(10))
    messages = stage.tasks(1, range(10, 20))
    older = dict(commit_log._marker_writers)
    # A second driver starts, does the batch again and goes on, while the first is only slow.
    stage.start()
    stage.batch(1, range(10, 20), parallelism=3)
    ahead = stage.tasks(2, range(20, 30))
    committers = commit_log._marker_writers
    newer = dict(committers)
    committers.clear()
    committers.update(older)
    stage.writer().commit(messages, 1)
    committers.clear()
    committers.update(newer)
    stage.commit(ahead, 2)
    stage.check(range(30))


def test_an_abort_in_another_process_stops_a_marker_that_is_on_its_way(stage, monkeypatch):
    """Spark has several processes for it: the one that aborts may know less than the one that committed."""
    stage.batch(0, range(10))
    committers = commit_log._marker_writers
    first = dict(committers)
    messages = stage.tasks(1, range(10, 20))
    committers.clear()
    late = []

    def delay(self, marker):
        late.append((self._writer, marker))
        raise KilledError("append")

    with monkeypatch.context() as patched:
        patched.setattr(MarkerWriter, "append", delay)
        with pytest.raises(KilledError):
            stage.commit(messages, 1)
    committers.clear()
    committers.update(first)
    stage.writer().abort(messages, 1)
    writer, marker = late[0]
    row = {"key": [stage.query.encode()], "value": [marker.encode()], "partition": pa.array([0], pa.int32())}
    writer.write(pa.record_batch(row))
    with pytest.raises(BrokerError, match="INVALID_PRODUCER_EPOCH"):
        writer.flush()
    writer.close()
    stage.start()
    stage.batch(1, range(10, 20))
    stage.check(range(20))


def test_a_slow_driver_clears_up_nothing_that_is_newer(stage, monkeypatch):
    """Between its decision and its clearing up another driver has gone on to the next batch."""
    stage.batch(0, range(10))
    committers = commit_log._marker_writers
    older, messages = dict(committers), stage.tasks(1, range(10, 20))
    stage.start()
    again = stage.tasks(1, range(10, 20))
    newer = dict(committers)
    clear_up = batch_commit.BatchCommitter._abort_leftovers
    ahead = []

    def stall(self, names):
        monkeypatch.setattr(batch_commit.BatchCommitter, "_abort_leftovers", clear_up)
        assert len(names) == 2, "those of the other driver, which has not decided"
        committers.clear()
        committers.update(newer)
        stage.writer().commit(again, 1)
        ahead.extend(stage.tasks(2, range(20, 30)))
        clear_up(self, names)

    committers.clear()
    committers.update(older)
    monkeypatch.setattr(batch_commit.BatchCommitter, "_abort_leftovers", stall)
    stage.writer().commit([*messages[:1], _retried(messages[1])], 1)
    stage.commit(ahead, 2)
    stage.check(range(30))


def _retried(message):
    """As if an attempt before it had failed, so that the driver looks for what that has left."""
    message.task = message.task._replace(attempt=1)
    return message


def test_two_drivers_at_once_decide_once(stage):
    stage.batch(0, range(10))
    attempts = []
    for _ in range(3):
        stage.start()
        attempts.append(stage.tasks(1, range(10, 20)))
    stage.forget()
    failures = []

    def commit(messages):
        try:
            committer = batch_commit.BatchCommitter(stage.writer()._options)
            options = committer.options
            log = batch_commit.marker_writer(options.cluster, options.commit_topic, "x").log
            markers = MarkerWriter(log, stage.query)
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
    stage.start()
    stage.batch(1, range(10, 20))
    stage.batch(2, range(20, 30))
    stage.check(range(30))


def test_a_transaction_that_is_gone_after_the_marker_stops_the_query(brokers, stage, monkeypatch):
    stage.options["kafka.transaction.timeout.ms"] = "600"
    messages = stage.tasks(0, range(10))
    with monkeypatch.context() as patched:
        kill_after(patched, MarkerWriter, "append", 1)
        with pytest.raises(KilledError):
            stage.commit(messages, 0)
    deadline = time.monotonic() + (1.5 if brokers.has_two_phases else 30)
    while len(stage.open_ids()) == 2 and time.monotonic() < deadline:
        time.sleep(0.1)
    time.sleep(0.3)
    stage.options["kafka.transaction.timeout.ms"] = "60000"
    stage.start()
    if brokers.has_two_phases:
        stage.batch(0, range(10))
        stage.check(range(10))
        return
    for _ in range(2):  # and does not start again either
        stage.start()
        with pytest.raises(LostBatchError, match=r"batch 0 .*cannot be committed.*acceptLostBatch to 0"):
            stage.task(0, 0, range(10))
        other = stage.task(0, 1, range(10))  # only the first looks
        with pytest.raises(LostBatchError):
            stage.commit([other], 0)
    stage.options["acceptlostbatch"] = "0"
    stage.start()
    stage.batch(0, range(10))
    stage.batch(1, range(10, 20))
    stage.check(range(10, 20))


def test_batches_without_rows_cost_nothing_and_say_nothing(stage, monkeypatch):
    stage.commit([], 0)
    stage.commit(stage.tasks(1, range(0)), 1)
    stage.batch(2, range(10))
    asked = []
    monkeypatch.setattr(MarkerWriter, "append", lambda *_: asked.append(1))
    monkeypatch.setattr(SyncTransactions, "init", lambda *_: asked.append(2))
    stage.commit(stage.tasks(3, range(0)), 3)
    assert not asked
    stage.check(range(10))


def test_a_checkpoint_from_before_is_noticed(stage):
    stage.batch(0, range(10))
    stage.batch(1, range(10, 20))
    stage.start()
    with pytest.raises(CheckpointBehindError, match=r"batch 0.*batch 1 is committed.*older"):
        stage.task(0, 0, range(10))
    stage.forget()
    # As the error says: forget the query, and it writes again.
    table = pa.table({"key": [stage.query.encode()], "value": pa.array([None], pa.binary())})
    write_arrow(table, stage.options["committopic"], bootstrap_servers=stage.servers)
    stage.batch(0, range(10))
    stage.check(sorted([*range(20), *range(10)]))


def test_queries_share_the_commit_topic(brokers, stage, monkeypatch):
    other = Stage(brokers, stage.topic, monkeypatch, commitTopic=stage.options["committopic"])
    stages = [stage, other]
    for batch in range(3):
        for number, one in enumerate(stages):
            monkeypatch.setattr(writers, "stream_task_id", lambda one=one: one.task_id)
            first = batch * 20 + number * 10
            one.batch(batch, range(first, first + 10))
    stage.check(range(60))
    assert other.open_ids() == []


def test_markers_are_read_back(stage):
    stage.batch(0, range(10))
    log = batch_commit.CommitLog(batch_commit.shared_cluster(stage.servers), stage.options["committopic"])
    marker = log.last(stage.query)
    assert marker is not None and marker.done and marker.batch == 0 and len(marker.winners) == 2
    assert Marker.decode(marker.encode()) == marker
    assert log.last("another") is None
    with pytest.raises(ValueError, match="newer version"):
        Marker.decode(b'{"format":2}')


def test_a_marker_is_found_among_thousands_of_others(stage):
    stage.batch(0, range(10))
    count = 6000
    table = pa.table(
        {"key": [b"other-%d" % (number % 50) for number in range(count)], "value": [b"{}"] * count}
    )
    write_arrow(table, stage.options["committopic"], bootstrap_servers=stage.servers)
    stage.start()
    assert stage.task(0, 0, range(10)).handle is None
    stage.batch(1, range(10, 20))
    stage.check(range(20))


class TestBatchJobs:
    def job(self, stage, **options: str):
        given = {**stage.options, **{name.lower(): value for name, value in options.items()}}
        return writers.OttlaWriter(given, SCHEMA, overwrite=False)

    def test_all_or_nothing(self, stage):
        job = self.job(stage)
        messages = [job.write(iter(rows(range(10)))), job.write(iter(rows(range(10, 20))))]
        job.write(iter(rows(range(10))))  # an attempt that nobody heard of
        stage.check_prefix = f"ottla-spark/{job._key}/"
        job.commit(messages)
        stage.check(range(20))
        assert SyncTransactions(batch_commit.shared_cluster(stage.servers)).open_ids(stage.check_prefix) == []

        again = self.job(stage)
        messages = [again.write(iter(rows(range(20, 30)))), None]
        assert not messages[0].handle.waits, "nobody would end it if the driver died"
        again.abort(messages)
        stage.check(range(20))

    def test_named_writes_are_done_once(self, stage):
        for version in (3, 4, 4, 3):
            job = self.job(stage, txnAppId="load", txnVersion=str(version))
            messages = [job.write(iter(rows(range(version * 10, version * 10 + 10))))]
            job.commit(messages)
        stage.check(range(30, 50))

    def test_named_writes_survive_their_driver(self, stage, monkeypatch):
        job = self.job(stage, txnAppId="load", txnVersion="0")
        messages = [job.write(iter(rows(range(10))))]
        with monkeypatch.context() as patched:
            kill_after(patched, MarkerWriter, "append", 1)
            with pytest.raises(KilledError):
                job.commit(messages)
        stage.forget()
        job = self.job(stage, txnAppId="load", txnVersion="0")
        job.commit([job.write(iter(rows(range(10))))])
        stage.check(range(10))

    def test_an_end_that_is_refused_is_told(self, stage, monkeypatch):
        job = self.job(stage)
        messages = [job.write(iter(rows(range(10))))]
        SyncTransactions(batch_commit.shared_cluster(stage.servers)).fence(
            messages[0].handle.transactional_id
        )
        with pytest.raises(LostBatchError, match="1 of 1"):
            job.commit(messages)


def test_dead_letters_are_part_of_the_transaction(brokers, stage):
    letters = f"{stage.topic}-letters"
    brokers.create_topic(letters, 1)
    stage.options |= {"deadlettertopic": letters, "kafka.max.request.size": "1000"}
    large = pa.record_batch({"key": [b"1", b"2"], "value": [b"1", b"2" * 2000]})
    stage.task(0, 0, [])
    message = stage.writer().write(iter([large]))
    assert message.dead_letters == 1
    stage.writer().abort([message], 0)
    stage.start()
    stage.task(0, 0, [])
    message = stage.writer().write(iter([large]))
    stage.commit([message], 0)
    stage.check([1])
    (letter,) = read_arrow(letters, bootstrap_servers=stage.servers).read_all().to_pylist()
    headers = {header["key"]: header["value"].decode() for header in letter["headers"]}
    assert letter["key"] == b"2"
    assert headers["topic"] == stage.topic
    assert headers["reason"].startswith(ErrorCode.MESSAGE_TOO_LARGE.name)
    del stage.options["deadlettertopic"]
    stage.start()
    stage.task(1, 0, [])
    with pytest.raises(BrokerError, match="key b'2'"):
        stage.writer().write(iter([large]))
    stage.check([1])
