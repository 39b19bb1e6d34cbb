"""Large Metadata responses are encoded once, and never sent after the metadata has changed."""

from __future__ import annotations

import pytest

from fuzzing.peer import Peer
from ottla.broker.api.topics import metadata, metadata_responses
from ottla.broker.api.topics.metadata_responses import MetadataResponseCache
from ottla.protocol.messages.create_partitions_request import CreatePartitionsRequest, CreatePartitionsTopic
from ottla.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.delete_topics_request import DeleteTopicsRequest
from ottla.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from ottla.protocol.messages.metadata_response import MetadataResponse, MetadataResponseTopic
from ottla.testing import Cluster


def response_of(size: int, name: str = "t") -> MetadataResponse:
    return MetadataResponse(topics=[MetadataResponseTopic(name=name * 200) for _ in range(size)])


def test_a_key_gets_the_same_bytes_while_the_state_is_unchanged() -> None:
    cache = MetadataResponseCache()
    assert cache.find(1, "q") is None
    sent = cache.store("q", response_of(200), 9)
    found = cache.find(1, "q")
    assert found is not None
    assert found.encode_parts(9) == sent.encode_parts(9)
    assert b"".join(found.encode_parts(9)) == response_of(200).encode(9)  # type: ignore[arg-type]
    assert cache.find(1, "other") is None
    assert cache.find(2, "q") is None
    assert cache.find(1, "q") is None  # the first state was dropped


def test_small_responses_are_not_cached() -> None:
    cache = MetadataResponseCache()
    cache.find(1, "q")
    cache.store("q", response_of(1), 9)
    assert cache.find(1, "q") is None


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    cache = MetadataResponseCache()
    cache.find(1, 0)
    for key in range(metadata_responses.CACHED_MAX + 1):
        cache.store(key, response_of(200), 9)
    assert [q for q in range(metadata_responses.CACHED_MAX + 1) if cache.find(1, q)] == [
        metadata_responses.CACHED_MAX
    ]
    monkeypatch.setattr(metadata_responses, "CACHED_BYTES_MAX", 100_000)
    cache.store("a", response_of(200), 9)
    cache.store("b", response_of(300), 9)
    assert (cache.find(1, "a"), cache.find(1, "b") is None) == (None, False)


def test_changes_are_visible_at_once() -> None:
    with Cluster() as cluster, Peer(cluster.bootstrap_servers) as peer:

        def partitions(version: int) -> int:
            asked = MetadataRequest(
                topics=[MetadataRequestTopic(name="long")], allow_auto_topic_creation=False
            )
            (topic,) = peer.call(asked, version).topics
            return -1 if topic.error_code else len(topic.partitions)

        created = CreatableTopic(name="long", num_partitions=300, replication_factor=1)
        peer.call(CreateTopicsRequest(topics=[created], timeout_ms=20_000), 7)
        for version in (4, 9, 9, 12, 4):
            assert partitions(version) == 300
        more = CreatePartitionsTopic(name="long", count=301, assignments=None)
        peer.call(CreatePartitionsRequest(topics=[more], timeout_ms=20_000), 3)
        assert (partitions(4), partitions(9)) == (301, 301)
        peer.call(DeleteTopicsRequest(topic_names=["long"], timeout_ms=20_000), 5)
        assert (partitions(4), partitions(9)) == (-1, -1)


def test_all_none_or_some_of_many_topics(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata, "LARGE_RESPONSE", 3)
    monkeypatch.setattr(metadata_responses, "CACHED_BYTES_MIN", 1)
    with Cluster(in_process=True) as cluster, Peer(cluster.bootstrap_servers) as peer:
        names = ["a", "b", "c", "d"]
        for name in names:
            cluster.create_topic(name, 1)

        def found(topics: list[str] | None, version: int) -> list[str]:
            asked = topics if topics is None else [MetadataRequestTopic(name=name) for name in topics]
            answer = peer.call(MetadataRequest(topics=asked), version)
            return sorted(topic.name for topic in answer.topics)

        for _ in range(2):
            assert found([], 0) == names  # version 0 has no null: an empty list means all
            for version in (1, 9, 13):
                assert found(None, version) == names
                assert found([], version) == []
                assert found(["d", "b", "a"], version) == ["a", "b", "d"]
