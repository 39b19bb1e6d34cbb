"""A consumer's membership by KIP-848 against a coordinator that is played: what it says, and when."""

from __future__ import annotations

import asyncio
from typing import Any

from ottla.client.clock import backoff_between
from ottla.client.core.retry import Backoff
from ottla.client.groups.consumer_protocol import ConsumerProtocol
from ottla.client.groups.membership import GroupOptions, Membership, Subscription
from ottla.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from ottla.protocol.messages.consumer_group_heartbeat_response import (
    Assignment,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

KNOWN, STRANGE = b"k" * 16, b"s" * 16
Shares = dict[bytes, list[int]]


class PlayedCluster:
    """Answers heartbeats with the assignments that it was given, then with none; notes what it was told."""

    def __init__(self, *assignments: Shares | None) -> None:
        self.assignments = [*assignments]
        self.told: list[Shares | None] = []
        self.names = {KNOWN: "known"}

    @property
    def view(self) -> PlayedCluster:
        return self

    @property
    def core(self) -> PlayedCluster:
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
        self.told.append(None if rows is None else {row.topic_id: [*row.partitions] for row in rows})
        share = self.assignments.pop(0) if self.assignments else None
        given = None
        if share is not None:
            rows = [TopicPartitions(topic_id=key, partitions=each) for key, each in share.items()]
            given = Assignment(topic_partitions=rows)
        return ConsumerGroupHeartbeatResponse(
            member_id="m", member_epoch=1, heartbeat_interval_ms=1, assignment=given
        )


def told_by_a_member(*assignments: Shares | None) -> list[Shares | None]:
    """What it says to own in its first ten heartbeats, if its program does at once as it is asked."""
    cluster = PlayedCluster(*assignments)

    async def play() -> None:
        membership = Membership(cluster, GroupOptions("g"), Subscription(("known",)), cluster)  # type: ignore[arg-type]
        running = asyncio.create_task(ConsumerProtocol(membership).run())
        async with asyncio.timeout(10):
            while len(cluster.told) < 10:
                if membership.change is not None:
                    membership.settled(membership.change)
                await asyncio.sleep(0)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    asyncio.run(play())
    return cluster.told[:10]


def test_what_was_given_is_said_once() -> None:
    told = told_by_a_member({KNOWN: [0, 1]})
    assert told == [{}, {KNOWN: [0, 1]}, *[None] * 8]


def test_nothing_is_said_of_nothing() -> None:
    assert told_by_a_member({}) == [{}, *[None] * 9]


def test_what_is_taken_back_before_its_name_is_known_was_given_up() -> None:
    """The coordinator waits to hear that, and nobody else gets the partitions until then."""
    assert told_by_a_member({STRANGE: [0]}, {}) == [{}, None, {}, *[None] * 7]


def test_so_it_is_beside_partitions_that_are_kept() -> None:
    told = told_by_a_member({KNOWN: [0], STRANGE: [0]}, None, None, {KNOWN: [0]})
    assert told.count({KNOWN: [0]}) == 2 and told[-1] is None
    assert {KNOWN: [0]} in told[4:]
