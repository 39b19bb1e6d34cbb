"""Loading a node's configuration: files, overrides, defaults, and conflicting values."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from ottla.config.definitions import ConfigError
from ottla.config.load import broker_config, load_broker_config

KRAFT = """\
# as shipped with Kafka for a combined node
process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=localhost:9093
listeners=PLAINTEXT://:9092,CONTROLLER://:9093
inter.broker.listener.name=PLAINTEXT
advertised.listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT
num.network.threads=3
num.io.threads=8
socket.send.buffer.bytes=102400
log.dirs=/tmp/kraft-combined-logs,/tmp/second
num.partitions=3
offsets.topic.replication.factor=1
log.retention.hours=24
log.segment.bytes=1073741824
"""


def test_defaults_form_a_cluster_of_one_node() -> None:
    config = load_broker_config()
    assert config.node_id == 1
    assert config.is_broker
    assert config.is_controller
    assert [str(each) for each in config.broker_endpoints] == ["PLAINTEXT://localhost:9092 (PLAINTEXT)"]
    assert config.advertised_endpoints == config.broker_endpoints
    assert config.warnings == []
    assert config.num_partitions == config.get("num.partitions") == config["num.partitions"] == 1
    assert config.log_dirs == ("ottla-data",)
    with pytest.raises(AttributeError, match=r"no\.such\.property"):
        _ = config.no_such_property


def test_a_server_properties_of_kafka(tmp_path: Path) -> None:
    path = tmp_path / "server.properties"
    path.write_text(KRAFT)
    config = load_broker_config(str(path), {"num.partitions": "5"})
    assert config.num_partitions == 5
    assert config.warnings == []
    assert config.log_dirs == ("/tmp/kraft-combined-logs", "/tmp/second")
    assert config.metadata_log_dir == "/tmp/kraft-combined-logs"
    assert [each.name for each in config.controller_endpoints] == ["CONTROLLER"]
    assert config.broker_endpoints[0].host == ""
    assert [(each.host, each.port) for each in config.advertised_endpoints] == [("localhost", 9092)]
    assert config.is_set("log.retention.hours")
    assert not config.is_set("log.retention.ms")


def test_internal_topics_are_reduced_to_the_cluster_unless_set() -> None:
    name = "offsets.topic.replication.factor"
    assert broker_config({}).internal_replication_factor(name, 1) == 1
    assert broker_config({}).internal_replication_factor(name, 2) == 2
    assert broker_config({}).internal_replication_factor(name, 9) == 3
    assert broker_config({name: "2"}).internal_replication_factor(name, 1) == 2
    isr = "transaction.state.log.min.isr"
    assert [broker_config({}).internal_min_isr(isr, factor) for factor in (1, 2, 3)] == [1, 1, 2]
    assert broker_config({isr: "1"}).internal_min_isr(isr, 3) == 1


def test_warnings_for_unknown_keys_suggest_a_name() -> None:
    config = broker_config({"num.partition": "3", "zookeeper.connect": "x", "rsm.config.bucket": "b"})
    assert config.warnings[0] == "unknown property num.partition, did you mean num.partitions?"
    assert config.warnings[1] == "unknown property zookeeper.connect"
    assert len(config.warnings) == 2
    assert config.num_partitions == 1


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"num.partitions": "0"}, "num.partitions=0: must be at least 1"),
        ({"listeners": "localhost:9092"}, "listeners=localhost:9092: must be NAME://host:port"),
        ({"listeners": "PLAINTEXT://a:99999"}, "must be NAME://host:port"),
        ({"listeners": "PLAINTEXT://a:1:2"}, "must be NAME://host:port"),
        ({"listeners": ""}, "must not be empty"),
        ({"listeners": "FRONT://a:1"}, "FRONT is not in listener.security.protocol.map"),
        ({"listeners": "SSL://a:1"}, "SSL is not supported"),
        ({"listeners": "PLAINTEXT://a:1,PLAINTEXT://b:2"}, "one address for PLAINTEXT"),
        ({"listener.security.protocol.map": "A:B"}, "NAME:PROTOCOL"),
        ({"advertised.listeners": "PLAINTEXT://0.0.0.0:9092"}, "address that clients can reach"),
        ({"advertised.listeners": "SSL://a:9092"}, "SSL"),
        ({"controller.quorum.voters": "1@localhost"}, "host:port"),
        ({"controller.quorum.voters": "localhost:9093"}, "id@host:port"),
        ({"controller.quorum.voters": "2@localhost:9093"}, "must contain this controller"),
        ({"controller.quorum.voters": "1@a:1,1@b:1"}, "once"),
        ({"process.roles": "broker"}, "controller.quorum"),
        (
            {"process.roles": "broker", "controller.quorum.voters": "1@a:1"},
            "must not be in controller.quorum.voters",
        ),
        ({"process.roles": "worker"}, "must contain only broker, controller"),
        ({"process.roles": ""}, "must contain broker"),
        ({"process.roles": "controller"}, "must contain a listener of controller.listener.names"),
        ({"controller.listener.names": "PLAINTEXT"}, "not in controller.listener.names"),
        ({"broker.id": "2", "node.id": "1"}, "must equal node.id"),
        ({"broker.session.timeout.ms": "3000"}, "at least 2 times broker.heartbeat.interval.ms"),
        ({"inter.broker.listener.name": "X"}, "must be one of PLAINTEXT"),
        ({"queued.max.request.bytes": "10"}, "socket.request.max.bytes"),
        ({"max.connections.per.ip": "0"}, "overrides"),
        ({"max.connections.per.ip.overrides": "a"}, "address:count"),
        ({"log.retention.hours": "0"}, "must be -1"),
        ({"metadata.log.segment.bytes": "1"}, "at least 8388608"),
    ],
)
def test_errors_name_the_key_and_valid_values(given: dict[str, str], problem: str) -> None:
    with pytest.raises(ConfigError) as caught:
        broker_config(given)
    assert problem in str(caught.value)
    assert "=" in str(caught.value)


def test_ipv6_and_free_ports() -> None:
    config = broker_config(
        {"listeners": "PLAINTEXT://[::1]:0", "max.connections.per.ip.overrides": "[::1]:5,a:6"}
    )
    assert (config.broker_endpoints[0].host, config.broker_endpoints[0].port) == ("::1", 0)
    assert config.connections_per_ip == {"::1": 5, "a": 6}


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    path = tmp_path / "bad.properties"
    path.write_text("a=\\u00")
    with pytest.raises(ConfigError, match=r"bad.properties: line 1"):
        load_broker_config(str(path))


def test_loading_imports_nothing_heavy() -> None:
    code = (
        "import sys; from ottla.config.load import load_broker_config; load_broker_config();"
        "print([m for m in ('dataclasses', 'difflib', 'logging', 'inspect') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", _with_path(code)], capture_output=True, check=True
    )
    assert done.stdout.decode().strip() == "[]"


def _with_path(code: str) -> str:
    import ottla

    root = Path(ottla.__file__).parent.parent
    return f"import sys; sys.path.insert(0, {str(root)!r}); {code}"
