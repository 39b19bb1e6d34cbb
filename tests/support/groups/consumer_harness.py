"""A shard with a log, a clock and members of consumer groups; every event is a line of a transcript."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count
from typing import Any

from ottla.config.load import broker_config
from ottla.groups.config import GroupsConfig
from ottla.groups.consumer.group import ConsumerGroup
from ottla.groups.record_codec import encode_record
from ottla.groups.shard import GroupShard
from ottla.machines.outcome import Outcome, RequestContext
from ottla.protocol.errors import ErrorCode
from ottla.protocol.message import Message
from ottla.protocol.messages.consumer_group_heartbeat_request import (
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)
from ottla.protocol.messages.consumer_group_heartbeat_response import ConsumerGroupHeartbeatResponse
from tests.support.groups.fixed_topics import FixedTopics

GROUP = "g"
START_MS = 1_000_000
STATES = ("stable", "unrevoked", "unreleased")


class ConsumerHarness:
    """`epochs` and `owned` are the members' view: taken from responses, and sent in heartbeats."""

    def __init__(
        self,
        topics: dict[str, int] | None = None,
        overrides: Mapping[str, str] | None = None,
        **properties: str,
    ) -> None:
        given = {name.replace("_", "."): value for name, value in properties.items()}
        self.config = GroupsConfig(broker_config({"node.id": "1", **given}), lambda group_id: overrides or {})
        self.topics = FixedTopics({"t": 4} if topics is None else topics)
        self.now_ms = START_MS
        self.log: list[tuple[bytes, bytes | None]] = []
        self.lines: list[str] = []
        self.epochs: dict[str, int] = {}
        self.intervals: dict[str, int] = {}
        self.owned: dict[str, dict[str, list[int]]] = {}
        # Waiting requests by client, and responses that came later.
        self.waiting: dict[object, None] = {}
        self.answers: dict[object, Any] = {}
        self._uuids = count(1)
        self.shard = self.new_shard()
        self.take(self.shard.loaded(self.now_ms))

    def new_shard(self) -> GroupShard:
        return GroupShard(self.config, self.topics, lambda: f"uuid{next(self._uuids)}")

    def reload(self) -> None:
        """Another coordinator loads the group from the log; waiting requests are refused."""
        for token, response in self.shard.abandon(ErrorCode.NOT_COORDINATOR):
            self._answer(token, response)
        assert not self.waiting, self.waiting
        self.shard = self.new_shard()
        for key, value in self.log:
            self.shard.apply_bytes(key, value, 0)
        self.take(self.shard.loaded(self.now_ms))

    @property
    def group(self) -> ConsumerGroup:
        group = self.shard.group(GROUP)
        assert isinstance(group, ConsumerGroup)
        return group

    def take(self, outcome: Outcome) -> Any:
        for key, value in outcome.records:
            self.log.append(encode_record(key, value))
            self.lines.append(self._record_line(key, value))
        for token, response in outcome.replies:
            self._answer(token, response)
        return outcome.reply

    def _answer(self, token: object, response: Any) -> None:
        del self.waiting[token]
        self.answers[token] = response
        self.lines.append(f"{token}: {ErrorCode(response.error_code).name}")

    def transcript(self) -> list[str]:
        lines, self.lines = self.lines, []
        return lines

    def wait(self, duration_ms: int) -> None:
        end_ms = self.now_ms + duration_ms
        while (wake_ms := self.shard.next_wake_ms) is not None and wake_ms <= end_ms:
            self.now_ms = max(wake_ms, self.now_ms)
            self.take(self.shard.tick(self.now_ms))
        self.now_ms = end_ms

    # Requests.

    def ask(self, api: str, request: Message, version: int, client: str = "") -> Any:
        # As on the wire: without fields that the version does not have.
        request = type(request).decode(version, request.encode(version))
        ctx = RequestContext(token=client, api_version=version, client_id=client, client_host=f"/{client}")
        outcome = getattr(self.shard, f"decide_{api}")(request, ctx, self.now_ms)
        if outcome.reply is None:
            assert client not in self.waiting
            self.waiting[client] = None
        return self.take(outcome)

    def beat(self, client: str, version: int = 1, **fields: Any) -> ConsumerGroupHeartbeatResponse:
        """Send a heartbeat, by default the smallest. `owned` is used for topic_partitions."""
        if "owned" in fields:
            owned = fields.pop("owned")
            fields["topic_partitions"] = (
                None
                if owned is None
                else [
                    TopicPartitions(topic_id=self.id(name), partitions=each) for name, each in owned.items()
                ]
            )
        fields.setdefault("group_id", GROUP)
        fields.setdefault("member_id", client)
        fields.setdefault("member_epoch", self.epochs.get(client, 0))
        request = ConsumerGroupHeartbeatRequest(**fields)
        reply = self.ask("consumer_group_heartbeat", request, version, client)
        assert isinstance(reply, ConsumerGroupHeartbeatResponse)
        self._note(client, request, reply)
        return reply

    def _note(
        self, client: str, request: ConsumerGroupHeartbeatRequest, reply: ConsumerGroupHeartbeatResponse
    ) -> None:
        if reply.error_code:
            self.lines.append(f"{client}: {ErrorCode(reply.error_code).name}")
            return
        line = f"{client}: epoch {reply.member_epoch}"
        if reply.member_epoch < 0:
            self.epochs.pop(client, None)
            self.owned.pop(client, None)
        else:
            self.epochs[client] = reply.member_epoch
            self.intervals[client] = reply.heartbeat_interval_ms
        if reply.assignment is not None:
            self.owned[client] = {
                self.topics.topic_name(each.topic_id) or "?": each.partitions
                for each in reply.assignment.topic_partitions
            }
            line += f", {_shown(self.owned[client])}"
        self.lines.append(line)

    def join(self, client: str, *topics: str, **fields: Any) -> ConsumerGroupHeartbeatResponse:
        given: dict[str, Any] = {
            "member_epoch": 0,
            "rebalance_timeout_ms": 60_000,
            "subscribed_topic_names": [*topics],
            "owned": {},
        }
        return self.beat(client, **(given | fields))

    def ack(self, client: str) -> ConsumerGroupHeartbeatResponse:
        """Send a heartbeat with the partitions of the last assignment."""
        return self.beat(client, owned=self.owned.get(client, {}))

    def leave(self, client: str, **fields: Any) -> ConsumerGroupHeartbeatResponse:
        return self.beat(client, **({"member_epoch": -1} | fields))

    def settle(self, *people: str) -> None:
        """Send heartbeats of all members until nothing changes."""
        for _ in range(20):
            before = len(self.log)
            self.wait(1000)
            for client in people:
                self.beat(client)
                self.ack(client)
            if len(self.log) == before:
                assert self.group.state_name == "Stable"
                self.transcript()
                return
        raise AssertionError("the group does not settle")

    # Names.

    def id(self, name: str) -> bytes:
        topic_id = self.topics.topic_id(name)
        assert topic_id is not None
        return topic_id

    def _topics(self, topics: list[Any]) -> str:
        return _shown({self.topics.topic_name(each.topic_id) or "?": each.partitions for each in topics})

    def _record_line(self, key: Any, value: Any) -> str:
        kind = type(key).__name__.removeprefix("ConsumerGroup").removesuffix("Key")
        client = getattr(key, "member_id", "")
        if kind == "OffsetCommit":
            return f"({key.topic}-{key.partition} at {None if value is None else value.offset})"
        if kind == "GroupMetadata":
            return "(no classic group)" if value is None else f"(classic generation {value.generation})"
        if value is None:
            what = client or getattr(key, "regular_expression", "")
            return f"(no {kind} {what})".replace(" )", ")")
        if kind == "Metadata":
            return f"(group epoch {value.epoch})"
        if kind == "MemberMetadata":
            topics = " ".join([*value.subscribed_topic_names, value.subscribed_topic_regex or ""]).strip()
            return f"({client} reads {topics})"
        if kind == "TargetAssignmentMetadata":
            return f"(assigned for {value.assignment_epoch})"
        if kind == "TargetAssignmentMember":
            return f"({client} should have {self._topics(value.topic_partitions)})"
        if kind == "CurrentMemberAssignment":
            line = f"({client} {STATES[value.state]} in {value.member_epoch}: "
            line += self._topics(value.assigned_partitions)
            if value.partitions_pending_revocation:
                line += f", revokes {self._topics(value.partitions_pending_revocation)}"
            return line + ")"
        assert kind == "RegularExpression", kind
        return f"({key.regular_expression} is {' '.join(value.topics) or 'nothing'})"


def _shown(partitions: Mapping[str, list[int]]) -> str:
    return " ".join(f"{name}:{','.join(map(str, each))}" for name, each in partitions.items()) or "nothing"
