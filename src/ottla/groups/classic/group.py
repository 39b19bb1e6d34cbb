"""A classic group: its members, its generation and its state.

    Empty ----- first member ----> PreparingRebalance ---- all have joined, ----> CompletingRebalance
      ^                              ^   ^      |           or time is up             |        |
      |                              |   |      |                                     |        | the leader's
      +--- no member is left --------|---|------+                                     |        v assignment
                                     |   +--- join, leave, time-out ------------------+      Stable
                                     +------- join, leave, time-out ----------------------------+

A group that does not exist is Dead. Only Empty and Stable are in the log: a new coordinator loads a group in
its state before the rebalance in progress, and its members rejoin.
"""

from __future__ import annotations

from typing import Final

from ottla.groups.classic.member import ClassicMember, Protocols
from ottla.groups.classic.subscription import subscribed_topics
from ottla.groups.group import CLASSIC, Group
from ottla.groups.history import RebalanceHistory
from ottla.machines.outcome import Record
from ottla.machines.timers import Timer
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.group_metadata_key import GroupMetadataKey

EMPTY: Final = "Empty"
PREPARING: Final = "PreparingRebalance"
COMPLETING: Final = "CompletingRebalance"
STABLE: Final = "Stable"
DEAD: Final = "Dead"

CONSUMER_PROTOCOL_TYPE: Final = "consumer"


class ClassicGroup(Group):
    """`protocol` is the protocol type of all members, `protocol_name` the protocol of this generation."""

    __slots__ = (
        "generation",
        "initial_remaining_ms",
        "is_initial",
        "join_timer",
        "joining_count",
        "leader_id",
        "members",
        "newcomers",
        "pending_members",
        "pending_sync",
        "protocol",
        "protocol_counts",
        "protocol_name",
        "state",
        "state_since_ms",
        "static_members",
        "subscribed",
        "sync_timer",
    )
    TYPE = CLASSIC

    def __init__(self, group_id: str, history: RebalanceHistory) -> None:
        super().__init__(group_id, history)
        self.state = EMPTY
        self.state_since_ms = -1
        self.generation = 0
        self.protocol: str | None = None  # None: the group never had a member, only offsets
        self.protocol_name: str | None = None
        self.leader_id: str | None = None
        self.members: dict[str, ClassicMember] = {}
        self.static_members: dict[str, str] = {}
        # The number of members that support each protocol.
        self.protocol_counts: dict[str, int] = {}
        # Topics that members subscribe to; None if unknown.
        self.subscribed: dict[str, None] | None = None
        # Member ids that were returned and not used yet, with the end of their session.
        self.pending_members: dict[str, Timer] = {}
        # Members that have not sent their SyncGroup in this generation.
        self.pending_sync: dict[str, None] = {}
        self.joining_count = 0
        self.join_timer: Timer | None = None
        self.sync_timer: Timer | None = None
        # The rebalance began in an empty group and waits for more members. Has any joined since?
        self.is_initial = False
        self.newcomers = False
        self.initial_remaining_ms = 0

    # The interface of Group.

    @property
    def state_name(self) -> str:
        return self.state

    @property
    def protocol_type(self) -> str:
        return self.protocol or ""

    @property
    def is_empty(self) -> bool:
        return self.state == EMPTY

    def is_subscribed_to(self, topic: str) -> bool:
        if self.subscribed is not None:
            return topic in self.subscribed
        return self.protocol == CONSUMER_PROTOCOL_TYPE and not self.is_empty

    def check_offset_commit(
        self, member_id: str, instance_id: str | None, generation: int, api_version: int, transactional: bool
    ) -> ErrorCode:
        if generation < 0 and self.state == EMPTY:
            return ErrorCode.NONE  # an admin, or a consumer that assigns partitions by itself
        if generation >= 0 or member_id or instance_id is not None:
            code = self.check_member(member_id, instance_id)
            if code:
                return code
            if generation != self.generation:
                return ErrorCode.ILLEGAL_GENERATION
        elif not transactional:
            return ErrorCode.UNKNOWN_MEMBER_ID
        # A member without an assignment in this generation has nothing to commit. These checks also apply to
        # commits in transactions; those of old clients name no member.
        if self.state == COMPLETING and not transactional:
            return ErrorCode.REBALANCE_IN_PROGRESS
        return ErrorCode.NONE

    def check_offset_fetch(self, member_id: str | None, member_epoch: int) -> ErrorCode:
        return ErrorCode.NONE

    def check_offset_delete(self) -> ErrorCode:
        # The topics of members with other protocols are unknown, so none of their offsets may be deleted.
        if self.state != EMPTY and self.protocol != CONSUMER_PROTOCOL_TYPE:
            return ErrorCode.NON_EMPTY_GROUP
        return ErrorCode.NONE

    def check_delete(self) -> ErrorCode:
        return ErrorCode.NONE if self.state == EMPTY else ErrorCode.NON_EMPTY_GROUP

    def offsets_expire_from_ms(self, topic: str, commit_ms: int) -> int | None:
        if self.protocol is None:
            return commit_ms
        if self.state == EMPTY:
            # An admin may commit for a group that has been empty for long: that counts as use.
            return max(self.state_since_ms, commit_ms)
        if self.state == STABLE and self.subscribed is not None and topic not in self.subscribed:
            return commit_ms
        return None

    def tombstones(self) -> list[Record]:
        return [(GroupMetadataKey(group=self.group_id), None)]

    def discard(self) -> None:
        for member in self.members.values():
            member.has_left()
        for timer in self.pending_members.values():
            timer.discard()
        for each in (self.join_timer, self.sync_timer):
            if each is not None:
                each.discard()
        self.join_timer = self.sync_timer = None

    # Members.

    def check_member(self, member_id: str, instance_id: str | None) -> ErrorCode:
        if instance_id is not None:
            known = self.static_members.get(instance_id)
            if known is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            if known != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
        return ErrorCode.NONE if member_id in self.members else ErrorCode.UNKNOWN_MEMBER_ID

    def supports(self, protocol_type: str, protocols: Protocols) -> bool:
        """Whether a member with these protocols can join; any member can join an empty group."""
        if not self.members:
            return bool(protocol_type) and bool(protocols)
        if protocol_type != self.protocol:
            return False
        everybody = len(self.members)
        return any(self.protocol_counts.get(name) == everybody for name, _ in protocols)

    def add(self, member: ClassicMember, protocol_type: str) -> None:
        assert member.member_id not in self.members
        if not self.members:
            self.protocol = protocol_type
        if member.instance_id is not None:
            assert member.instance_id not in self.static_members
            self.static_members[member.instance_id] = member.member_id
        self.members[member.member_id] = member
        self._count_protocols(member.protocols, 1)
        if self.leader_id is None:
            self.leader_id = member.member_id

    def remove(self, member: ClassicMember) -> None:
        del self.members[member.member_id]
        self._count_protocols(member.protocols, -1)
        if member.instance_id is not None:
            del self.static_members[member.instance_id]
        if member.is_joining:
            self.joining_count -= 1
        self.pending_sync.pop(member.member_id, None)
        if self.leader_id == member.member_id:
            self.leader_id = next(iter(self.members), None)
        member.has_left()

    def rename(self, member: ClassicMember, member_id: str) -> None:
        """Change the member id of a static member that rejoined."""
        assert member.instance_id is not None
        old_id = member.member_id
        del self.members[old_id]
        member.member_id = member_id
        self.members[member_id] = member
        self.static_members[member.instance_id] = member_id
        if self.pending_sync.pop(old_id, self) is not self:
            self.pending_sync[member_id] = None
        if self.leader_id == old_id:
            self.leader_id = member_id

    def set_protocols(self, member: ClassicMember, protocols: Protocols) -> None:
        self._count_protocols(member.protocols, -1)
        member.protocols = protocols
        self._count_protocols(protocols, 1)

    def _count_protocols(self, protocols: Protocols, step: int) -> None:
        counts = self.protocol_counts
        for name, _ in protocols:
            count = counts.get(name, 0) + step
            if count:
                counts[name] = count
            else:
                del counts[name]

    @property
    def has_all_joined(self) -> bool:
        return self.joining_count == len(self.members) and not self.pending_members

    @property
    def rebalance_timeout_ms(self) -> int:
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def elect_leader(self) -> bool:
        """Keep the leader if it has joined, else take the first member that has. False if none has."""
        leader = self.members.get(self.leader_id or "")
        if leader is not None and leader.is_joining:
            return True
        for member in self.members.values():
            if member.is_joining:
                self.leader_id = member.member_id
                return True
        return False

    def select_protocol(self) -> str:
        """Every member votes for the first of its protocols that all members support."""
        everybody = len(self.members)
        candidates = {name: count for name, count in self.protocol_counts.items() if count == everybody}
        votes: dict[str, int] = {}
        for member in self.members.values():
            name = member.vote(candidates)
            votes[name] = votes.get(name, 0) + 1
        return max(votes, key=votes.__getitem__)

    def topics_of(self, member: ClassicMember) -> list[str] | None:
        """Return the topics that the member subscribes to; None if its metadata does not name them."""
        if self.protocol != CONSUMER_PROTOCOL_TYPE:
            return None
        return subscribed_topics(member.metadata(self.protocol_name or ""))

    def find_subscribed(self) -> None:
        """Collect the topics that members subscribe to, as far as their metadata names them."""
        self.subscribed = None
        if self.protocol != CONSUMER_PROTOCOL_TYPE:
            return
        found: dict[str, None] = {}
        if self.protocol_name is not None:
            for member in self.members.values():
                topics = self.topics_of(member)
                if topics is None:
                    return
                found.update(dict.fromkeys(topics))
        self.subscribed = found
