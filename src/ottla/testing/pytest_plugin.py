"""Pytest fixtures: a broker (or three) for the session, a topic for every test.

    def test_roundtrip(ottla_cluster, ottla_topic):
        producer = Producer({"bootstrap.servers": ottla_cluster.bootstrap_servers})
        producer.produce(ottla_topic, b"hello")

    @pytest.mark.ottla_topic(partitions=3, config={"retention.ms": 1000})
    def test_partitions(ottla_topic): ...

    def test_fail_over(ottla_cluster_of_three):
        ottla_cluster_of_three.kill(0)
        ...
        ottla_cluster_of_three.start(0)

pytest loads this plugin whenever ottla is installed, so nothing else of ottla is imported before a fixture
is used. Override `ottla_cluster` in a conftest.py to change the broker's settings; `ottla_topic` uses it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from ottla.testing.cluster import Cluster


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        "ottla_topic(partitions=1, config=None): options of the topic that the ottla_topic fixture creates",
    )


@pytest.fixture(scope="session")
def ottla_cluster() -> Iterator[Cluster]:
    """A real Ottla broker process for the whole session."""
    from ottla.testing.cluster import Cluster

    with Cluster() as cluster:
        yield cluster


@pytest.fixture(scope="session")
def ottla_cluster_of_three() -> Iterator[Cluster]:
    """Three replicated brokers for the whole session. A test that kills or stops one must restart it."""
    from ottla.testing.cluster import Cluster

    with Cluster(brokers=3) as cluster:
        yield cluster


@pytest.fixture
def ottla_topic(request: pytest.FixtureRequest, ottla_cluster: Cluster) -> str:
    """The name of a new topic for this test; `@pytest.mark.ottla_topic` sets partitions and config."""
    from ottla.testing.topics import topic_name_for

    marker = request.node.get_closest_marker("ottla_topic")
    options = dict(marker.kwargs) if marker is not None else {}
    unknown = set(options) - {"partitions", "config"}
    if unknown or (marker is not None and marker.args):
        raise pytest.UsageError(
            f"{request.node.nodeid}: @pytest.mark.ottla_topic takes partitions= and config=, "
            f"not {', '.join(sorted(unknown)) or 'positional arguments'}"
        )
    name = topic_name_for(request.node.name)
    ottla_cluster.create_topic(name, options.get("partitions", 1), options.get("config"))
    return name
