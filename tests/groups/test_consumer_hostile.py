"""Requests that no client would send, of both protocols, in any order: nothing breaks."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from ottla.groups.consumer.group import ConsumerGroup
from ottla.groups.shard import GroupShard
from ottla.machines.outcome import RequestContext
from ottla.protocol.message import Message
from ottla.protocol.messages.consumer_group_heartbeat_request import (
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)
from ottla.protocol.messages.consumer_protocol_subscription import (
    ConsumerProtocolSubscription,
    TopicPartition,
)
from ottla.protocol.messages.heartbeat_request import HeartbeatRequest
from ottla.protocol.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.protocol.messages.leave_group_request import LeaveGroupRequest, MemberIdentity
from ottla.protocol.messages.sync_group_request import SyncGroupRequest
from tests.support.groups.consumer_harness import GROUP, ConsumerHarness


class Chaos:
    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.harness = ConsumerHarness({"t": 4, "u": 2}, group_consumer_max_size="5")
        self.ids = ["", "a", "b", "c", "d"]

    def pick(self, *choices: Any) -> Any:
        return self.rng.choice(choices)

    def partitions(self) -> list[int]:
        return self.rng.sample([0, 1, 2, 3, 4, -1], self.rng.randrange(4))

    def epoch(self) -> int:
        group = self.harness.shard.group(GROUP)
        if isinstance(group, ConsumerGroup) and group.members and self.rng.random() < 0.6:
            return self.rng.choice([member.epoch for member in group.members.values()])
        return self.pick(0, 0, 0, 1, 2, 3, -1, -2, -3)

    def heartbeat_848(self) -> tuple[str, Message, int]:
        member_id = self.rng.choice(self.ids)
        epoch = self.epoch()
        topics = [
            TopicPartitions(topic_id=self.pick(self.harness.id("t"), bytes(16)), partitions=self.partitions())
            for _ in range(self.rng.randrange(3))
        ]
        request = ConsumerGroupHeartbeatRequest(
            group_id=GROUP,
            member_id=member_id,
            member_epoch=epoch,
            instance_id=self.pick(None, None, "i", "j", ""),
            rack_id=self.pick(None, None, "r", ""),
            rebalance_timeout_ms=self.pick(-1, 1000, 100, -5) if epoch else 500,
            subscribed_topic_names=self.pick(None, ["t"], ["t", "u", "t"], [], ["?"]),
            subscribed_topic_regex=self.pick(None, None, None, "", ".*", "t", "("),
            server_assignor=self.pick(None, None, None, "range", "uniform", "x"),
            topic_partitions=[] if epoch == 0 else self.pick(None, topics),
        )
        return (
            "consumer_group_heartbeat",
            request,
            self.pick(0, 1) if request.subscribed_topic_regex is None else 1,
        )

    def classic(self) -> tuple[str, Message, int]:
        group = self.harness.shard.group(GROUP)
        known = [*group.members] if group is not None else []  # type: ignore[attr-defined]
        member_id = self.rng.choice(["", *self.ids, *known, *known])
        instance_id = self.pick(None, None, "i", "j")
        generation = self.epoch()
        kind = self.pick("join", "join", "join", "sync", "heartbeat", "leave")
        if kind == "sync":
            request: Message = SyncGroupRequest(
                group_id=GROUP,
                member_id=member_id,
                group_instance_id=instance_id,
                generation_id=generation,
                protocol_type="consumer",
                protocol_name=self.pick("range", "p"),
            )
            return "sync_group", request, 5
        if kind == "heartbeat":
            request = HeartbeatRequest(
                group_id=GROUP, member_id=member_id, group_instance_id=instance_id, generation_id=generation
            )
            return "heartbeat", request, 4
        if kind == "leave":
            identity = MemberIdentity(member_id=member_id, group_instance_id=instance_id)
            return (
                "leave_group",
                LeaveGroupRequest(group_id=GROUP, members=[identity] * self.pick(0, 1, 2)),
                5,
            )
        owned = [TopicPartition(topic=self.pick("t", "?"), partitions=self.partitions())]
        subscription = ConsumerProtocolSubscription(topics=["t", "u"], owned_partitions=owned)
        metadata = self.pick(
            b"\0\3" + subscription.encode(3), b"\0\1" + subscription.encode(1), b"", b"\xff\xff"
        )
        names = self.pick(["range"], ["range", "p"], ["p", "p"], [])
        request = JoinGroupRequest(
            group_id=GROUP,
            session_timeout_ms=10_000,
            rebalance_timeout_ms=self.pick(-1, 0, 1000),
            member_id=member_id,
            group_instance_id=instance_id,
            protocol_type=self.pick("consumer", "consumer", "connect", ""),
            protocols=[JoinGroupRequestProtocol(name=name, metadata=metadata) for name in names],
        )
        return "join_group", request, self.pick(3, 9) if instance_id is None else 9

    def step(self, number: int) -> None:
        harness = self.harness
        if self.rng.random() < 0.1:
            harness.wait(self.pick(10, 1000, 3000, 20_000))
        if self.rng.random() < 0.03:
            harness.reload()
        if self.rng.random() < 0.03:
            harness.topics.set("u", self.rng.randrange(1, 4))
        api, request, version = self.heartbeat_848() if self.rng.random() < 0.7 else self.classic()
        request = type(request).decode(version, request.encode(version))
        ctx = RequestContext(token=number, api_version=version, client_id="x", client_host="/x")
        outcome = getattr(harness.shard, f"decide_{api}")(request, ctx, harness.now_ms)
        if outcome.reply is None:
            harness.waiting[number] = None
        else:
            # Every response can be encoded.
            outcome.reply.encode(version)
            if api == "consumer_group_heartbeat" and outcome.reply.error_code:
                assert not outcome.records and not outcome.replies, "a refusal changes nothing"
        harness.take(outcome)


def check(shard: GroupShard) -> None:
    group = shard.group(GROUP)
    if not isinstance(group, ConsumerGroup):
        return
    owners: dict[tuple[bytes, int], str] = {}
    for member in group.members.values():
        for held in (member.assigned, member.revoking):
            for topic_id, partitions in held.items():
                for partition in partitions:
                    assert (topic_id, partition) not in owners
                    owners[topic_id, partition] = member.member_id
    known = {
        (topic_id, partition): member_id
        for topic_id, partitions in group.owners.items()
        for partition, member_id in partitions.items()
    }
    assert owners == known
    instances = {
        member.instance_id: member.member_id for member in group.members.values() if member.instance_id
    }
    assert group.static_ids == instances
    assert set(group.targets) <= set(group.members)
    used = {member.subscribed_regex for member in group.members.values()} - {""}
    assert set(group.regexes) == used
    assert group.epoch >= group.assignment_epoch
    assert all(member.epoch <= group.assignment_epoch for member in group.members.values())
    assert all(member.session is not None for member in group.members.values())


@pytest.mark.parametrize("seed", range(20))
def test_anything_goes(seed: int) -> None:
    chaos = Chaos(seed)
    for number in range(500):
        chaos.step(number)
        check(chaos.harness.shard)
    log = chaos.harness.log
    fresh = chaos.harness.new_shard()
    for key, value in log:
        fresh.apply_bytes(key, value, 0)
    mine, theirs = fresh.describe_consumer_group(GROUP), chaos.harness.shard.describe_consumer_group(GROUP)
    assert mine == theirs
    # All members fall silent: no request waits for ever, and the group is empty in the end.
    chaos.harness.wait(600_000)
    group = chaos.harness.shard.group(GROUP)
    assert not chaos.harness.waiting
    assert group is None or group.is_empty
