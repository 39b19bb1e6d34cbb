"""The search for Spark's Kafka connector, and goals that are lower bounds. Spark is not started."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.figures import Figure, as_table
from bench.peers import jars
from bench.peers.jars import CONNECTOR_HOME, NoKafka, find_connector


@pytest.fixture(autouse=True)
def fresh_search() -> None:
    find_connector.cache_clear()


def test_connector_from_a_configured_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("commons-pool2-2.13.1.jar", "spark-sql-kafka-0-10_2.13-4.2.0.jar")
    for name in names:
        (tmp_path / name).touch()
    monkeypatch.setenv(CONNECTOR_HOME, str(tmp_path))
    found = find_connector()
    assert found.version == "4.2.0"
    assert [Path(jar).name for jar in found.jars] == list(names)


def test_error_names_a_directory_without_the_connector(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(CONNECTOR_HOME, str(tmp_path))
    with pytest.raises(NoKafka, match=str(tmp_path)):
        find_connector()


def test_error_without_maven_names_the_connector(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pyspark")
    monkeypatch.delenv(CONNECTOR_HOME, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NoKafka, match=r"mvn, needed for .*:spark-sql-kafka"):
        find_connector()


def test_jars_of_spark_are_left_out() -> None:
    pytest.importorskip("pyspark")
    path = "/m/lz4-java-1.0.jar:/m/kafka-clients-3.9.2.jar:/m/spark-tags_2.13-4.3.0.jar"
    assert jars._new_to_spark(path) == ["/m/kafka-clients-3.9.2.jar"]


@pytest.mark.parametrize(("value", "verdict"), [(0.7, "ok"), (0.5, "SHORT")])
def test_a_goal_may_be_a_lower_bound(value: float, verdict: str) -> None:
    figure = Figure("speed", value, "times", 0.6, more_is_better=True)
    assert figure.verdict == verdict
    assert ">= 0.6" in as_table([figure])
