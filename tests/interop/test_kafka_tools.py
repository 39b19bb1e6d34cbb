"""Kafka's command line tools with four brokers, three of which are also controllers."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ottla.protocol.messages.describe_cluster_request import DescribeClusterRequest
from ottla.testing import Cluster
from ottla.testing.topics import topic_name_for
from tests.support.interop.tools import (
    CLUSTER,
    ELECT,
    FEATURES,
    QUORUM,
    REASSIGN,
    TOPICS,
    KafkaTools,
    kafka_tools,
    why_no_tools,
)
from tests.support.interop.wire import Wire
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.java, pytest.mark.skipif(bool(why_no_tools()), reason=str(why_no_tools()))]


@pytest.fixture(scope="module")
def quartet() -> Iterator[Cluster]:
    with Cluster(brokers=4, proxied="none") as cluster:
        yield cluster


@pytest.fixture(scope="module")
def tools() -> Iterator[KafkaTools]:
    with kafka_tools() as found:
        yield found


@pytest.fixture
def ask(tools: KafkaTools, quartet: Cluster) -> Callable[..., str]:
    """Runs a tool on the cluster; returns its output and fails on errors."""
    return lambda tool, *words: tools.ask(tool, "--bootstrap-server", quartet.bootstrap_servers, *words)


@pytest.fixture
def moving(ask: Callable[..., str], request: pytest.FixtureRequest) -> str:
    """A topic with one partition on brokers 0, 1 and 2."""
    name = topic_name_for(request.node.name)
    ask(TOPICS, "--create", "--topic", name, "--replica-assignment", "0:1:2")
    return name


def plan(folder: Path, topic: str, *replicas: int) -> str:
    path = folder / "plan.json"
    row = {"topic": topic, "partition": 0, "replicas": replicas}
    path.write_text(json.dumps({"version": 1, "partitions": [row]}))
    return str(path)


def fields(line: str) -> dict[str, str]:
    """Return the fields of a line of `kafka-topics --describe`."""
    return {name: value.strip() for name, value in re.findall(r"(\w+): ([^\t]*)", line)}


def test_metadata_quorum_status(ask: Callable[..., str], tools: KafkaTools) -> None:
    reply = dict(re.findall(r"(\w+):\s+(.*)", ask(QUORUM, "describe", "--status")))
    assert int(reply["LeaderId"]) in (0, 1, 2)
    assert int(reply["HighWatermark"]) > 0
    voters = json.loads(reply["CurrentVoters"])
    assert [each["id"] for each in voters] == [0, 1, 2]
    assert [each["id"] for each in json.loads(reply["CurrentObservers"])] == [3]
    controller = voters[int(reply["LeaderId"])]["endpoints"][0].partition("://")[2]
    again = tools.ask(QUORUM, "--bootstrap-controller", controller, "describe", "--status")
    assert dict(re.findall(r"(\w+):\s+(.*)", again))["LeaderId"] == reply["LeaderId"]


def test_metadata_quorum_replication(ask: Callable[..., str]) -> None:
    rows = [line.split() for line in ask(QUORUM, "describe", "--replication").splitlines()]
    at = next(i for i, row in enumerate(rows) if row[:1] == ["NodeId"])
    found = {int(row[0]): row[-1] for row in rows[at + 1 :] if row}
    assert sorted(found) == [0, 1, 2, 3]
    assert sorted(found.values()) == ["Follower", "Follower", "Leader", "Observer"]
    assert found[3] == "Observer"


def test_topics(ask: Callable[..., str]) -> None:
    name = topic_name_for("tools")
    made = ask(
        TOPICS, "--create", "--topic", name, "--partitions", "4", "--replication-factor", "3",
        "--config", "min.insync.replicas=2",
    )  # fmt: skip
    assert f"Created topic {name}." in made
    assert name in ask(TOPICS, "--list").split()
    head, *rows = ask(TOPICS, "--describe", "--topic", name).splitlines()[:5]
    assert fields(head)["ReplicationFactor"] == "3"
    assert len(rows) == 4
    for row in map(fields, rows):
        assert row["Leader"] == row["Replicas"].split(",")[0]
        assert row["Isr"] == row["Replicas"]
    ask(TOPICS, "--alter", "--topic", name, "--partitions", "6")
    assert fields(ask(TOPICS, "--describe", "--topic", name).splitlines()[0])["PartitionCount"] == "6"
    ask(TOPICS, "--delete", "--topic", name)
    wait_until(lambda: name not in ask(TOPICS, "--list").split(), "deleted")


def test_generated_reassignments(ask: Callable[..., str], moving: str, tmp_path: Path) -> None:
    path = tmp_path / "topics.json"
    path.write_text(json.dumps({"version": 1, "topics": [{"topic": moving}]}))
    reply = ask(REASSIGN, "--topics-to-move-json-file", str(path), "--broker-list", "1,2,3", "--generate")
    now, proposed = (json.loads(line)["partitions"] for line in reply.splitlines() if line.startswith("{"))
    assert now[0]["replicas"] == [0, 1, 2]
    assert all(folder.endswith(f"broker-{each}") for each, folder in enumerate(now[0]["log_dirs"]))
    assert sorted(proposed[0]["replicas"]) == [1, 2, 3]


def test_throttled_reassignments_and_elections(
    ask: Callable[..., str], quartet: Cluster, moving: str, tmp_path: Path
) -> None:
    path = plan(tmp_path, moving, 3, 1, 2)
    reply = ask(REASSIGN, "--reassignment-json-file", path, "--execute", "--throttle", "10000000")
    assert f"Successfully started partition reassignment for {moving}-0" in reply
    done = f"Reassignment of partition {moving}-0 is completed."
    verify = ("--reassignment-json-file", path, "--verify")
    wait_until(lambda: done in ask(REASSIGN, *verify, "--preserve-throttles"), done)
    with Wire(quartet.address(0)) as wire:
        from ottla.protocol.messages.describe_configs_request import (
            DescribeConfigsRequest,
            DescribeConfigsResource,
        )

        def throttles() -> list[str]:
            query = DescribeConfigsResource(resource_type=2, resource_name=moving, configuration_keys=None)
            answer = wire.ask(DescribeConfigsRequest(resources=[query])).results[0].configs
            return sorted(each.name for each in answer if "throttled" in each.name and each.value)

        assert len(throttles()) == 2
        assert f"Clearing topic-level throttles on topic {moving}" in ask(REASSIGN, *verify)
        wait_until(lambda: not throttles(), "no throttles are left")
    assert "No partition reassignments found" in ask(REASSIGN, "--list")
    (row,) = (fields(line) for line in ask(TOPICS, "--describe", "--topic", moving).splitlines()[1:2])
    assert row["Replicas"] == "3,1,2"
    if row["Leader"] != "3":
        elected = ask(ELECT, "--election-type", "preferred", "--topic", moving, "--partition", "0")
        assert "Successfully completed leader election (PREFERRED)" in elected
    again = ask(ELECT, "--election-type", "preferred", "--topic", moving, "--partition", "0")
    assert f"Valid replica already elected for partitions {moving}-0" in again
    assert fields(ask(TOPICS, "--describe", "--topic", moving).splitlines()[1])["Leader"] == "3"


def test_a_reassignment_to_an_unknown_broker(
    tools: KafkaTools, quartet: Cluster, moving: str, tmp_path: Path
) -> None:
    path = plan(tmp_path, moving, 0, 1, 77)
    code, text = tools.run(
        REASSIGN,
        "--bootstrap-server",
        quartet.bootstrap_servers,
        "--reassignment-json-file",
        path,
        "--execute",
    )
    assert code == 1 and "77" in text


def test_features(ask: Callable[..., str]) -> None:
    # The first output of a JVM may begin with log lines.
    lines = [line for line in ask(FEATURES, "describe").splitlines() if line.startswith("Feature:")]
    reply = {row["Feature"]: row for row in map(_feature, lines)}
    assert (
        reply["metadata.version"]["FinalizedVersionLevel"] == reply["metadata.version"]["SupportedMaxVersion"]
    )
    assert reply["eligible.leader.replicas.version"]["FinalizedVersionLevel"] == "1"


def _feature(line: str) -> dict[str, str]:
    return dict(re.findall(r"(\w+): (\S+)", line))


def test_a_dead_broker_is_unregistered(ask: Callable[..., str], tools: KafkaTools, quartet: Cluster) -> None:
    """Broker 3 dies, is reported as fenced and is unregistered; then it registers as a new broker."""
    name, alone = topic_name_for("missing"), topic_name_for("alone")
    ask(TOPICS, "--create", "--topic", name, "--replica-assignment", "3:0:1")
    ask(TOPICS, "--create", "--topic", alone, "--replica-assignment", "3")
    quartet.kill(3)

    def missing(what: str) -> list[dict[str, str]]:
        lines = ask(TOPICS, "--describe", f"--{what}-partitions").splitlines()
        return [row for row in map(fields, lines) if row.get("Topic") in (name, alone)]

    try:
        (short,) = wait_until(
            lambda: [r for r in missing("under-replicated") if r["Topic"] == name], "fenced"
        )
        assert short["Isr"] == "0,1"
        assert [row["Topic"] for row in missing("unavailable")] == [alone]
        servers = ("--bootstrap-server", quartet.address(0))
        listed = tools.ask(CLUSTER, "list-endpoints", *servers, "--include-fenced-brokers")
        assert re.search(r"^3 .* fenced", listed, re.MULTILINE)
        assert "Broker 3 is no longer registered." in tools.ask(CLUSTER, "unregister", *servers, "--id", "3")
        with Wire(quartet.address(0)) as wire:
            all_brokers = DescribeClusterRequest(include_fenced_brokers=True)
            wait_until(lambda: len(wire.ask(all_brokers).brokers) == 3, "the broker is unregistered")
        code, text = tools.run(CLUSTER, "unregister", *servers, "--id", "77")
        assert code == 1 and "BrokerIdNotRegisteredException" in text
    finally:
        quartet.start(3)
    wait_until(lambda: not missing("under-replicated") and not missing("unavailable"), "it is back")


def test_cluster_id(tools: KafkaTools, quartet: Cluster) -> None:
    reply = tools.ask(CLUSTER, "cluster-id", "--bootstrap-server", quartet.bootstrap_servers)
    assert re.search(r"Cluster ID: \S{22}$", reply.strip())
