"""One partition of __consumer_offsets: requests, timers and records in, outcomes out.

The host replays the log through `apply` (or `apply_bytes`), calls `loaded`, and from then on passes requests
to `decide_*` and the time to `tick` when `next_wake_ms` is reached. It appends the records of an outcome as
one batch and sends its replies when they are committed. Records are applied when they are decided; if an
append fails, the host drops the machine (`abandon`) and rebuilds it from the log.

Durable state, changed by the appliers of `ShardContext` alone: offsets, and what records say of groups and
members. Soft state, restarted by `loaded`:

- `timers`: sessions, rebalance and sync time-outs, the expiry scan;
- requests that wait for a rebalance: JoinGroup and SyncGroup of classic members, with their tokens;
- members of a classic group that have no record yet, and member ids that were returned and not used;
- per group, `history`, the rebalance in progress, and caches that follow from the durable state.

An applier that removes a group or a member discards its timers, and one that changes the type of a group
keeps its history; no applier reads soft state otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ottla.groups.admin import Admin
from ottla.groups.classic.protocol import ClassicProtocol
from ottla.groups.classic.records import classic_group
from ottla.groups.config import GroupsConfig
from ottla.groups.consumer.protocol import ConsumerProtocol
from ottla.groups.context import ShardContext
from ottla.groups.group import CLASSIC, CONSUMER, Group
from ottla.groups.history import Rebalance
from ottla.groups.offsets.commit import Commit
from ottla.groups.offsets.expiry import Expiry
from ottla.groups.offsets.fetch import Fetch
from ottla.groups.offsets.load import OffsetLoader
from ottla.groups.offsets.records import OffsetRecords
from ottla.groups.record_codec import decode_record
from ottla.groups.topics_view import TopicsView
from ottla.machines.outcome import Outcome, RequestContext, Token
from ottla.protocol.errors import ErrorCode
from ottla.protocol.message import Message
from ottla.protocol.messages.consumer_group_describe_response import DescribedGroup as ConsumerDescribedGroup
from ottla.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from ottla.protocol.messages.describe_groups_response import DescribedGroup
from ottla.protocol.messages.heartbeat_request import HeartbeatRequest
from ottla.protocol.messages.heartbeat_response import HeartbeatResponse
from ottla.protocol.messages.join_group_request import JoinGroupRequest
from ottla.protocol.messages.leave_group_request import LeaveGroupRequest
from ottla.protocol.messages.leave_group_response import LeaveGroupResponse
from ottla.protocol.messages.list_groups_response import ListedGroup
from ottla.protocol.messages.offset_commit_key import OffsetCommitKey
from ottla.protocol.messages.offset_commit_request import OffsetCommitRequest
from ottla.protocol.messages.offset_commit_value import OffsetCommitValue
from ottla.protocol.messages.offset_delete_request import OffsetDeleteRequest
from ottla.protocol.messages.offset_fetch_request import OffsetFetchRequestGroup
from ottla.protocol.messages.offset_fetch_response import OffsetFetchResponseGroup
from ottla.protocol.messages.sync_group_request import SyncGroupRequest
from ottla.protocol.messages.txn_offset_commit_request import TxnOffsetCommitRequest


class GroupShard:
    """`new_uuid` returns the text that makes a member id unique."""

    __slots__ = (
        "_admin",
        "_commit",
        "_expiry",
        "_fetch",
        "_loader",
        "_records",
        "classic",
        "consumer",
        "context",
    )

    def __init__(self, config: GroupsConfig, topics: TopicsView, new_uuid: Callable[[], str]) -> None:
        self.context = ShardContext(config, topics, new_uuid)
        self.classic = ClassicProtocol(self.context)
        self.consumer = ConsumerProtocol(self.context, self.classic)
        self._records = OffsetRecords(self.context)
        self._commit = Commit(self.context, self.classic, self._records)
        self._fetch = Fetch(self.context)
        self._expiry = Expiry(self.context, self._commit)
        self._admin = Admin(self.context, self._commit)
        self._loader = OffsetLoader(self._records)

    # Records.

    def apply(self, key: Message, value: Message | None, timestamp_ms: int, producer_id: int = -1) -> None:
        """Apply a record of the log; `producer_id` is set if its batch belongs to a transaction.

        Unknown types are ignored: another version wrote them.
        """
        self._loader.forget()
        self._apply(key, value, timestamp_ms, producer_id)

    def _apply(self, key: Message, value: Message | None, timestamp_ms: int, producer_id: int) -> None:
        if producer_id >= 0 and value is not None:
            # Only offsets are written in transactions.
            assert isinstance(key, OffsetCommitKey) and isinstance(value, OffsetCommitValue)
            self._records.apply_pending(key, value, producer_id)
            return
        applier = self.context.appliers.get(key.API_KEY)
        if applier is not None:
            applier(key, value, timestamp_ms)

    def apply_bytes(self, key: bytes, value: bytes | None, timestamp_ms: int, producer_id: int = -1) -> None:
        """Apply an encoded record during a load. Raises DecodeError."""
        if producer_id >= 0:
            self._loader.forget()
        elif self._loader.load(key, value):
            return
        decoded = decode_record(key, value)
        if decoded is not None:
            self._apply(*decoded, timestamp_ms, producer_id)

    def apply_marker(self, producer_id: int, committed: bool) -> None:
        """Apply the end of a producer's transaction."""
        self._loader.forget()
        self._records.end_transaction(producer_id, committed)

    def loaded(self, now_ms: int) -> Outcome:
        """Start the sessions: the whole log is applied, and requests may follow."""
        outcome = Outcome()
        self._loader.forget()
        for group_id in self.context.offsets:
            if group_id not in self.context.groups:
                classic_group(self.context, group_id)
        self._expiry.start(now_ms)
        self.classic.loaded(outcome, now_ms)
        self.consumer.loaded(outcome, now_ms)
        return outcome

    def abandon(self, code: ErrorCode) -> list[tuple[Token, Message]]:
        """Return replies for the waiting requests: the shard has moved, or its append failed."""
        return self.classic.abandon(code) + self.consumer.abandon(code)

    # Time.

    @property
    def next_wake_ms(self) -> int | None:
        return self.context.timers.next_wake_ms

    def tick(self, now_ms: int) -> Outcome:
        outcome = Outcome()
        self.context.timers.run(outcome, now_ms)
        return outcome

    def clock_jumped(self, by_ms: int) -> None:
        """Shift all deadlines after the wall clock was set, so that no session ends early or late."""
        self.context.timers.shift(by_ms)

    def topics_changed(self, now_ms: int) -> Outcome:
        """Handle a new epoch of the topics view."""
        outcome = Outcome()
        self.consumer.topics_changed(outcome, now_ms)
        return outcome

    def topics_deleted(self, names: Sequence[str], now_ms: int) -> Outcome:
        """Drop the offsets of deleted topics: a new topic may have the same name."""
        outcome = Outcome()
        for group_id, offsets in [*self.context.offsets.items()]:
            for name in names:
                for partition in offsets.partitions_of(name):
                    self._commit.delete_offset(outcome, group_id, name, partition, now_ms)
        return outcome

    # Membership.

    def group(self, group_id: str) -> Group | None:
        return self.context.groups.get(group_id)

    def decide_join_group(self, request: JoinGroupRequest, ctx: RequestContext, now_ms: int) -> Outcome:
        refusal = self.classic.refuse_join(request)
        if refusal is not None:
            return Outcome(refusal)
        group = self.context.groups.get(request.group_id)
        if group is not None and group.TYPE == CONSUMER:
            return self.consumer.classic_join(group, request, ctx, now_ms)
        return self.classic.join(request, ctx, now_ms)

    def decide_sync_group(self, request: SyncGroupRequest, ctx: RequestContext, now_ms: int) -> Outcome:
        refusal = self.classic.refuse_sync(request, ctx)
        if refusal is not None:
            return Outcome(refusal)
        group = self.context.groups.get(request.group_id)
        if group is not None and group.TYPE == CONSUMER:
            return self.consumer.classic_sync(group, request, ctx, now_ms)
        return self.classic.sync(request, ctx, now_ms)

    def decide_heartbeat(self, request: HeartbeatRequest, ctx: RequestContext, now_ms: int) -> Outcome:
        if not request.group_id:
            return Outcome(HeartbeatResponse(error_code=ErrorCode.INVALID_GROUP_ID))
        group = self.context.groups.get(request.group_id)
        if group is not None and group.TYPE != CLASSIC:
            return self.consumer.classic_heartbeat(group, request, ctx, now_ms)
        return self.classic.heartbeat(request, ctx, now_ms)

    def decide_leave_group(self, request: LeaveGroupRequest, ctx: RequestContext, now_ms: int) -> Outcome:
        if not request.group_id:
            return Outcome(LeaveGroupResponse(error_code=ErrorCode.INVALID_GROUP_ID))
        group = self.context.groups.get(request.group_id)
        if group is not None and group.TYPE == CONSUMER:
            return self.consumer.classic_leave(group, request, ctx, now_ms)
        return self.classic.leave(request, ctx, now_ms)

    def decide_consumer_group_heartbeat(
        self, request: ConsumerGroupHeartbeatRequest, ctx: RequestContext, now_ms: int
    ) -> Outcome:
        return self.consumer.heartbeat(request, ctx, now_ms)

    def describe_consumer_group(self, group_id: str) -> ConsumerDescribedGroup:
        return self.consumer.describe(group_id)

    # Offsets.

    def decide_offset_commit(self, request: OffsetCommitRequest, ctx: RequestContext, now_ms: int) -> Outcome:
        return self._commit.commit(request, ctx, now_ms)

    def decide_txn_offset_commit(
        self, request: TxnOffsetCommitRequest, ctx: RequestContext, now_ms: int
    ) -> Outcome:
        return self._commit.commit_in_transaction(request, ctx, now_ms)

    def decide_offset_delete(self, request: OffsetDeleteRequest, ctx: RequestContext, now_ms: int) -> Outcome:
        return self._commit.delete(request, now_ms)

    def fetch_offsets(
        self, request: OffsetFetchRequestGroup, require_stable: bool, api_version: int
    ) -> OffsetFetchResponseGroup:
        """One group of an OffsetFetch; see groups_of and response_of in ottla.groups.offsets.fetch."""
        return self._fetch.fetch(request, require_stable, api_version)

    # Groups of any type.

    def describe_group(self, group_id: str, api_version: int) -> DescribedGroup:
        """One group of a DescribeGroups."""
        return self._admin.describe(group_id, api_version)

    def list_groups(self, states: Sequence[str] = (), types: Sequence[str] = ()) -> list[ListedGroup]:
        """The shard's part of a ListGroups."""
        return self._admin.listed(states, types)

    def decide_delete_groups(self, group_ids: Sequence[str], ctx: RequestContext, now_ms: int) -> Outcome:
        """The shard's part of a DeleteGroups."""
        return self._admin.delete(group_ids, now_ms)

    def rebalances(self, group_id: str) -> list[Rebalance]:
        """The last rebalances of a group, the newest last: when, why and how long."""
        group = self.context.groups.get(group_id)
        return [] if group is None else [*group.history]
