"""The commands about clusters, against three real brokers."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys

import pytest

from ottla.testing import Cluster
from ottla.testing.ports import free_port
from tests.support.waiting import wait_until


@pytest.fixture(scope="module")
def three():
    with Cluster(3, proxied="none") as cluster:
        yield cluster


@pytest.fixture(scope="module")
def cli_broker(three):
    return three


def status(ottla):
    code, out, _ = ottla("cluster", "status", "--all", "--json")
    found = json.loads(out)
    assert code == (0 if found["healthy"] else 1)
    return found


def partitions_of(ottla, topic):
    _, out, _ = ottla("topic", "describe", topic, "--json")
    return json.loads(out)["topics"][0]["partitions"]


def test_status_of_a_healthy_cluster(ottla, three):
    three.create_topic("status-well", 30)
    found = wait_until(lambda: (seen := status(ottla))["healthy"] and seen)
    assert [row["id"] for row in found["brokers"]] == [0, 1, 2]
    assert {row["state"] for row in found["brokers"]} == {"up"}
    assert [f"{row['host']}:{row['port']}" for row in found["brokers"]] == three.bootstrap_servers.split(",")
    assert sorted(row["id"] for row in found["voters"]) == [0, 1, 2]
    assert [row["id"] for row in found["voters"] if row["leader"]] == [found["controller"]]
    assert sum(row["leaders"] for row in found["brokers"]) == found["partitions_total"]
    assert found["partitions_total"] == len(found["partitions"]) >= 30
    ours = [row for row in found["partitions"] if row["topic"] == "status-well"]
    assert all(len(row["isr"]) == 3 and row["min_isr"] == 2 for row in ours)
    code, out, _ = ottla("cluster", "status")
    assert code == 0
    assert out.startswith("healthy\n")
    assert "more; use --all to show them" in out
    assert f"active controller {found['controller']}" in out


def test_status_names_the_problems(ottla, three):
    three.create_topic("status-ill", 3)
    wait_until(lambda: status(ottla)["healthy"])
    three.kill(2)
    try:
        fenced = "broker 2 is fenced: it is down or cannot reach the controller"

        def ill():  # brokers and partitions are queried one after the other
            seen = status(ottla)
            return seen if seen["under_replicated_total"] and fenced in seen["problems"] else None

        found = wait_until(ill)
        ours = [row for row in found["partitions"] if row["topic"] == "status-ill"]
        assert not any(row["offline"] or row["under_min_isr"] for row in ours)
        code, out, _ = ottla("cluster", "status")
        assert code == 1
        assert out.startswith("not healthy: ")
        assert "under-replicated\n" in out
    finally:
        three.start()
    wait_until(lambda: status(ottla)["healthy"])


def test_status_without_a_cluster_fails(ottla):
    code, _, err = ottla("cluster", "status", "-b", f"127.0.0.1:{free_port()}")
    assert code == 1
    assert "cannot connect" in err


def test_describe_shows_epochs_and_eligible_leaders(ottla, three):
    three.create_topic("told", 1)
    (row,) = partitions_of(ottla, "told")
    assert (row["elr"], row["last_known_elr"]) == ([], [])
    assert sorted(row["isr"]) == sorted(row["replicas"]) == [0, 1, 2]
    leader, epoch = row["leader"], row["leader_epoch"]
    three.kill(leader)
    try:
        row = wait_until(
            lambda: (seen := partitions_of(ottla, "told")[0])["leader"] not in (leader, -1) and seen
        )
        assert row["leader_epoch"] > epoch
        assert leader not in row["isr"]
    finally:
        three.start()
    wait_until(lambda: len(partitions_of(ottla, "told")[0]["isr"]) == 3)
    code, out, _ = ottla("partition", "elect", "preferred", "--topic", "told", "--partition", "0")
    assert (code, out) == (0, f"told-0 has leader {leader}\n")
    code, out, _ = ottla("partition", "elect", "preferred", "--topic", "told", "--json")
    assert json.loads(out)["not_needed"] == [{"topic": "told", "partition": 0}]
    assert code == 0


def test_reassignment_by_options(ottla, three):
    three.create_topic("moved", 2, replication_factor=1)
    before = {row["partition"]: row["replicas"] for row in partitions_of(ottla, "moved")}
    move = ("partition", "reassign", "--topic", "moved", "--replicas", "0,1,2")
    code, out, _ = ottla(*move, "--dry-run", "--json")
    assert (code, json.loads(out)["begun"]) == (0, False)
    assert {row["partition"]: row["replicas"] for row in partitions_of(ottla, "moved")} == before

    code, out, _ = ottla(*move, "--throttle", "1000000")
    assert code == 0
    assert "Started to move 2 partitions, throttled to 1000000 bytes per second" in out
    back = json.loads(re.search(r"\{.*\}", out)[0])
    assert {row["partition"]: row["replicas"] for row in back["partitions"]} == before

    def configs():
        _, out, _ = ottla("topic", "describe", "moved", "--json")
        return set(json.loads(out)["topics"][0]["configs"])

    assert configs() == {f"{side}.replication.throttled.replicas" for side in ("leader", "follower")}
    wait_until(lambda: ottla(*move, "--verify", "--keep-throttle")[0] == 0)
    code, out, _ = ottla(*move, "--verify", "--json")
    verified = json.loads(out)
    assert (code, verified["complete"]) == (0, True)
    assert verified["throttle_removed"][0] == "topic moved"
    assert configs() == set()
    assert [row["replicas"] for row in partitions_of(ottla, "moved")] == [[0, 1, 2], [1, 2, 0]]
    assert ottla("partition", "reassign", "--list") == (0, "No partition is moving\n", "")


def test_reassignment_from_a_file_and_an_impossible_one(ottla, three, tmp_path):
    three.create_topic("filed", 1, replication_factor=1)
    plan = tmp_path / "plan.json"
    rows = [{"topic": "filed", "partition": 0, "replicas": [2, 0], "log_dirs": ["any", "any"]}]
    plan.write_text(json.dumps({"version": 1, "partitions": rows}))
    assert ottla("partition", "reassign", str(plan), "--execute")[0] == 0
    wait_until(lambda: ottla("partition", "reassign", str(plan), "--verify")[0] == 0)
    assert partitions_of(ottla, "filed")[0]["replicas"] == [2, 0]
    code, out, _ = ottla("partition", "reassign", str(plan), "--cancel")
    assert (code, out) == (0, "None of these partitions was moving\n")

    code, _, err = ottla("partition", "reassign", "--topic", "filed", "--replicas", "7,8")
    assert code == 1
    assert "topic 'filed' partition 0: INVALID_REPLICA_ASSIGNMENT" in err
    code, _, err = ottla("partition", "reassign", "--topic", "filed", "-p", "5", "--replicas", "1")
    assert code == 1
    assert "the topic has partitions 0 to 0" in err


# The supervisor.


def test_start_stop_and_restart_of_three_brokers(tmp_path):
    base_port = free_port()
    command = [sys.executable, "-m", "ottla", "cluster", "--brokers", "3", "--json"]
    command += ["--data", str(tmp_path / "data"), "--base-port", str(base_port)]
    cluster_ids = set()
    for _ in range(2):
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            seen = read_until(process, "ready")
            cluster_ids.add(seen[0]["cluster_id"])
            ports = [base_port, base_port + 1, base_port + 2]
            assert seen[-1]["bootstrap_servers"] == ",".join(f"127.0.0.1:{port}" for port in ports)
            pids = {event["broker"]: event["pid"] for event in seen if event["event"] == "broker-starting"}
            os.kill(pids[1], signal.SIGKILL)
            seen = read_until(process, "ready")
            assert {event["broker"] for event in seen if event["event"] == "died"} == {1}
            process.send_signal(signal.SIGTERM)
            seen = read_until(process, "stopped")
            assert process.wait(10) == 0, process.stderr.read()
            assert sorted(e["broker"] for e in seen if e["event"] == "broker-stopped") == [0, 1, 2]
    assert len(cluster_ids) == 1


def test_brokers_stop_when_the_supervisor_is_killed(tmp_path):
    command = [sys.executable, "-m", "ottla", "cluster", "--brokers", "3", "--json", "--data", str(tmp_path)]
    command += ["--base-port", str(free_port())]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        seen = read_until(process, "ready")
        pids = [event["pid"] for event in seen if event["event"] == "broker-starting"]
        process.kill()
        process.wait()
    wait_until(lambda: not any(os.path.exists(f"/proc/{pid}/fd/0") for pid in pids))


def read_until(process, name):
    """Events up to the first with that name."""
    seen = []
    while True:
        line = process.stdout.readline()
        assert line, f"no {name}: {seen} {process.stderr.read() if process.stderr else ''}"
        seen.append(json.loads(line))
        if seen[-1]["event"] == name:
            return seen
