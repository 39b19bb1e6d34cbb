"""Requests that no client would send, in any order: no invariant breaks, and each gets one response."""

from __future__ import annotations

from random import Random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ottla.groups.classic.group import COMPLETING, EMPTY, PREPARING, STABLE, ClassicGroup
from ottla.groups.record_codec import encode_record
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
from ottla.protocol.messages.offset_delete_request import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from ottla.protocol.messages.sync_group_request import SyncGroupRequest, SyncGroupRequestAssignment
from tests.support.groups.group_harness import Harness, replay, subscription

GROUPS = ("g",) * 12 + ("h", "")
INSTANCES = (None, None, None, "i", "j")
PROTOCOLS = ("range", "sticky", "")


class Fuzz:
    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.harness = Harness(group_max_size=self.random.choice(["2", "3", "100"]))
        self.shard = self.harness.shard
        self.now_ms = self.harness.now_ms
        self.member_ids = ["", "nobody"]
        self.answers: dict[int, Message | None] = {}
        self.versions: dict[int, int] = {}
        self.log: list[Any] = []

    def step(self) -> None:
        draw = self.random.random()
        if draw < 0.1:
            self.now_ms += self.random.choice([1, 500, 3_000, 3_000, 3_000, 9_000, 60_000])
            self.take(self.shard.tick(self.now_ms))
        elif draw < 0.11:
            self.fail_over()
        elif draw < 0.12:
            ctx = RequestContext(api_version=2)
            outcome = self.shard.decide_delete_groups(["g", "h", "x"], ctx, self.now_ms)
            assert outcome.reply is not None
            self.take(outcome)
        else:
            self.ask(*self.request())
        self.check()

    def fail_over(self) -> None:
        for token, response in self.shard.abandon(ErrorCode.NOT_COORDINATOR):
            self.answered(token, response)
        assert None not in self.answers.values()
        self.shard = replay(self.harness.new_shard(), self.log)
        self.take(self.shard.loaded(self.now_ms))

    def ask(self, method: str, request: Message, version: int) -> None:
        request = type(request).decode(version, request.encode(version))
        token = len(self.answers)
        self.answers[token] = None
        self.versions[token] = version
        ctx = RequestContext(token=token, api_version=version, client_id="c")
        outcome = getattr(self.shard, f"decide_{method}")(request, ctx, self.now_ms)
        if outcome.reply is not None:
            self.answered(token, outcome.reply)
        self.take(outcome)

    def take(self, outcome: Outcome) -> None:
        self.log += [(*encode_record(*record), -1) for record in outcome.records]
        for token, response in outcome.replies:
            self.answered(token, response)

    def answered(self, token: Any, response: Message) -> None:
        assert self.answers[token] is None, "two answers to one request"
        self.answers[token] = response
        response.encode(self.versions[token])
        member_id = getattr(response, "member_id", "")
        if member_id and member_id not in self.member_ids:
            self.member_ids.append(member_id)

    def request(self) -> tuple[str, Message, int]:
        make = self.random.choice(
            [self.join, self.join, self.join, self.sync, self.heartbeat, self.leave, self.commit, self.delete]
        )
        return make()

    def identity(self, version: int, static_from: int) -> dict[str, Any]:
        ids = self.member_ids[:2] + self.member_ids[-5:]
        group = self.shard.group("g")
        if isinstance(group, ClassicGroup) and group.members and self.random.random() < 0.7:
            ids = [*group.members]  # else hardly anything would ever succeed
        identity: dict[str, Any] = {
            "group_id": self.random.choice(GROUPS),
            "member_id": self.random.choice(ids),
        }
        if version >= static_from:
            identity["group_instance_id"] = self.random.choice(INSTANCES)
        return identity

    def generation(self) -> int:
        group = self.shard.group("g")
        current = group.generation if isinstance(group, ClassicGroup) else 0
        return current + self.random.choice([0, 0, 0, 0, -1, 1])

    def join(self) -> tuple[str, Message, int]:
        version = self.random.choice([0, 3, 4, 5, 8, 9, 9])
        names = [self.random.choice(PROTOCOLS) for _ in range(self.random.randrange(4))]
        contents = [subscription("t"), subscription("u"), b"\1junk"]
        protocols = [
            JoinGroupRequestProtocol(name=name, metadata=self.random.choice(contents)) for name in names
        ]
        request = JoinGroupRequest(
            **self.identity(version, 5),
            session_timeout_ms=self.random.choice([5_000, 6_000, 30_000, 2_000_000]),
            rebalance_timeout_ms=self.random.choice([-1, 0, 5_000, 60_000]) if version else -1,
            protocol_type=self.random.choice(["consumer"] * 8 + ["connect", ""]),
            protocols=protocols,
        )
        return "join_group", request, version

    def sync(self) -> tuple[str, Message, int]:
        version = self.random.choice([0, 3, 4, 5])
        ids = self.member_ids[-4:] * 2
        assignments = [SyncGroupRequestAssignment(member_id=each, assignment=b"x") for each in ids]
        request = SyncGroupRequest(
            **self.identity(version, 3),
            generation_id=self.generation(),
            assignments=assignments[: self.random.randrange(8)],
        )
        if version >= 5:
            request.protocol_type = self.random.choice(["consumer", "connect", None])
            request.protocol_name = self.random.choice([*PROTOCOLS, None])
        return "sync_group", request, version

    def heartbeat(self) -> tuple[str, Message, int]:
        version = self.random.choice([0, 4])
        request = HeartbeatRequest(**self.identity(version, 3), generation_id=self.generation())
        return "heartbeat", request, version

    def leave(self) -> tuple[str, Message, int]:
        version = self.random.choice([0, 2, 3, 5])
        if version < 3:
            return "leave_group", LeaveGroupRequest(**self.identity(version, 99)), version
        members = []
        for _ in range(self.random.randrange(3)):
            identity = self.identity(version, 3)
            identity.pop("group_id")
            members.append(MemberIdentity(**identity))
        return "leave_group", LeaveGroupRequest(group_id=self.random.choice(GROUPS), members=members), version

    def commit(self) -> tuple[str, Message, int]:
        version = self.random.choice([2, 6, 7, 9])
        partition = OffsetCommitRequestPartition(partition_index=self.random.randrange(2), committed_offset=1)
        topic = OffsetCommitRequestTopic(name=self.random.choice("tx"), partitions=[partition] * 2)
        request = OffsetCommitRequest(
            **self.identity(version, 7),
            generation_id_or_member_epoch=self.random.choice([-1, self.generation()]),
            topics=[topic],
        )
        return "offset_commit", request, version

    def delete(self) -> tuple[str, Message, int]:
        partition = OffsetDeleteRequestPartition(partition_index=0)
        topic = OffsetDeleteRequestTopic(name="t", partitions=[partition])
        request = OffsetDeleteRequest(group_id=self.random.choice(GROUPS), topics=[topic])
        return "offset_delete", request, 0

    def check(self) -> None:
        for group in self.shard.context.groups.values():
            assert isinstance(group, ClassicGroup)
            members = group.members
            assert group.state in (EMPTY, PREPARING, COMPLETING, STABLE)
            assert group.joining_count == sum(member.is_joining for member in members.values())
            assert group.static_members == {
                member.instance_id: member_id
                for member_id, member in members.items()
                if member.instance_id is not None
            }
            assert all(member_id == member.member_id for member_id, member in members.items())
            assert not set(group.pending_members) & set(members)
            assert set(group.pending_sync) <= set(members)
            if group.state in (COMPLETING, STABLE):
                assert group.leader_id in members
                assert not group.joining_count
            if group.state == EMPTY:
                assert not members
            if group.state != COMPLETING:
                assert not any(member.is_syncing for member in members.values())
            if members:
                assert group.select_protocol() in PROTOCOLS
            for member in members.values():
                waits = member.is_joining or member.is_syncing
                assert waits or (member.session is not None and member.session.is_set), "would live for ever"
            if group.state == PREPARING:
                assert group.join_timer is not None
                assert group.join_timer.is_set, "would wait for ever"


@given(seed=st.integers(0, 2**32))
def test_every_request_is_answered_once(seed: int) -> None:
    fuzz = Fuzz(seed)
    for _ in range(fuzz.random.randrange(10, 150)):
        fuzz.step()
    for _ in range(40):
        fuzz.now_ms += 700_000
        fuzz.take(fuzz.shard.tick(fuzz.now_ms))
        fuzz.check()
    assert None not in fuzz.answers.values()
    assert not any(group.state != EMPTY for group in fuzz.shard.context.groups.values())  # type: ignore[attr-defined]
