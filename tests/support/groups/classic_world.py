"""Consumers of a classic group on a shard that may fail over at any time.

Everything is drawn from one seed. Consumers are eager: they release all partitions before they rejoin.
"""

from __future__ import annotations

from random import Random
from typing import Any

from ottla.groups.classic.group import EMPTY, STABLE, ClassicGroup
from ottla.groups.record_codec import encode_record
from ottla.groups.shard import GroupShard
from ottla.machines.outcome import Outcome, RequestContext
from ottla.protocol.errors import ErrorCode
from ottla.protocol.message import Message
from ottla.protocol.messages.heartbeat_request import HeartbeatRequest
from ottla.protocol.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.protocol.messages.leave_group_request import LeaveGroupRequest, MemberIdentity
from ottla.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.protocol.messages.sync_group_request import SyncGroupRequest, SyncGroupRequestAssignment
from tests.support.groups.group_harness import GROUP, Harness, LogEntry, replay, subscription

PARTITIONS = 6
APIS = {
    JoinGroupRequest: ("decide_join_group", 9),
    SyncGroupRequest: ("decide_sync_group", 5),
    HeartbeatRequest: ("decide_heartbeat", 4),
    LeaveGroupRequest: ("decide_leave_group", 5),
    OffsetCommitRequest: ("decide_offset_commit", 9),
}


class Consumer:
    """Its view: `owned` in `generation`. `asked` is the waiting request, if any."""

    def __init__(self, name: str, is_static: bool) -> None:
        self.name = name
        self.is_static = is_static
        self.is_alive = True
        self.topics = ["t"]
        self.runs = 0  # responses to requests of an earlier run are dropped
        self.forget()

    def forget(self) -> None:
        self.runs += 1
        self.member_id = ""
        self.generation = -1
        self.owned: list[int] = []
        self.wants_join = True
        self.asked: Message | None = None

    @property
    def instance_id(self) -> str | None:
        return self.name if self.is_static else None

    def next_request(self) -> Message:
        if not self.wants_join:
            return HeartbeatRequest(
                group_id=GROUP,
                generation_id=self.generation,
                member_id=self.member_id,
                group_instance_id=self.instance_id,
            )
        self.owned = []
        return JoinGroupRequest(
            group_id=GROUP,
            session_timeout_ms=10_000,
            rebalance_timeout_ms=20_000,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=subscription(*self.topics))],
        )

    def commit_request(self) -> OffsetCommitRequest:
        partitions = [
            OffsetCommitRequestPartition(partition_index=partition, committed_offset=self.generation)
            for partition in self.owned
        ]
        return OffsetCommitRequest(
            group_id=GROUP,
            generation_id_or_member_epoch=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            topics=[OffsetCommitRequestTopic(name="t", partitions=partitions)],
        )

    def heard(self, request: Message, response: Any) -> Message | None:
        """Process a response; return the request that follows it, if any."""
        code = 0
        if not isinstance(request, OffsetCommitRequest):
            code = response.error_code
        if code == ErrorCode.FENCED_INSTANCE_ID:
            self.is_alive = False
        elif code == ErrorCode.UNKNOWN_MEMBER_ID:
            runs = self.runs
            self.forget()
            self.runs = runs
        elif code == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = response.member_id
            return self.next_request()
        elif code == ErrorCode.NOT_COORDINATOR:
            pass
        elif code:
            assert code in (ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION), ErrorCode(code)
            self.wants_join = True
        elif isinstance(request, JoinGroupRequest):
            self.member_id = response.member_id
            self.generation = response.generation_id
            return self._sync(response)
        elif isinstance(request, SyncGroupRequest):
            self.owned = [*response.assignment]
            self.wants_join = False
        return None

    def _sync(self, response: Any) -> SyncGroupRequest:
        assignments = []
        if response.leader == self.member_id and not response.skip_assignment:
            count = len(response.members)
            assert count, "the leader gets no members to assign to"
            for index, member in enumerate(response.members):
                share = bytes(range(index, PARTITIONS, count))
                assignments.append(SyncGroupRequestAssignment(member_id=member.member_id, assignment=share))
        return SyncGroupRequest(
            group_id=GROUP,
            generation_id=response.generation_id,
            member_id=response.member_id,
            group_instance_id=self.instance_id,
            protocol_type=response.protocol_type,
            protocol_name=response.protocol_name,
            assignments=assignments,
        )


class World:
    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.harness = Harness()
        self.harness.topics.set("t", PARTITIONS)
        self.consumers: list[Consumer] = []
        self.waiting: dict[tuple[Consumer, int, int], Message] = {}
        self.sent = 0
        self.log: list[LogEntry] = []
        self.committed: dict[int, int] = {}
        self.shard = self.harness.shard
        self.now_ms = self.harness.now_ms
        self.append_fails = 0.0

    # One event.

    def step(self) -> None:
        draw = self.random.random()
        alive = [each for each in self.consumers if each.is_alive]
        if draw < 0.08 and len(alive) < 5:
            self.consumers.append(Consumer(f"c{len(self.consumers)}", self.random.random() < 0.4))
        elif draw < 0.11 and alive:
            self.random.choice(alive).is_alive = False  # a crash: it sends no more requests
        elif draw < 0.14 and alive:
            self._leave(self.random.choice(alive))
        elif draw < 0.18:
            self._restart()
        elif draw < 0.20 and alive:
            consumer = self.random.choice(alive)
            consumer.topics = self.random.choice([["t"], ["t", "u"]])
            consumer.wants_join = True
        elif draw < 0.22:
            self.fail_over()
        elif draw < 0.32 and alive:
            consumer = self.random.choice(alive)
            if consumer.owned:
                self.send(consumer, consumer.commit_request())
        else:
            self.pass_time(self.random.choice([0, 100, 1_000, 3_000]))
            self.everybody_asks()
        self.check()

    def everybody_asks(self) -> None:
        for consumer in self.consumers:
            if consumer.is_alive and consumer.asked is None:
                self.send(consumer, consumer.next_request())

    def _leave(self, consumer: Consumer) -> None:
        consumer.is_alive = False
        if consumer.member_id and consumer.instance_id is None:
            members = [MemberIdentity(member_id=consumer.member_id)]
            self.send(consumer, LeaveGroupRequest(group_id=GROUP, members=members))

    def _restart(self) -> None:
        """Restart any consumer, dead or alive; a static one keeps its name."""
        if self.consumers:
            consumer = self.random.choice(self.consumers)
            consumer.forget()
            consumer.is_alive = True

    def fail_over(self) -> None:
        abandoned = self.shard.abandon(ErrorCode.NOT_COORDINATOR)
        self.shard = replay(self.harness.new_shard(), self.log)
        self._take(self.shard.loaded(self.now_ms))
        for token, response in abandoned:
            self._answer(token, response)

    def pass_time(self, duration_ms: int) -> None:
        end_ms = self.now_ms + duration_ms
        while (wake_ms := self.shard.next_wake_ms) is not None and wake_ms <= end_ms:
            self.now_ms = max(wake_ms, self.now_ms)
            self._take(self.shard.tick(self.now_ms))
        self.now_ms = end_ms

    # Requests and answers.

    def send(self, consumer: Consumer, request: Message) -> None:
        method, version = APIS[type(request)]
        request = type(request).decode(version, request.encode(version))
        self.sent += 1
        token = (consumer, consumer.runs, self.sent)
        ctx = RequestContext(token=token, api_version=version, client_id=consumer.name)
        consumer.asked = request
        self.waiting[token] = request
        shard = self.shard
        outcome: Outcome = getattr(shard, method)(request, ctx, self.now_ms)
        if outcome.reply is not None:
            outcome.answer(token, outcome.reply)
        self._take(outcome)

    def _take(self, outcome: Outcome) -> None:
        if outcome.records and self.random.random() < self.append_fails:
            # Nothing was appended: the requests are retried.
            for token, _ in outcome.replies:
                self._answer(token, None)
            self.fail_over()
            return
        for key, value in outcome.records:
            self.log.append((*encode_record(key, value), -1))
        for token, response in outcome.replies:
            self._answer(token, response)

    def _answer(self, token: Any, response: Message | None) -> None:
        consumer, runs, _ = token
        request = self.waiting.pop(token)
        if consumer.runs != runs or not consumer.is_alive:
            return
        consumer.asked = None
        if response is None:
            return
        _, version = APIS[type(request)]
        response = type(response).decode(version, response.encode(version))
        if isinstance(request, OffsetCommitRequest):
            self._committed(request, response)
        follow_up = consumer.heard(request, response)
        if follow_up is not None:
            self.send(consumer, follow_up)

    def _committed(self, request: OffsetCommitRequest, response: Any) -> None:
        for partition in response.topics[0].partitions:
            if not partition.error_code:
                self.committed[partition.partition_index] = request.generation_id_or_member_epoch

    # Invariants.

    def check(self) -> None:
        group = self.shard.group(GROUP)
        assert group is None or isinstance(group, ClassicGroup)
        owners: dict[int, str] = {}
        for consumer in self.consumers:
            member = None if group is None else group.members.get(consumer.member_id)
            if group is None or member is None or consumer.generation != group.generation:
                continue  # its commits are refused in any case
            for partition in consumer.owned:
                assert partition not in owners, f"{consumer.name} and {owners[partition]} own {partition}"
                owners[partition] = consumer.name
        if group is not None:
            assert group.joining_count == sum(member.is_joining for member in group.members.values())
            assert (group.state == EMPTY) <= (not group.members)

    def check_log(self) -> None:
        once = replay(self.harness.new_shard(), self.log)
        twice = replay(self.harness.new_shard(), [entry for entry in self.log for _ in range(2)])
        assert hard_state(once) == hard_state(twice)
        group = self.shard.group(GROUP)
        if group is None or group.state_name in (STABLE, EMPTY):
            assert hard_state(once) == hard_state(self.shard)
        prefix = replay(self.harness.new_shard(), self.log[: self.random.randrange(len(self.log) + 1)])
        prefix.loaded(self.now_ms)
        prefix.tick(self.now_ms + 1_000_000)

    def settle(self) -> None:
        """Run without failures until the group is stable and every partition has an owner."""
        self.append_fails = 0.0
        for _ in range(80):
            self.pass_time(1_000)
            self.everybody_asks()
        self.check()
        alive = [each for each in self.consumers if each.is_alive]
        owned = sorted(partition for consumer in alive for partition in consumer.owned)
        group = self.shard.group(GROUP)
        if alive:
            assert group is not None
            assert group.state_name == STABLE, group.state_name
            assert owned == [*range(PARTITIONS)]


def hard_state(shard: GroupShard) -> Any:
    """Return the state that results from the log alone."""
    groups = []
    for group in sorted(shard.context.groups.values(), key=lambda each: each.group_id):
        assert isinstance(group, ClassicGroup)
        members = [
            (
                *(each.member_id, each.instance_id, each.client_id, each.session_timeout_ms),
                *(each.metadata(group.protocol_name or ""), each.assignment),
            )
            for each in sorted(group.members.values(), key=lambda each: each.member_id)
        ]
        groups.append(
            (
                *(group.group_id, group.state, group.generation, group.protocol, group.protocol_name),
                *(group.leader_id, members, group.subscribed),
            )
        )
    return groups, {group_id: offsets.topics for group_id, offsets in shard.context.offsets.items()}
