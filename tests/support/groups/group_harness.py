"""A shard with a log, a clock and clients: every response and record becomes a line of a transcript."""

from __future__ import annotations

from itertools import count
from typing import Any

from ottla.config.load import broker_config
from ottla.groups.config import GroupsConfig
from ottla.groups.record_codec import encode_record
from ottla.groups.shard import GroupShard
from ottla.machines.outcome import Outcome, RequestContext
from ottla.protocol.errors import ErrorCode
from ottla.protocol.message import Message
from ottla.protocol.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from ottla.protocol.messages.group_metadata_key import GroupMetadataKey
from ottla.protocol.messages.group_metadata_value import GroupMetadataValue
from ottla.protocol.messages.heartbeat_request import HeartbeatRequest
from ottla.protocol.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.protocol.messages.join_group_response import JoinGroupResponse
from ottla.protocol.messages.leave_group_request import LeaveGroupRequest, MemberIdentity
from ottla.protocol.messages.leave_group_response import LeaveGroupResponse
from ottla.protocol.messages.offset_commit_key import OffsetCommitKey
from ottla.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.protocol.messages.offset_commit_value import OffsetCommitValue
from ottla.protocol.messages.offset_fetch_request import OffsetFetchRequestGroup, OffsetFetchRequestTopics
from ottla.protocol.messages.sync_group_request import SyncGroupRequest, SyncGroupRequestAssignment
from ottla.protocol.messages.sync_group_response import SyncGroupResponse
from tests.support.groups.fixed_topics import FixedTopics

GROUP = "g"
START_MS = 1_000_000
NEWEST = {
    "join_group": 9,
    "sync_group": 5,
    "leave_group": 5,
    "offset_commit": 9,
    "offset_delete": 0,
    "txn_offset_commit": 3,
}
# A log is a list of these: key, value, producer id; and of markers: None, committed or not, producer id.
LogEntry = tuple[bytes | None, Any, int]


def subscription(*topics: str, owned: bytes | None = None) -> bytes:
    return b"\0\3" + ConsumerProtocolSubscription(topics=[*topics], user_data=owned).encode(3)


class Harness:
    """`ids` maps client names to their member ids. Only `wait` advances the time."""

    def __init__(self, **properties: str) -> None:
        given = {name.replace("_", "."): value for name, value in properties.items()}
        self.config = GroupsConfig(broker_config({"node.id": "1", **given}))
        self.topics = FixedTopics({"t": 4, "u": 2})
        self.now_ms = START_MS
        self.log: list[LogEntry] = []
        self.lines: list[str] = []
        self.ids: dict[str, str] = {}
        self.generations: dict[str, int] = {}
        self.waiting: dict[str, str] = {}
        self._uuids = count(1)
        self._requests = count(1)
        self.shard = self.new_shard()
        self.take(self.shard.loaded(self.now_ms))

    def new_shard(self) -> GroupShard:
        return GroupShard(self.config, self.topics, lambda: str(next(self._uuids)))

    def reload(self) -> None:
        """Fail over: waiting requests are refused, and only the log is left."""
        for token, response in self.shard.abandon(ErrorCode.NOT_COORDINATOR):
            self._answered(str(token), response)
        assert not self.waiting, self.waiting
        self.shard = replay(self.new_shard(), self.log)
        self.take(self.shard.loaded(self.now_ms))

    # Events.

    def take(self, outcome: Outcome, token: str = "") -> Any:
        producer_id = -1 if outcome.producer is None else outcome.producer[0]
        for key, value in outcome.records:
            self.log.append((*encode_record(key, value), producer_id))
            self._line(_record_line(key, value))
        if token and outcome.reply is None:
            self.waiting[token] = token
        for other, response in outcome.replies:
            self._answered(str(other), response)
        if outcome.reply is not None:
            self._answered(token, outcome.reply)
        return outcome.reply

    def _answered(self, token: str, response: Message) -> None:
        self.waiting.pop(token, None)
        client, _, number_and_version = token.rpartition("#")
        version = int(number_and_version.rpartition("v")[2])
        # As the client sees it: without fields that its version does not have.
        response = type(response).decode(version, response.encode(version))
        if isinstance(response, JoinGroupResponse):
            if response.error_code in (ErrorCode.NONE, ErrorCode.MEMBER_ID_REQUIRED):
                self.ids[client] = response.member_id
            if not response.error_code:
                self.generations[client] = response.generation_id
        self._line(_answer_line(client, response))

    def _line(self, line: str) -> None:
        if line:
            self.lines.append(line)

    def transcript(self) -> list[str]:
        lines, self.lines = self.lines, []
        return lines

    def ask(self, client: str, api: str, request: Message, version: int | None = None) -> Any:
        if version is None:
            version = NEWEST[api]
        token = f"{client}#{next(self._requests)}v{version}"
        # As from a real client: without fields that the version does not have.
        request = type(request).decode(version, request.encode(version))
        ctx = RequestContext(token=token, api_version=version, client_id=client, client_host=f"/{client}")
        return self.take(getattr(self.shard, f"decide_{api}")(request, ctx, self.now_ms), token)

    def wait(self, duration_ms: int) -> None:
        """Advance the time and run timers that are due."""
        end_ms = self.now_ms + duration_ms
        while (wake_ms := self.shard.next_wake_ms) is not None and wake_ms <= end_ms:
            self.now_ms = max(wake_ms, self.now_ms)
            before = len(self.lines)
            self.take(self.shard.tick(self.now_ms))
            if len(self.lines) > before:
                self.lines.insert(before, f"-- {self.now_ms - START_MS} ms")
        self.now_ms = end_ms

    # Requests of members; `client` is also the client id.

    def join(
        self,
        client: str,
        *topics: str,
        version: int = 9,
        static: bool = False,
        fresh: bool = False,
        protocols: dict[str, bytes] | None = None,
        protocol_type: str = "consumer",
        session_ms: int = 10_000,
        rebalance_ms: int = 60_000,
        member_id: str | None = None,
        reason: str | None = None,
        group: str = GROUP,
    ) -> Any:
        """Join with the known member id, if any; `fresh` drops it, as a restart does."""
        if protocols is None:
            protocols = {"range": subscription(*(topics or ("t",)))}
        if member_id is None:
            member_id = "" if fresh else self.ids.get(client, "")
        request = JoinGroupRequest(
            group_id=group,
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=rebalance_ms,
            member_id=member_id,
            group_instance_id=client if static else None,
            protocol_type=protocol_type,
            protocols=[
                JoinGroupRequestProtocol(name=name, metadata=data) for name, data in protocols.items()
            ],
            reason=reason,
        )
        return self.ask(client, "join_group", request, version)

    def arrive(self, client: str, *topics: str, **options: Any) -> None:
        """Join in both steps of a new member: get a member id, then join with it."""
        self.join(client, *topics, **options)
        if not options.get("static"):
            self.join(client, *topics, **options)

    def sync(self, client: str, assignments: dict[str, str] | None = None, **changes: Any) -> Any:
        """Sync; the leader sends `assignments`, by client name."""
        given = [
            SyncGroupRequestAssignment(member_id=self.ids[person], assignment=share.encode())
            for person, share in (assignments or {}).items()
        ]
        fields: dict[str, Any] = {
            "group_id": GROUP,
            "generation_id": self.generations.get(client, -1),
            "member_id": self.ids.get(client, ""),
            "protocol_type": "consumer",
            "protocol_name": "range",
            "assignments": given,
        }
        version = changes.pop("version", 5)
        if version < 5:
            fields["protocol_type"] = fields["protocol_name"] = None
        return self.ask(client, "sync_group", SyncGroupRequest(**(fields | changes)), version)

    def heartbeat(self, client: str, **changes: Any) -> ErrorCode:
        fields: dict[str, Any] = {
            "group_id": GROUP,
            "generation_id": self.generations.get(client, -1),
            "member_id": self.ids.get(client, ""),
        }
        request = HeartbeatRequest(**(fields | changes))
        ctx = RequestContext(token=None, api_version=4, client_id=client)
        outcome = self.shard.decide_heartbeat(request, ctx, self.now_ms)
        assert not outcome.records and not outcome.replies
        assert outcome.reply is not None
        return ErrorCode(outcome.reply.error_code)

    def leave(self, client: str, *, reason: str | None = None, version: int = 5) -> Any:
        member_id = self.ids[client]
        if version < 3:
            request = LeaveGroupRequest(group_id=GROUP, member_id=member_id)
        else:
            request = LeaveGroupRequest(
                group_id=GROUP, members=[MemberIdentity(member_id=member_id, reason=reason)]
            )
        return self.ask(client, "leave_group", request, version)

    def stable(self, *people: str, static: bool = False) -> None:
        """Form a group of these members, each with its name as assignment; the first leads."""
        for client in people:
            self.arrive(client, static=static)
        self.wait(self.config.initial_rebalance_delay_ms * 2)
        for client in people[1:]:
            self.sync(client)
        self.sync(people[0], {client: client for client in people})
        self.wait(0)
        self.transcript()

    def commit(
        self, client: str, offsets: dict[tuple[str, int], int], version: int = 9, **changes: Any
    ) -> list[int]:
        """Commit offsets; return the error of each partition."""
        topics: dict[str, list[OffsetCommitRequestPartition]] = {}
        for (topic, partition), offset in offsets.items():
            topics.setdefault(topic, []).append(
                OffsetCommitRequestPartition(
                    partition_index=partition,
                    committed_offset=offset,
                    committed_metadata=changes.get("metadata"),
                )
            )
        changes.pop("metadata", None)
        fields: dict[str, Any] = {
            "group_id": GROUP,
            "generation_id_or_member_epoch": self.generations.get(client, -1),
            "member_id": self.ids.get(client, ""),
            "topics": [
                OffsetCommitRequestTopic(
                    name=name, topic_id=self.topics.topic_id(name) or bytes(16), partitions=partitions
                )
                for name, partitions in topics.items()
            ],
        }
        response = self.ask(client, "offset_commit", OffsetCommitRequest(**(fields | changes)), version)
        return [partition.error_code for topic in response.topics for partition in topic.partitions]

    def fetch(
        self, *partitions: tuple[str, int], group: str = GROUP, stable: bool = False
    ) -> dict[tuple[str, int], Any]:
        """Return the offset or the error name of each partition, by default of all."""
        topics: dict[str, list[int]] = {}
        for topic, partition in partitions:
            topics.setdefault(topic, []).append(partition)
        request = OffsetFetchRequestGroup(
            group_id=group,
            topics=[
                OffsetFetchRequestTopics(name=name, partition_indexes=each) for name, each in topics.items()
            ]
            if partitions
            else None,
        )
        answer = self.shard.fetch_offsets(request, stable, 9)
        assert answer.error_code == 0
        return {
            (topic.name, each.partition_index): (
                ErrorCode(each.error_code).name if each.error_code else each.committed_offset
            )
            for topic in answer.topics
            for each in topic.partitions
        }


def replay(shard: GroupShard, log: list[LogEntry]) -> GroupShard:
    for key, value, producer_id in log:
        if key is None:
            shard.apply_marker(producer_id, value)
        else:
            shard.apply_bytes(key, value, 0, producer_id)
    return shard


def _answer_line(client: str, response: Any) -> str:
    if isinstance(response, JoinGroupResponse):
        if response.error_code:
            return f"{client} join: {ErrorCode(response.error_code).name} {response.member_id}".rstrip()
        line = f"{client} joined as {response.member_id}: generation {response.generation_id}"
        line += f", {response.protocol_name}, led by {response.leader}"
        if response.members:
            line += f" over {' '.join(member.member_id for member in response.members)}"
        return line + (", assigns nothing" if response.skip_assignment else "")
    if isinstance(response, SyncGroupResponse):
        if response.error_code:
            return f"{client} sync: {ErrorCode(response.error_code).name}"
        return f"{client} gets {bytes(response.assignment).decode()!r}"
    if isinstance(response, LeaveGroupResponse):
        codes = [response.error_code, *(member.error_code for member in response.members)]
        return f"{client} leaves: {' '.join(ErrorCode(code).name for code in codes[1:] or codes)}"
    return ""


def _record_line(key: Message, value: Any) -> str:
    if isinstance(key, GroupMetadataKey):
        if value is None:
            return f"({key.group} is gone)"
        assert isinstance(value, GroupMetadataValue)
        shares = " ".join(f"{each.member_id}={bytes(each.assignment).decode()}" for each in value.members)
        return f"({key.group} generation {value.generation}: {shares or 'nobody'})"
    if isinstance(key, OffsetCommitKey):
        assert value is None or isinstance(value, OffsetCommitValue)
        offset = "gone" if value is None else value.offset
        return f"({key.group} {key.topic}-{key.partition}: {offset})"
    return f"({type(key).__name__})"
