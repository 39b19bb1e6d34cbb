"""One broker for all of these tests, with short intervals where a test waits for the broker's clock."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from ottla.testing import Cluster
from ottla.testing.topics import topic_name_for
from tests.support.interop import group_members, transactions
from tests.support.interop.java import JavaClient, new_java_client, why_no_java
from tests.support.interop.wire import Wire


@pytest.fixture(scope="session")
def ottla_cluster() -> Iterator[Cluster]:
    with Cluster(config={"log.retention.check.interval.ms": 200}) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def java() -> None:
    """Skip the test if there is no Java."""
    reason = why_no_java()
    if reason is not None:
        pytest.skip(reason)


@pytest.fixture(scope="session")
def group_jvm(java: None) -> Iterator[group_members.Jvm]:
    """A JVM for group members in Java."""
    with group_members.java_members() as running:
        yield running


@pytest.fixture(scope="session")
def txn_jvm(java: None) -> Iterator[None]:
    """A JVM for transactional producers in Java."""
    with transactions.txn_jvm() as transactions.Java.jvm:
        yield


@pytest.fixture(scope="session")
def java_client(java: None, ottla_cluster: Cluster) -> Iterator[JavaClient]:
    with new_java_client(ottla_cluster.bootstrap_servers) as client:
        yield client


@pytest.fixture
def servers(ottla_cluster: Cluster) -> str:
    return ottla_cluster.bootstrap_servers


@pytest.fixture
def wire(servers: str) -> Iterator[Wire]:
    with Wire(servers) as connection:
        yield connection


@pytest.fixture
def new_topic(request: pytest.FixtureRequest, wire: Wire) -> Callable[..., str]:
    """Creates topics with unique names; `new_topic(partitions=3, **{"segment.bytes": ...})`."""

    def create(partitions: int = 1, **configs: object) -> str:
        name = topic_name_for(request.node.name)
        wire.create_topic(name, partitions, **configs)
        return name

    return create


@pytest.fixture
def topic(new_topic: Callable[..., str]) -> str:
    """The name of a topic with one partition."""
    return new_topic()
