"""A consumer group: members, owners of partitions, and the assignment they are moving to."""

from __future__ import annotations

from typing import Final

from ottla.groups.consumer.member import Member, ResolvedRegex, Target
from ottla.groups.consumer.records import group_tombstones
from ottla.groups.group import CONSUMER, Group
from ottla.groups.history import RebalanceHistory
from ottla.machines.outcome import Record
from ottla.machines.timers import Timer
from ottla.protocol.errors import ErrorCode

EMPTY: Final = "Empty"
ASSIGNING: Final = "Assigning"
RECONCILING: Final = "Reconciling"
STABLE: Final = "Stable"

# The first version of OffsetCommit that carries the member epoch.
OFFSET_COMMIT_WITH_EPOCH: Final = 9


class ConsumerGroup(Group):
    """Attributes above the line come from records; those below it are soft state, recomputed after a load."""

    __slots__ = (
        "_topics",
        "assigned_at_ms",
        "assignment_epoch",
        "assignment_timer",
        "epoch",
        "epoch_since_ms",
        "members",
        "metadata_hash",
        "owners",
        "regex_looked_ms",
        "regexes",
        "static_ids",
        "targets",
        "topic_hashes",
        "topics_epoch",
    )
    TYPE = CONSUMER

    def __init__(self, group_id: str, history: RebalanceHistory) -> None:
        super().__init__(group_id, history)
        self.epoch = 0
        self.epoch_since_ms = -1
        self.metadata_hash = 0
        self.assignment_epoch = 0
        self.assigned_at_ms = 0
        self.members: dict[str, Member] = {}
        self.static_ids: dict[str, str] = {}  # member id by instance id
        self.targets: dict[str, Target] = {}
        self.regexes: dict[str, ResolvedRegex] = {}
        # The member that owns a partition, or has not confirmed its revocation.
        self.owners: dict[bytes, dict[int, str]] = {}

        # The epoch of the topics view for which metadata_hash was last verified.
        self.topics_epoch = -1
        # The topics in metadata_hash, to report which topic has changed; empty if unknown.
        self.topic_hashes: dict[str, int] = {}
        self.regex_looked_ms = -1 << 62
        self.assignment_timer: Timer | None = None
        self._topics: dict[str, None] | None = None

    # The interface of Group.

    @property
    def state_name(self) -> str:
        if not self.members:
            return EMPTY
        if self.epoch > self.assignment_epoch:
            return ASSIGNING
        return STABLE if self.is_reconciled else RECONCILING

    @property
    def protocol_type(self) -> str:
        return "consumer"

    @property
    def is_empty(self) -> bool:
        return not self.members

    def is_subscribed_to(self, topic: str) -> bool:
        return topic in self.subscribed_topics

    def check_offset_commit(
        self, member_id: str, instance_id: str | None, generation: int, api_version: int, transactional: bool
    ) -> ErrorCode:
        names_no_member = not member_id and instance_id is None
        if generation < 0 and (not self.members or (transactional and names_no_member)):
            return ErrorCode.NONE
        member = self.members.get(member_id)
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if instance_id is not None and member.instance_id != instance_id:
            return ErrorCode.FENCED_INSTANCE_ID
        if member.uses_classic_protocol:
            return ErrorCode.NONE if generation == member.epoch else ErrorCode.ILLEGAL_GENERATION
        if api_version < OFFSET_COMMIT_WITH_EPOCH and not transactional:
            return ErrorCode.UNSUPPORTED_VERSION
        # A smaller epoch is checked for each partition (check_partition_commit).
        return ErrorCode.NONE if 0 <= generation <= member.epoch else ErrorCode.STALE_MEMBER_EPOCH

    def check_partition_commit(
        self, member_id: str, generation: int, topic_id: bytes, partition: int
    ) -> ErrorCode:
        member = self.members.get(member_id)
        if member is None or generation < 0 or generation >= member.epoch:
            return ErrorCode.NONE
        since = member.assigned.get(topic_id, {}).get(partition)
        if since is None:
            since = member.revoking.get(topic_id, {}).get(partition)
        return ErrorCode.NONE if since is not None and generation >= since else ErrorCode.STALE_MEMBER_EPOCH

    def check_offset_fetch(self, member_id: str | None, member_epoch: int) -> ErrorCode:
        if not member_id and member_epoch < 0:
            return ErrorCode.NONE
        member = self.members.get(member_id or "")
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return ErrorCode.NONE if member.epoch == member_epoch else ErrorCode.STALE_MEMBER_EPOCH

    def check_offset_delete(self) -> ErrorCode:
        return ErrorCode.NONE

    def check_delete(self) -> ErrorCode:
        return ErrorCode.NON_EMPTY_GROUP if self.members else ErrorCode.NONE

    def offsets_expire_from_ms(self, topic: str, commit_ms: int) -> int | None:
        if self.is_subscribed_to(topic):
            return None
        # The last epoch of an empty group began when it became empty: until then its offsets were in use.
        return commit_ms if self.members else max(commit_ms, self.epoch_since_ms)

    def tombstones(self) -> list[Record]:
        return group_tombstones(self.group_id, self.members, self.regexes)

    def discard(self) -> None:
        for member in self.members.values():
            member.discard_timers()
        if self.assignment_timer is not None:
            self.assignment_timer.discard()
            self.assignment_timer = None

    # For the protocol.

    @property
    def is_reconciled(self) -> bool:
        return all(member.is_reconciled_to(self.assignment_epoch) for member in self.members.values())

    @property
    def subscribed_topics(self) -> dict[str, None]:
        """The names of all topics that members subscribe to, including those that do not exist."""
        if self._topics is None:
            self._topics = {}
            for member in self.members.values():
                self._topics.update(dict.fromkeys(self.topics_of(member)))
        return self._topics

    def subscriptions_changed(self) -> None:
        self._topics = None

    def topics_of(self, member: Member) -> tuple[str, ...]:
        """The topics that the member subscribes to by name and by pattern."""
        resolved = self.regexes.get(member.subscribed_regex) if member.subscribed_regex else None
        if resolved is None or not resolved.topics:
            return member.subscribed_topics
        if not member.subscribed_topics:
            return resolved.topics
        return tuple(dict.fromkeys(member.subscribed_topics + resolved.topics))

    def static_member(self, instance_id: str) -> Member | None:
        member_id = self.static_ids.get(instance_id)
        return None if member_id is None else self.members.get(member_id)

    def owner(self, topic_id: bytes, partition: int) -> str | None:
        partitions = self.owners.get(topic_id)
        return None if partitions is None else partitions.get(partition)

    def preferred_assignor(self, default: str) -> str:
        """Return the assignor that most members request; on a tie, the one requested first."""
        votes: dict[str, int] = {}
        for member in self.members.values():
            if member.server_assignor:
                votes[member.server_assignor] = votes.get(member.server_assignor, 0) + 1
        return max(votes, key=votes.__getitem__) if votes else default
