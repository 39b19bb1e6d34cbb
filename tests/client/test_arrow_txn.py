"""Transactions of the Arrow writer, ended by another process, in both versions of the protocol."""

from __future__ import annotations

import asyncio
import multiprocessing
import pickle
import time

import pyarrow as pa
import pytest

from ottla.client import (
    ArrowWriter,
    BrokerError,
    ClientError,
    ProducerId,
    SyncCluster,
    SyncTransactions,
    end_transactions,
    read_arrow,
)
from ottla.client.core import transaction_api as module
from ottla.client.errors import RecordTooLargeError, UnknownTopicError
from ottla.testing import Cluster
from tests.support.waiting import wait_until

TWO_PHASES = {"transaction.two.phase.commit.enable": True}


@pytest.fixture(scope="module", params=["with time-outs", "two phases"])
def brokers(request):
    with Cluster(config=TWO_PHASES if request.param == "two phases" else {}) as cluster:
        cluster.has_two_phases = request.param == "two phases"
        yield cluster


@pytest.fixture(params=[1, 2])
def version(request, monkeypatch):
    if request.param == 1:
        monkeypatch.setattr(module, "SECOND_VERSION", 3)
    return request.param


@pytest.fixture
def topic(brokers, request) -> str:
    name = f"t{abs(hash(request.node.name))}-{time.monotonic_ns()}"
    brokers.create_topic(name, 2)
    return name


def rows(first: int, count: int = 1) -> pa.RecordBatch:
    values = [b"%d" % number for number in range(first, first + count)]
    return pa.record_batch({"key": values, "value": values})


def seen(brokers, topic: str, read_committed: bool = True) -> list[int]:
    table = read_arrow(
        topic, bootstrap_servers=brokers.bootstrap_servers, read_committed=read_committed
    ).read_all()
    return sorted(int(value) for value in table["value"].to_pylist())


def wait_until_seen(brokers, topic: str, wanted: list[int]) -> None:
    """Markers follow the end of a transaction."""
    wait_until(lambda: seen(brokers, topic) == wanted, lambda: seen(brokers, topic))


def test_several_transactions_of_one_writer(brokers, topic, version):
    cluster = SyncCluster(brokers.bootstrap_servers)
    with ArrowWriter(cluster, topic, transactional_id=f"{topic}-several") as writer:
        with pytest.raises(ClientError, match="no transaction is open"):
            writer.write(rows(0))
        for first in (0, 10, 20):
            writer.begin()
            writer.write(rows(first, 10))
            writer.flush()
            if first == 10:
                writer.abort()
            else:
                writer.commit()
        writer.begin()
        writer.commit()  # nothing in it
        writer.begin()
        writer.write(rows(30, 5))
    wait_until_seen(brokers, topic, [*range(10), *range(20, 30)])
    cluster.close()


def finish(servers: str, pickled: bytes, commit: bool) -> None:
    cluster = SyncCluster(servers)
    for _ in range(2):
        end_transactions(cluster, [pickle.loads(pickled)], commit=commit)
    cluster.close()


@pytest.mark.parametrize("commit", [True, False])
def test_another_process_ends_the_transaction(brokers, topic, version, commit):
    cluster = SyncCluster(brokers.bootstrap_servers)
    with ArrowWriter(cluster, topic, transactional_id=f"{topic}-elsewhere") as writer:
        writer.begin()
        with pytest.raises(ClientError, match="nothing was written"):
            writer.prepare()
        writer.write(rows(0, 100))
        handle = writer.prepare()
    assert handle.waits == brokers.has_two_phases
    assert handle.version < module.SECOND_VERSION or version == 2
    assert seen(brokers, topic) == []
    process = multiprocessing.get_context("spawn").Process(
        target=finish, args=(brokers.bootstrap_servers, pickle.dumps(handle), commit)
    )
    process.start()
    process.join(60)
    assert process.exitcode == 0
    wait_until_seen(brokers, topic, list(range(100)) if commit else [])
    # The other end is refused.
    with pytest.raises(BrokerError):
        end_transactions(cluster, [handle], commit=not commit)
    cluster.close()


def test_prepared_transactions_time_out_without_two_phase_commit(brokers, topic):
    cluster = SyncCluster(brokers.bootstrap_servers)
    prefix = f"{topic}-late"
    with ArrowWriter(cluster, topic, transactional_id=f"{prefix}/1", transaction_timeout_ms=400) as writer:
        writer.begin()
        writer.write(rows(0, 10))
        handle = writer.prepare()
    transactions = SyncTransactions(cluster)
    assert transactions.open_ids(prefix) == [f"{prefix}/1"]
    assert transactions.open_ids(f"{prefix}/2") == []
    info = transactions.describe([f"{prefix}/1", "unknown"])
    assert list(info) == [f"{prefix}/1"]
    assert info[f"{prefix}/1"].state == "Ongoing"
    if brokers.has_two_phases:
        time.sleep(0.8)
        end_transactions(cluster, [handle], commit=True)
        wait_until_seen(brokers, topic, list(range(10)))
    else:
        wait_until(lambda: not transactions.open_ids(prefix), "the transaction times out")
        with pytest.raises(BrokerError, match=handle.transactional_id):
            end_transactions(cluster, [handle], commit=True)
        assert seen(brokers, topic) == []
    cluster.close()


def test_fencing_aborts_what_is_open(brokers, topic, version):
    cluster = SyncCluster(brokers.bootstrap_servers)
    writer = ArrowWriter(cluster, topic, transactional_id=f"{topic}-fenced")
    writer.begin()
    writer.write(rows(0, 10))
    writer.flush()
    transactions = SyncTransactions(cluster)
    transactions.fence(f"{topic}-fenced")
    assert transactions.open_ids(f"{topic}-fenced") == []
    writer.write(rows(10, 10))
    with pytest.raises(BrokerError):
        writer.flush()
    with pytest.raises(BrokerError):
        writer.prepare()
    wait_until_seen(brokers, topic, [])
    with pytest.raises(BrokerError), writer:
        writer.commit()
    cluster.close()


def test_a_transaction_that_timed_out_is_not_prepared(brokers, topic):
    if not brokers.has_two_phases:
        pytest.skip("reported when it is ended")
    cluster = SyncCluster(brokers.bootstrap_servers)
    writer = ArrowWriter(cluster, topic, transactional_id=f"{topic}-slow", transaction_timeout_ms=100)
    writer.begin()
    writer.write(rows(0, 10))
    writer.flush()
    transactions = SyncTransactions(cluster)
    wait_until(lambda: not transactions.open_ids(f"{topic}-slow"), "the transaction times out")
    with pytest.raises(BrokerError, match="before it was prepared"):
        writer.prepare()
    cluster.close()


def test_open_transactions_are_found_while_a_broker_is_down(ottla_cluster_of_three):
    brokers = ottla_cluster_of_three
    topic = f"t{time.monotonic_ns()}"
    brokers.create_topic(topic, 1)
    cluster = SyncCluster(brokers.bootstrap_servers)
    transactions = SyncTransactions(cluster)
    names = [f"{topic}/{number}" for number in range(4)]
    handles = []
    for name in names:
        with ArrowWriter(cluster, topic, transactional_id=name) as writer:
            writer.begin()
            writer.write(rows(0, 2))
            handles.append(writer.prepare())
    assert sorted(transactions.open_ids(f"{topic}/")) == names
    brokers.kill(0)
    try:
        began_s = time.monotonic()
        found = transactions.open_ids(f"{topic}/", all_brokers=False)
        assert set(found) <= set(names)
        assert time.monotonic() - began_s < 20
        end_transactions(cluster, handles, commit=True)
        assert transactions.open_ids(f"{topic}/", all_brokers=False) == []
    finally:
        brokers.start(0)
    wait_until_seen(brokers, topic, [0] * 4 + [1] * 4)
    cluster.close()


def test_rows_that_cannot_be_written_are_reported_or_dead_lettered(brokers, topic):
    cluster = SyncCluster(brokers.bootstrap_servers)
    letters = f"{topic}-letters"
    brokers.create_topic(letters, 1)
    small = f"{topic}-small"
    brokers.create_topic(small, 1, {"max.message.bytes": 2000})
    keyed = f"{topic}-keyed"
    brokers.create_topic(keyed, 1, {"cleanup.policy": "compact"})
    table = pa.record_batch(
        {
            "key": [b"fine", b"far", b"large", b"nowhere", b"broker", None, b"header"],
            "value": [b"1", b"2", b"3" * 5000, b"4", b"5" * 3000, b"6", b"7"],
            "topic": [topic, topic, topic, None, small, keyed, topic],
            "partition": pa.array([None, 9, None, None, None, None, 0], pa.int32()),
            "headers": pa.array(
                [None] * 6 + [[{"key": None, "value": b"x"}, {"key": "kept", "value": b"y"}]],
                pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
            ),
        }
    )
    expected = {
        0: None,
        1: (UnknownTopicError, r"key b'far' .*partition 9.*0 to 1"),
        2: (RecordTooLargeError, r"key b'large' .*5005 bytes"),
        3: (ValueError, "key b'nowhere' has a null topic"),
        4: (RecordTooLargeError, "key b'broker'"),
        5: (BrokerError, "key null"),
        6: (BrokerError, "key b'header' .*header has no key"),
    }
    for row, error in expected.items():
        writer = ArrowWriter(cluster, record_bytes_max=4000)
        if error is not None:
            with pytest.raises(error[0], match=error[1]), writer:
                writer.write(table.slice(row, 1))
    with ArrowWriter(
        cluster, record_bytes_max=4000, dead_letter_topic=letters, transactional_id=f"{topic}-dead-letters"
    ) as writer:
        writer.begin()
        writer.write(table)
        writer.write(table.slice(0, 1))
        writer.commit()
        assert writer.dead_letters == 6
    wait_until_seen(brokers, topic, [1, 1])
    written = read_arrow(letters, bootstrap_servers=brokers.bootstrap_servers).read_all().to_pylist()
    found = {row["key"]: {h["key"]: h["value"].decode() for h in row["headers"]} for row in written}
    assert len(found) == 6
    assert found[b"far"]["partition"] == "9" and found[b"far"]["topic"] == topic
    assert "MESSAGE_TOO_LARGE" in found[b"large"]["reason"]
    assert found[b"nowhere"] == {"reason": "the topic is null"}
    assert found[b"broker"]["topic"] == small and "more than the topic takes" in found[b"broker"]["reason"]
    assert found[None]["topic"] == keyed and "INVALID_RECORD" in found[None]["reason"]
    assert found[b"header"]["kept"] == "y"
    cluster.close()


def test_a_writer_with_a_given_producer_id_never_gets_another(with_stub):
    async def scenario(stub):
        stub.add_topic("t")
        stub.plans["Produce"].append(lambda request: stub.produce(request, error=45))
        await asyncio.to_thread(write, stub.bootstrap)
        assert stub.asked("InitProducerId") == []

    def write(servers: str) -> None:
        cluster = SyncCluster(servers)
        with (
            pytest.raises(BrokerError, match="OUT_OF_ORDER"),
            ArrowWriter(cluster, "t", identity=ProducerId(7, 0)) as writer,
        ):
            writer.write(rows(0))
        cluster.close()

    with_stub(scenario)
