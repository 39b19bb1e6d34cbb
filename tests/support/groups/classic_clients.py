"""Cooperative consumers of the classic protocol, for consumer groups with both protocols."""

from __future__ import annotations

from typing import Any

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.consumer_protocol_assignment import (
    ConsumerProtocolAssignment,
)
from ottla.protocol.messages.consumer_protocol_assignment import TopicPartition as AssignedPartition
from ottla.protocol.messages.consumer_protocol_subscription import (
    ConsumerProtocolSubscription,
    TopicPartition,
)
from ottla.protocol.messages.heartbeat_request import HeartbeatRequest
from ottla.protocol.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.protocol.messages.leave_group_request import LeaveGroupRequest, MemberIdentity
from ottla.protocol.messages.sync_group_request import SyncGroupRequest, SyncGroupRequestAssignment
from tests.support.groups.consumer_harness import GROUP, ConsumerHarness

PROTOCOL = "cooperative-sticky"


def read_assignment(data: bytes) -> dict[str, list[int]]:
    if not data:
        return {}
    message = ConsumerProtocolAssignment.decode(int.from_bytes(data[:2], "big"), data, 2)
    return {each.topic: each.partitions for each in message.assigned_partitions}


def write_assignment(partitions: dict[str, list[int]]) -> bytes:
    message = ConsumerProtocolAssignment(
        assigned_partitions=[
            AssignedPartition(topic=name, partitions=each) for name, each in partitions.items()
        ]
    )
    return b"\0\3" + message.encode(3)


class ClassicClient:
    """Has one request in flight; it owns its last assignment."""

    def __init__(
        self, harness: ConsumerHarness, name: str, *topics: str, instance_id: str | None = None
    ) -> None:
        self.harness = harness
        self.name = name
        self.topics = [*topics]
        self.instance_id = instance_id
        self.member_id = ""
        self.generation = -1
        self.owned: dict[str, list[int]] = {}
        self.response: Any = None
        self.awaits = ""

    def join(self, **changes: Any) -> ErrorCode | None:
        """Send JoinGroup; return None while it waits."""
        subscription = ConsumerProtocolSubscription(
            topics=self.topics,
            owned_partitions=[
                TopicPartition(topic=name, partitions=each) for name, each in self.owned.items()
            ],
            generation_id=self.generation,
        )
        fields: dict[str, Any] = {
            "group_id": GROUP,
            "session_timeout_ms": 30_000,
            "rebalance_timeout_ms": 60_000,
            "member_id": self.member_id,
            "group_instance_id": self.instance_id,
            "protocol_type": "consumer",
            "protocols": [
                JoinGroupRequestProtocol(name=PROTOCOL, metadata=b"\0\3" + subscription.encode(3)),
                JoinGroupRequestProtocol(name="range", metadata=b"\0\3" + subscription.encode(3)),
            ],
        }
        self.awaits = "join"
        return self._hear(
            self.harness.ask("join_group", JoinGroupRequest(**(fields | changes)), 9, self.name)
        )

    def hear(self) -> ErrorCode | None:
        """Return the response to the waiting request, if there is one."""
        return self._hear(self.harness.answers.pop(self.name, None))

    def _hear(self, response: Any) -> ErrorCode | None:
        if response is None:
            response = self.harness.answers.pop(self.name, None)
        if response is None:
            return None
        self.response = response
        code = ErrorCode(response.error_code)
        if self.awaits == "join":
            if code in (ErrorCode.NONE, ErrorCode.MEMBER_ID_REQUIRED):
                self.member_id = response.member_id
            if not code:
                self.generation = response.generation_id
        elif not code:
            self.owned = read_assignment(bytes(response.assignment))
        self.awaits = ""
        return code

    def sync(self, given: dict[str, dict[str, list[int]]] | None = None, **changes: Any) -> ErrorCode | None:
        fields: dict[str, Any] = {
            "group_id": GROUP,
            "generation_id": self.generation,
            "member_id": self.member_id,
            "group_instance_id": self.instance_id,
            "protocol_type": "consumer",
            "protocol_name": PROTOCOL,
            "assignments": [
                SyncGroupRequestAssignment(member_id=member_id, assignment=write_assignment(share))
                for member_id, share in (given or {}).items()
            ],
        }
        self.awaits = "sync"
        return self._hear(
            self.harness.ask("sync_group", SyncGroupRequest(**(fields | changes)), 5, self.name)
        )

    def heartbeat(self, **changes: Any) -> ErrorCode:
        fields: dict[str, Any] = {
            "group_id": GROUP,
            "generation_id": self.generation,
            "member_id": self.member_id,
            "group_instance_id": self.instance_id,
        }
        reply = self.harness.ask("heartbeat", HeartbeatRequest(**(fields | changes)), 4, self.name)
        return ErrorCode(reply.error_code)

    def leave(self, **changes: Any) -> ErrorCode:
        identity = {"member_id": self.member_id, "group_instance_id": self.instance_id} | changes
        request = LeaveGroupRequest(group_id=GROUP, members=[MemberIdentity(**identity)])
        reply = self.harness.ask("leave_group", request, 5, self.name)
        return ErrorCode(reply.members[0].error_code)

    def arrive(self) -> None:
        """Join a consumer group with all steps."""
        if self.join() == ErrorCode.MEMBER_ID_REQUIRED:
            assert self.join() == ErrorCode.NONE
        assert self.sync() == ErrorCode.NONE

    def follow(self) -> bool:
        """Send a heartbeat and rebalance if required; return whether it did."""
        if self.heartbeat() == ErrorCode.NONE:
            return False
        assert self.join() == ErrorCode.NONE
        assert self.sync() == ErrorCode.NONE
        return True
