"""Membership in the consumer protocol (KIP-848) against a scripted coordinator."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ottla.client import BrokerError, Consumer
from ottla.client.clock import backoff_between
from ottla.client.consumer.classic_protocol import ClassicProtocol
from ottla.client.consumer.consumer_protocol import ConsumerProtocol
from ottla.client.consumer.membership import GroupOptions, Membership, Protocols, Subscription
from ottla.client.core.retry import Backoff
from ottla.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from ottla.protocol.messages.consumer_group_heartbeat_response import (
    Assignment,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

PROTOCOLS = Protocols(ConsumerProtocol, ClassicProtocol)
KNOWN, STRANGE = b"k" * 16, b"s" * 16
Shares = dict[bytes, list[int]]


class ScriptedCluster:
    """Responds to heartbeats with the given assignments, then with none; records the reports."""

    def __init__(self, *assignments: Shares | None) -> None:
        self.assignments = [*assignments]
        self.reported: list[Shares | None] = []
        self.names = {KNOWN: "known"}

    @property
    def view(self) -> ScriptedCluster:
        return self

    @property
    def core(self) -> ScriptedCluster:
        return self

    def backoff(self) -> Backoff:
        return backoff_between(1, 1)

    def name_of(self, topic_id: bytes) -> str | None:
        return self.names.get(topic_id)

    async def refresh(self, topics: object) -> None:
        await asyncio.sleep(0)

    def version_for(self, api_key: int) -> int:
        return 1

    async def once(self, group_id: str, attempt: Any, *, lane: str) -> Any:
        return await attempt(self)

    async def ask(self, connection: object, request: ConsumerGroupHeartbeatRequest, response: type) -> Any:
        await asyncio.sleep(0)
        rows = request.topic_partitions
        self.reported.append(None if rows is None else {row.topic_id: [*row.partitions] for row in rows})
        share = self.assignments.pop(0) if self.assignments else None
        given = None
        if share is not None:
            rows = [TopicPartitions(topic_id=key, partitions=each) for key, each in share.items()]
            given = Assignment(topic_partitions=rows)
        return ConsumerGroupHeartbeatResponse(
            member_id="m", member_epoch=1, heartbeat_interval_ms=1, assignment=given
        )


def reported_by_a_member(*assignments: Shares | None) -> list[Shares | None]:
    """The partitions that a member reports in its first ten heartbeats, if it makes changes at once."""
    cluster = ScriptedCluster(*assignments)

    async def play() -> None:
        membership = Membership(cluster, GroupOptions("g"), Subscription(("known",)), cluster, PROTOCOLS)  # type: ignore[arg-type]
        running = asyncio.create_task(ConsumerProtocol(membership).run())
        async with asyncio.timeout(10):
            while len(cluster.reported) < 10:
                if membership.change is not None:
                    membership.settled(membership.change)
                await asyncio.sleep(0)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    asyncio.run(play())
    return cluster.reported[:10]


def test_an_assignment_is_reported_once() -> None:
    reported = reported_by_a_member({KNOWN: [0, 1]})
    assert reported == [{}, {KNOWN: [0, 1]}, *[None] * 8]


def test_an_empty_assignment_is_not_reported() -> None:
    assert reported_by_a_member({}) == [{}, *[None] * 9]


def test_a_partition_revoked_before_its_topic_is_known_is_reported() -> None:
    """The coordinator waits for the report before it assigns the partition to another member."""
    assert reported_by_a_member({STRANGE: [0]}, {}) == [{}, None, {}, *[None] * 7]


def test_a_revoked_partition_is_reported_while_others_are_kept() -> None:
    reported = reported_by_a_member({KNOWN: [0], STRANGE: [0]}, None, None, {KNOWN: [0]})
    assert reported.count({KNOWN: [0]}) == 2 and reported[-1] is None
    assert {KNOWN: [0]} in reported[4:]


def test_a_second_subscribe_before_a_heartbeat_keeps_the_change() -> None:
    async def play() -> bool:
        cluster = ScriptedCluster()
        membership = Membership(cluster, GroupOptions("g"), Subscription(("known",)), cluster, PROTOCOLS)  # type: ignore[arg-type]
        membership.subscribe(Subscription(("other",)))
        membership.subscribe(Subscription(("other",)))
        return membership.subscription_changed

    assert asyncio.run(play())


def test_a_consumer_that_is_not_a_member_does_not_commit_as_an_outsider(with_stub) -> None:
    """An empty group would accept such a commit, after another member has read further."""

    async def scenario(stub: Any) -> None:
        stub.add_topic("t")
        async with Consumer(stub.bootstrap, group_id="g", auto_commit=False) as consumer:
            consumer.subscribe("t")
            with pytest.raises(BrokerError, match=r"UNKNOWN_MEMBER_ID .*poll to join"):
                await consumer.commit({("t", 0): 5})
        assert stub.asked("OffsetCommit") == []

    with_stub(scenario)
