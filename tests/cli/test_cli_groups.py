"""`ottla group` and `ottla consume --group` with real members on a real broker."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time

import confluent_kafka
import pytest

from ottla.cli.groups.reset_plan import Shift, _step
from ottla.testing import Cluster
from ottla.testing.topics import topic_name_for

QUICK = {
    "group.initial.rebalance.delay.ms": 100,
    "group.min.session.timeout.ms": 500,
    "group.consumer.min.heartbeat.interval.ms": 100,
    "group.consumer.heartbeat.interval.ms": 200,
    "num.partitions": 3,
}
RECORDS = 30


@pytest.fixture(scope="module")
def groups_broker():
    with Cluster(config=QUICK) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def cli_broker(groups_broker):
    return groups_broker


@pytest.fixture
def topic(groups_broker, request):
    """Ten records in each of three partitions, at 1000, 2000, ... ms."""
    name = topic_name_for(request.node.name)
    groups_broker.create_topic(name, 3)
    producer = confluent_kafka.Producer({"bootstrap.servers": groups_broker.bootstrap_servers})
    for number in range(RECORDS):
        value = b"%d" % number
        producer.produce(name, value, partition=number % 3, timestamp=1000 * (1 + number // 3))
    producer.flush()
    return name


@contextlib.contextmanager
def member(cluster, group, topic, *, client_id, wait_for=1, **settings):
    """A confluent-kafka consumer that polls on a thread, in a stable group."""
    if settings.get("group.protocol") != "consumer":
        settings["heartbeat.interval.ms"] = 200
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": group,
            "client.id": client_id,
            "auto.offset.reset": "earliest",
            "auto.commit.interval.ms": 100,
            **settings,
        }
    )
    consumer.subscribe([topic])
    over = threading.Event()

    def poll():
        while not over.is_set():
            consumer.poll(0.05)

    thread = threading.Thread(target=poll)
    thread.start()
    try:
        cluster.wait_for_group(group, wait_for)
        yield consumer
    finally:
        over.set()
        thread.join()
        consumer.close()


@pytest.fixture
def left_group(ottla, topic):
    """A group that has read everything and has no members."""
    code, _, err = ottla("group", "reset", topic, "--to", "latest", "--topic", topic, "--execute")
    assert code == 0, err
    return topic


def described(ottla, group):
    code, out, err = ottla("group", "describe", group, "--json")
    assert code == 0, err
    return json.loads(out)["groups"][0]


def committed(ottla, group):
    return {row["partition"]: row["committed"] for row in described(ottla, group)["partitions"]}


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_list_and_describe_show_members_lag_and_rebalance_causes(ottla, groups_broker, topic, protocol):
    group = f"{topic}-group"
    settings = {"group.protocol": protocol}
    with member(groups_broker, group, topic, client_id="alpha", **settings):
        groups_broker.wait_for_lag(group)
        code, out, _ = ottla("group", "list")
        assert code == 0
        (row,) = [line.split() for line in out.splitlines() if line.startswith(group)]
        assert row == [group, protocol, "Stable", "1", "0", "1"]
        with member(groups_broker, group, topic, client_id="beta", wait_for=2, **settings):
            code, out, _ = ottla("group", "list", "--json", "--type", protocol, "--state", "stable")
            assert {row["group"]: row["members"] for row in json.loads(out)["groups"]}[group] == 2
            found = described(ottla, group)
            assert {row["client"] for row in found["partitions"]} == {"alpha", "beta"}
            assert {row["host"] for row in found["partitions"]} == {"127.0.0.1"}
            assert [(row["partition"], row["lag"]) for row in found["partitions"]] == [(0, 0), (1, 0), (2, 0)]
            assert (found["state"], found["type"], found["lag"]) == ("Stable", protocol, 0)
            assert found["assignor"] == {"classic": "range", "consumer": "uniform"}[protocol]
            last = found["rebalances"][-1]
            assert [(cause["what"], cause["client"]) for cause in last["causes"]] == [
                ("member joined", "beta")
            ]
            assert (last["members"], last["epoch"]) == (2, found["epoch"])
            assert 0 <= last["duration_ms"] < 30_000
        groups_broker.wait_for_group(group, 1)
    groups_broker.wait_for_group(group, 0)
    code, out, _ = ottla("group", "describe", group)
    assert code == 0
    assert out.startswith(f"Group {group}: Empty, 0 members, {protocol} protocol")
    assert re.search(
        r"took [\d.]+ m?s, now epoch \d+ with 0 members\n    member left: alpha on 127.0.0.1", out
    )
    assert "member left: beta on 127.0.0.1" in out
    code, out, _ = ottla("group", "list", "--state", "stable")
    assert group not in out


def test_a_member_that_dies_is_named_as_the_cause(ottla, groups_broker, topic):
    code = (
        "import sys, confluent_kafka as ck\n"
        "c = ck.Consumer({'bootstrap.servers': sys.argv[1], 'group.id': sys.argv[2], 'client.id': 'doomed',"
        " 'session.timeout.ms': 1000, 'heartbeat.interval.ms': 200})\n"
        "c.subscribe([sys.argv[2]])\n"
        "while True: c.poll(0.1)\n"
    )
    doomed = subprocess.Popen([sys.executable, "-c", code, groups_broker.bootstrap_servers, topic])
    try:
        groups_broker.wait_for_group(topic, 1)
    finally:
        doomed.kill()
        doomed.wait()
    groups_broker.wait_for_group(topic, 0)
    causes = described(ottla, topic)["rebalances"][-1]["causes"]
    assert [(cause["what"], cause["client"]) for cause in causes] == [
        ("member's session timed out", "doomed")
    ]
    _, out, _ = ottla("group", "describe", topic)
    assert "member's session timed out: doomed on 127.0.0.1" in out


def test_reset_is_a_dry_run_without_execute(ottla, groups_broker, topic):
    left_group = topic
    with member(groups_broker, topic, topic, client_id="reader"):
        groups_broker.wait_for_lag(topic)
    groups_broker.wait_for_group(topic, 0)
    assert committed(ottla, left_group) == {0: 10, 1: 10, 2: 10}
    code, out, _ = ottla("group", "reset", left_group, "--to", "earliest")
    assert code == 0
    assert out.splitlines()[1].split() == [left_group, "0", "10", "0", "10"]
    assert out.endswith("Dry run: nothing was changed; use --execute to apply\n")
    assert committed(ottla, left_group) == {0: 10, 1: 10, 2: 10}

    code, out, _ = ottla("group", "reset", left_group, "--to", "earliest", "--execute")
    assert (code, out.splitlines()[-1]) == (0, f"Changed the offsets of group {left_group} in 3 partitions")
    assert committed(ottla, left_group) == {0: 0, 1: 0, 2: 0}
    assert described(ottla, left_group)["lag"] == RECORDS


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--to", "latest"], {0: 10, 1: 10, 2: 10}),
        (["--to", "4"], {0: 4, 1: 4, 2: 4}),
        (["--to", "@3000"], {0: 2, 1: 2, 2: 2}),
        (["--to", "@99000000"], {0: 10, 1: 10, 2: 10}),
        (["--to=-3"], {0: 7, 1: 7, 2: 7}),
        (["--to", "999"], {0: 10, 1: 10, 2: 10}),
        (["--shift-by=-4"], {0: 6, 1: 6, 2: 6}),
        (["--shift-by=-400"], {0: 0, 1: 0, 2: 0}),
        (["--shift-by", "5"], {0: 10, 1: 10, 2: 10}),
        (["--to", "4", "--topic", "TOPIC", "--partition", "1"], {0: 10, 1: 4, 2: 10}),
    ],
)
def test_reset_target_forms(ottla, left_group, arguments, expected):
    arguments = [left_group if each == "TOPIC" else each for each in arguments]
    code, out, err = ottla("group", "reset", left_group, *arguments, "--execute", "--json")
    assert code == 0, err
    assert json.loads(out)["executed"] is True
    assert committed(ottla, left_group) == expected


def test_seek_moves_one_partition(ottla, left_group):
    code, out, _ = ottla("group", "seek", left_group, left_group, "2", "3", "--dry-run", "--json")
    (step,) = json.loads(out)["partitions"]
    assert (code, step["partition"], step["current"], step["new"], step["lag"]) == (0, 2, 10, 3, 7)
    assert committed(ottla, left_group)[2] == 10
    code, _, _ = ottla("group", "seek", left_group, left_group, "2", "3")
    assert code == 0
    assert committed(ottla, left_group) == {0: 10, 1: 10, 2: 3}
    code, _, err = ottla("group", "seek", left_group, left_group, "7", "3")
    assert (code, err) == (1, f"ottla: topic '{left_group}' has partitions 0 to 2, not 7\n")


def test_reset_creates_a_missing_group(ottla, topic):
    group = f"{topic}-new"
    code, _, err = ottla("group", "reset", group, "--to", "earliest")
    assert (code, "has no committed offsets: select partitions with --topic" in err) == (1, True)
    code, _, _ = ottla("group", "reset", group, "--to", "5", "--topic", topic, "--execute")
    assert code == 0
    found = described(ottla, group)
    assert (found["state"], found["lag"], found["members"]) == ("Empty", 15, [])


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_reset_rejects_an_active_group(ottla, groups_broker, topic, protocol):
    with member(groups_broker, topic, topic, client_id="busy", **{"group.protocol": protocol}):
        groups_broker.wait_for_lag(topic)
        for arguments in (
            ["reset", topic, "--to", "earliest", "--execute"],
            ["seek", topic, topic, "0", "0"],
            ["delete", topic, "--yes"],
        ):
            code, _, err = ottla("group", *arguments)
            assert code == 1
            assert err.startswith(f"ottla: group '{topic}': NON_EMPTY_GROUP (68): it is Stable, with busy on")
            assert "stop them first" in err
        code, out, err = ottla("group", "reset", topic, "--to", "earliest")
        assert code == 0
        assert "Dry run" in out
        assert err.startswith("ottla: --execute would fail: it is Stable, with busy on 127.0.0.1")
        code, _, err = ottla("group", "delete", topic, "--json")
        assert json.loads(err)["code"] == "NON_EMPTY_GROUP"
        assert committed(ottla, topic) == {0: 10, 1: 10, 2: 10}


def test_delete_and_unknown_groups(ottla, left_group):
    code, _, err = ottla("group", "describe", left_group[:-1])
    assert code == 1
    assert err.endswith(f"there is no such group; did you mean '{left_group}'?\n")
    assert ottla("group", "delete", left_group, "--yes") == (0, f"Deleted group {left_group}\n", "")
    code, _, err = ottla("group", "delete", left_group, "--yes")
    assert (code, "GROUP_ID_NOT_FOUND (69)" in err) == (1, True)
    code, out, _ = ottla("group", "delete", left_group, "--yes", "--if-exists")
    assert (code, out) == (0, f"Group {left_group} does not exist\n")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["group", "reset", "g"], "--to POINT or --shift-by N"),
        (["group", "reset", "g", "--to", "1", "--shift-by", "1"], "--to POINT or --shift-by N"),
        (["group", "reset", "g", "--to", "yesterday"], "--to 'yesterday': expected beginning, end"),
        (["group", "reset", "g", "--to", "1", "--partition", "1"], "needs --topic"),
        (["consume", "t", "--group", "g", "--partition", "1"], "the group assigns"),
        (["consume", "t", "--group", "g", "--from=-5"], "the group assigns"),
    ],
)
def test_invalid_arguments_are_reported(ottla, arguments, complaint):
    code, _, err = ottla(*arguments)
    assert code == 2
    assert complaint in " ".join(re.sub(r"[│╭╮╰╯─]", " ", err).split())


def test_consume_in_a_group_continues_at_committed_offsets(ottla, groups_broker, topic):
    group = f"{topic}-cli"
    code, out, _ = ottla("consume", topic, "--group", group, "--max", "7")
    assert (code, len(out.splitlines())) == (0, 7)
    groups_broker.wait_for_group(group, 0)
    assert described(ottla, group)["lag"] == RECORDS - 7
    code, rest, _ = ottla("consume", topic, "--group", group, "--until-end", "--timeout", "20")
    assert code == 0
    assert sorted(map(int, (out + rest).split())) == list(range(RECORDS))
    assert described(ottla, group)["lag"] == 0


def test_consume_in_a_group_commits_printed_records_on_ctrl_c(groups_broker, topic, ottla):
    group = f"{topic}-interrupted"
    process = subprocess.Popen(
        [sys.executable, "-m", "ottla", "consume", topic, "--group", group],
        stdout=subprocess.PIPE,
        env={**os.environ, "OTTLA_BOOTSTRAP": groups_broker.bootstrap_servers},
    )
    assert process.stdout is not None
    lines = [process.stdout.readline() for _ in range(RECORDS)]
    time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    assert process.wait(20) == 0
    process.stdout.close()
    assert len(set(lines)) == RECORDS
    found = described(ottla, group)
    assert (found["state"], found["lag"]) == ("Empty", 0)


def test_offsets_out_of_range_have_a_note():
    key = ("t", 0)
    assert _step(key, 5, 2, 3, 9, 2)[3:] == (3, 3, 9, "2 was deleted: set to the beginning")
    assert _step(key, 5, 11, 3, 9, 11)[3:] == (9, 3, 9, "11 does not exist yet: set to the end")
    assert _step(key, -1, -1, 3, 9, Shift(4))[3:] == (3, 3, 9, "no committed offset: set to the beginning")
    assert _step(key, 5, 7, 3, 9, 7).lag == 2


@pytest.mark.parametrize("command", ["list", "describe", "reset", "seek", "delete"])
def test_help_has_examples(ottla, command):
    code, out, _ = ottla("group", command, "--help")
    assert code == 0
    assert f"ottla group {command} " in out or f"ottla group {command}\n" in out
    assert "--json" in out
