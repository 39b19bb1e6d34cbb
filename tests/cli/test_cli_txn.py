"""`ottla txn` with real transactions, also such that hang."""

from __future__ import annotations

import asyncio
import contextlib
import json
import shlex
import time

import confluent_kafka
import pytest

from ottla.client import Admin, ClusterClient, Consumer, Producer, ProducerState
from ottla.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.messages.produce_response import ProduceResponse
from ottla.records.build import build_batch
from ottla.testing import Cluster
from ottla.testing.topics import topic_name_for

HOUR_MS = 3_600_000
# As before KIP-890: transactional batches are not verified with the coordinator.
TRUSTING = {
    "transaction.partition.verification.enable": False,
    "transaction.two.phase.commit.enable": True,
    "num.partitions": 2,
}
PRODUCE_OF_OLD = 11


@pytest.fixture(scope="module")
def txn_broker():
    with Cluster(config=TRUSTING) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def cli_broker(txn_broker):
    return txn_broker


@pytest.fixture
def topic(txn_broker, request):
    name = topic_name_for(request.node.name)
    txn_broker.create_topic(name, 2)
    return name


@contextlib.contextmanager
def open_transaction(servers, name, topic):
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": servers, "transactional.id": name, "log_level": 0, "error_cb": lambda _: None}
    )
    producer.init_transactions(20)
    producer.begin_transaction()
    producer.produce(topic, b"committed", partition=0)
    producer.commit_transaction(20)
    producer.begin_transaction()
    producer.produce(topic, b"open", partition=0)
    producer.produce(topic, b"open", partition=1)
    producer.flush(20)
    yield producer
    with contextlib.suppress(confluent_kafka.KafkaException):
        producer.abort_transaction(5)
    producer.purge()


def write_without_asking(servers, topic, *, producer_id, epoch=0, age_ms=HOUR_MS):
    """A transactional batch of a transaction that no coordinator knows."""
    now_ms = time.time_ns() // 1_000_000 - age_ms
    batch = build_batch(
        [(now_ms, None, b"hanging", ())],
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=0,
        transactional=True,
    )
    data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=0, records=batch)])
    request = ProduceRequest(transactional_id="old", acks=-1, timeout_ms=10_000, topic_data=[data])

    async def send():
        async with ClusterClient(servers) as cluster:
            connection = await cluster.any_connection()
            response = await connection.request(request, ProduceResponse, at_most=PRODUCE_OF_OLD)
            return response.responses[0].partition_responses[0]

    row = asyncio.run(send())
    assert row.error_code == 0
    return row.base_offset


def readable(servers, topic):
    """The values of partition 0 up to its first open transaction."""

    async def read():
        async with Consumer(servers, isolation_level="read_committed", fetch_max_wait_ms=50) as consumer:
            await consumer.assign(topic, [0])
            end = (await consumer.list_offsets({(topic, 0): -1}, read_committed=True))[topic, 0].offset
            found = []
            while consumer.position(topic, 0) < end:
                found += [record.value for record in await consumer.poll()]
            return found

    return asyncio.run(read())


def test_list_and_filters(ottla, txn_broker, topic):
    with open_transaction(txn_broker.bootstrap_servers, topic, topic):
        code, out, _ = ottla("txn", "list", "--pattern", f"{topic}.*")
        assert code == 0 and "Ongoing" in out and topic in out
        code, out, _ = ottla("txn", "list", "--state", "ongoing", "--json")
        row = next(row for row in json.loads(out)["transactions"] if row["transactional_id"] == topic)
        assert (row["state"], row["partitions"]) == ("Ongoing", 2) and row["open_ms"] >= 0
        one = ("txn", "list", "--producer-id", str(row["producer_id"]), "--json")
        assert len(json.loads(ottla(*one)[1])["transactions"]) == 1
        assert json.loads(ottla(*one, "--longer-than", "1h")[1])["transactions"] == []
        assert "No transactions" in ottla("txn", "list", "--pattern", "nobody")[1]


def test_describe_shows_where_readers_wait(ottla, txn_broker, topic):
    with open_transaction(txn_broker.bootstrap_servers, topic, topic):
        code, out, _ = ottla("txn", "describe", topic)
        assert code == 0
        assert f"Transactional id {topic}: Ongoing" in out and "timeout 60.0 s" in out
        row = json.loads(ottla("txn", "describe", topic, "--json")[1])["transactions"][0]
        starts = {each["partition"]: each["start_offset"] for each in row["partitions"]}
        assert starts == {0: 2, 1: 0}, "after the first transaction and its marker"
        assert readable(txn_broker.bootstrap_servers, topic) == [b"committed"]


def test_abort_by_transactional_id(ottla, txn_broker, topic):
    with open_transaction(txn_broker.bootstrap_servers, topic, topic) as producer:
        code, out, _ = ottla("txn", "abort", topic)
        assert code == 0 and f"Aborted {topic} in 2 partitions; its producer is fenced" in out
        with pytest.raises(confluent_kafka.KafkaException):
            producer.commit_transaction(20)
        row = json.loads(ottla("txn", "describe", topic, "--json")[1])["transactions"][0]
        assert row["state"] in ("Empty", "CompleteAbort")
        assert readable(txn_broker.bootstrap_servers, topic) == [b"committed"]
        assert "had no open transaction" in ottla("txn", "abort", topic)[1]


def test_abort_of_a_prepared_transaction_needs_force(ottla, txn_broker, topic):
    servers = txn_broker.bootstrap_servers

    async def prepare():
        producer = Producer(servers, transactional_id=topic, two_phase_commit=True)
        await producer.begin_transaction()
        await producer.send(topic, b"prepared", partition=0)
        await producer.prepare_transaction()
        await producer.close(flush=False)

    asyncio.run(prepare())
    assert "no timeout (two-phase commit)" in ottla("txn", "describe", topic)[1]
    code, _, err = ottla("txn", "abort", topic)
    assert code == 1 and "--force" in err and "two-phase" in err
    assert json.loads(ottla("txn", "describe", topic, "--json")[1])["transactions"][0]["state"] == "Ongoing"
    assert ottla("txn", "abort", topic, "--force")[0] == 0
    assert json.loads(ottla("txn", "describe", topic, "--json")[1])["transactions"][0]["state"] != "Ongoing"


def test_consume_read_committed(ottla, txn_broker, topic):
    with open_transaction(txn_broker.bootstrap_servers, topic, topic):
        assert ottla("consume", topic, "--until-end", "--partition", "0")[1] == "committed\nopen\n"
        assert ottla("consume", topic, "--until-end", "--read-committed")[1] == "committed\n"


def test_hanging_transactions_are_found_and_aborted(ottla, txn_broker, topic):
    servers = txn_broker.bootstrap_servers
    before = write_without_asking(servers, topic, producer_id=990_001)
    assert readable(servers, topic) == []
    code, out, _ = ottla("txn", "hanging", "--topic", topic)
    assert code == 0 and "990001" in out
    command = next(line.strip() for line in out.splitlines() if "ottla txn abort" in line)
    assert shlex.split(command)[-1] == str(before)
    row = json.loads(ottla("txn", "hanging", "--json")[1])["hanging"]
    assert command in [each["abort"] for each in row]
    code, out, err = ottla(*shlex.split(command)[1:])
    assert code == 0 and "producer 990001" in out, err
    assert "No hanging transactions" in ottla("txn", "hanging", "--topic", topic, "--partition", "0")[1]
    with open_transaction(servers, topic, topic):
        assert readable(servers, topic) == [b"committed"], "readers continue after it"
    code, _, err = ottla(*shlex.split(command)[1:])
    assert code == 1 and "no transaction begins at offset" in err


def test_a_partition_missing_from_its_transaction_is_hanging(ottla, txn_broker, topic):
    """The producer id has a transaction without this partition, as after a late write of the previous one."""
    servers = txn_broker.bootstrap_servers
    other = topic + "-other"
    txn_broker.create_topic(other, 1)
    with open_transaction(servers, topic, topic):
        info = json.loads(ottla("txn", "describe", topic, "--json")[1])["transactions"][0]
        write_without_asking(servers, other, producer_id=info["producer_id"], epoch=info["producer_epoch"])
        found = json.loads(ottla("txn", "hanging", "-t", other, "--json")[1])["hanging"]
        assert [row["transactional_id"] for row in found] == [topic]
        assert ottla(*shlex.split(found[0]["abort"])[1:])[0] == 0
        assert json.loads(ottla("txn", "hanging", "-t", other, "--json")[1])["hanging"] == []


def test_a_transaction_known_to_a_coordinator_is_not_hanging(ottla, txn_broker, topic):
    servers = txn_broker.bootstrap_servers
    with open_transaction(servers, topic, topic):
        time.sleep(0.05)
        found = ottla("txn", "hanging", "-t", topic, "--max-transaction-timeout", "1ms")[1]
        assert "No hanging transactions" in found
        place = ("--topic", topic, "--partition", "0", "--start-offset", "2")
        code, _, err = ottla("txn", "abort", *place)
        assert code == 1 and f"'ottla txn abort {topic}' aborts all of it" in err
        assert ottla("txn", "abort", *place, "--force")[0] == 0


def test_recent_transactions_are_not_hanging(ottla, txn_broker, topic):
    write_without_asking(txn_broker.bootstrap_servers, topic, producer_id=990_002, age_ms=0)
    assert "No hanging transactions" in ottla("txn", "hanging", "-t", topic)[1]

    async def end():
        async with Admin(txn_broker.bootstrap_servers) as admin:
            (producer,) = (await admin.describe_producers([(topic, 0)]))[topic, 0]
            assert isinstance(producer, ProducerState) and producer.producer_id == 990_002
            await admin.abort_transaction(topic, 0, producer)
            (producer,) = (await admin.describe_producers([(topic, 0)]))[topic, 0]
            assert producer.txn_start_offset == -1

    asyncio.run(end())


def test_invalid_arguments_are_reported(ottla, txn_broker, topic):
    with open_transaction(txn_broker.bootstrap_servers, topic, topic):
        code, _, err = ottla("txn", "describe", topic[:-1])
        assert code == 1 and f"did you mean {topic!r}?" in err
        assert ottla("txn", "abort", "nobody-at-all-xyz")[0] == 1
        assert "there is no transactional id" in ottla("txn", "abort", "nobody-at-all-xyz")[2]
        code, _, err = ottla("txn", "list", "--state", "sleeping")
        assert code == 1 and "'sleeping' is not a state" in err and "Ongoing" in err
    assert ottla("txn", "abort")[0] == 2
    assert ottla("txn", "abort", "--topic", topic)[0] == 2
    assert ottla("txn", "abort", "x", "--topic", topic)[0] == 2
    assert ottla("txn", "list", "--longer-than", "soon")[0] == 2
    assert ottla("txn", "hanging", "--partition", "0")[0] == 2
    code, _, err = ottla("txn", "hanging", "-t", topic + "x")
    assert code == 1 and "did you mean" in err


@pytest.mark.parametrize("command", ["list", "describe", "abort", "hanging"])
def test_help_has_examples(ottla, command):
    code, out, _ = ottla("txn", command, "--help")
    assert code == 0 and f"ottla txn {command}" in out and "Examples" in out
