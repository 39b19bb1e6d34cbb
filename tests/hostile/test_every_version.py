"""Every advertised version returns a valid response to any well-formed request."""

from __future__ import annotations

import random
import time

import pytest

from fuzzing.batches import ordinary_batch
from fuzzing.peer import Peer
from fuzzing.samples import KnownState, Sampler
from fuzzing.target import TargetBroker, produce
from ottla.broker.api.registry import BROKER_LISTENER, served_versions
from ottla.protocol.api import API_BY_KEY
from ottla.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest

SAMPLES_PER_VERSION = 5
FETCH_KEY = 1


def known_world(peer: Peer) -> KnownState:
    known = KnownState()
    known.topics = ["known", "other"]
    topics = [CreatableTopic(name=name, num_partitions=2, replication_factor=1) for name in known.topics]
    answer = peer.call(CreateTopicsRequest(topics=topics, timeout_ms=5000), 7)
    known.topic_ids = [topic.topic_id for topic in answer.topics]
    return known


@pytest.mark.parametrize("api_key", served_versions(BROKER_LISTENER), ids=lambda key: API_BY_KEY[key].name)
def test_every_version_answers(target: TargetBroker, peer: Peer, api_key: int) -> None:
    api = API_BY_KEY[api_key]
    known = known_world(peer)
    if any(known.topic_ids):  # else an earlier test has created them
        produce(peer, "known", bytes(ordinary_batch(int(time.time() * 1000))))
    for version in range(api.min_version, api.max_version + 1):
        rng = random.Random(f"{api_key} {version}")
        sampler = Sampler(rng, known, int(time.time() * 1000))
        for _ in range(SAMPLES_PER_VERSION):
            request = sampler.request(api_key, version)
            if getattr(request, "acks", 1) == 0:
                continue  # no response
            if api_key == FETCH_KEY:
                request.max_wait_ms = min(request.max_wait_ms, 5)  # type: ignore[attr-defined]
            try:
                peer.call(request, version)
            except (OSError, ValueError) as error:
                pytest.fail(f"{error!r} for version {version} of {request}\n{target.new_log()[-3000:]}")
