"""Online migration of groups between protocols: classic to consumer, and back.

A classic group is upgraded by the first member of the new protocol. Its members stay, continue to use
JoinGroup, SyncGroup and Heartbeat (see ottla.groups.consumer.classic_members), and have their generation as
member epoch. When the last member of the new protocol leaves, the group is downgraded to a classic group.
"""

from __future__ import annotations

from ottla.groups.classic.group import ClassicGroup
from ottla.groups.classic.member import ClassicMember
from ottla.groups.classic.protocol import ClassicProtocol
from ottla.groups.classic.records import group_record as classic_group_record
from ottla.groups.consumer.group import ConsumerGroup
from ottla.groups.consumer.member import STABLE, Member
from ottla.groups.consumer.records import (
    current_record,
    group_record,
    member_record,
    target_epoch_record,
    target_record,
)
from ottla.groups.consumer.refused import Refused
from ottla.groups.context import ShardContext
from ottla.groups.embedded_protocol import (
    PROTOCOL_TYPE,
    Partitions,
    by_topic_id,
    read_assignment,
    read_subscription,
    read_version,
    write_assignment,
)
from ottla.groups.group import Group
from ottla.groups.history import PROTOCOL_CHANGED, Trigger
from ottla.machines.outcome import Outcome, Record
from ottla.protocol.errors import DecodeError, ErrorCode
from ottla.protocol.messages.consumer_group_member_metadata_value import (
    ClassicMemberMetadata,
)
from ottla.protocol.messages.consumer_group_member_metadata_value import (
    ClassicProtocol as ClassicProtocolEntry,
)
from ottla.protocol.messages.consumer_protocol_subscription import ConsumerProtocolSubscription

_UPGRADE = ("upgrade", "bidirectional")
_DOWNGRADE = ("downgrade", "bidirectional")


class Migration:
    __slots__ = ("_classic", "_context")

    def __init__(self, context: ShardContext, classic: ClassicProtocol) -> None:
        self._context = context
        self._classic = classic

    # Classic to consumer.

    def upgrade(
        self, outcome: Outcome, group: Group, instance_id: str | None, now_ms: int
    ) -> ConsumerGroup | None:
        """Upgrade the group; None if it has no members left. Raises Refused before a write."""
        assert isinstance(group, ClassicGroup)
        if group.is_empty:
            self._write(outcome, group.tombstones(), now_ms)
            return None
        members = self._check_upgrade(group, instance_id)
        for each in group.members.values():
            self._classic.rebalancing.answer_waiting(outcome, group, each, ErrorCode.REBALANCE_IN_PROGRESS)
        self._write(outcome, group.tombstones(), now_ms)
        # The history continues across the change of type.
        made = self._context.groups[group.group_id] = ConsumerGroup(group.group_id, group.history)
        self._write(outcome, _upgrade_records(group, members, now_ms), now_ms)
        made.history.trigger(Trigger(PROTOCOL_CHANGED, now_ms, detail="classic to consumer"))
        return made

    def _check_upgrade(self, group: ClassicGroup, instance_id: str | None) -> list[Member]:
        config = self._context.config
        if config.consumer_migration_policy not in _UPGRADE:
            raise Refused(
                ErrorCode.GROUP_ID_NOT_FOUND,
                "the group is a classic group, and the migration policy forbids an upgrade",
            )
        if group.protocol != PROTOCOL_TYPE:
            raise Refused(
                ErrorCode.GROUP_ID_NOT_FOUND, f"the group is a classic group of type {group.protocol!r}"
            )
        newcomers = 0 if instance_id is not None and instance_id in group.static_members else 1
        if len(group.members) + newcomers > config.consumer_max_size:
            raise Refused(
                ErrorCode.GROUP_MAX_SIZE_REACHED, f"the group already has {len(group.members)} members"
            )
        try:
            return self._members_of(group)
        except DecodeError as error:
            raise Refused(
                ErrorCode.GROUP_ID_NOT_FOUND, f"the subscription of a member cannot be read: {error}"
            ) from error

    def _members_of(self, group: ClassicGroup) -> list[Member]:
        """Return the members with their partitions.

        Owners are taken from assignments. An interrupted rebalance has none: then the partitions count that
        members reported when they joined. These may be out of date, so assignments take precedence. Clients
        may assign a partition twice: the first member owns it.
        """
        topics = self._context.topics
        taken: dict[bytes, dict[int, None]] = {}
        members: list[Member] = []
        owned: list[dict[bytes, tuple[int, ...]]] = []
        for old in group.members.values():
            subscription = read_subscription(old.protocols[0][1])
            member = _member_of(old, subscription)
            member.epoch = group.generation
            members.append(member)
            _claim(member, read_assignment(old.assignment, topics), taken)
            named = ((each.topic, each.partitions) for each in subscription.owned_partitions)
            owned.append(by_topic_id(named, topics))
        for member, partitions in zip(members, owned, strict=True):
            _claim(member, partitions, taken)
        return members

    # Consumer to classic.

    def may_turn_classic(self, group: ConsumerGroup, without: list[Member]) -> bool:
        config = self._context.config
        leaving = {member.member_id for member in without}
        left = [member for member in group.members.values() if member.member_id not in leaving]
        if not left or len(left) > config.max_size or config.consumer_migration_policy not in _DOWNGRADE:
            return False
        return all(member.uses_classic_protocol for member in left) and bool(shared_protocols(left))

    def turn_classic(
        self, outcome: Outcome, group: ConsumerGroup, without: list[Member], trigger: Trigger, now_ms: int
    ) -> bool:
        """Call it before members leave. True if the group is a classic group now, and rebalances."""
        if not self.may_turn_classic(group, without):
            return False
        made = self._downgrade(outcome, group, without, now_ms)
        made.history.trigger(_to_classic(now_ms))
        self._classic.rebalancing.prepare(outcome, made, trigger, now_ms)
        return True

    def turn_classic_as_is(self, outcome: Outcome, group: ConsumerGroup, now_ms: int) -> ClassicGroup:
        """Downgrade with all members. A classic group has no targets: if a partition is moving between
        members, a rebalance is needed to assign it."""
        is_settled = group.epoch == group.assignment_epoch and group.is_reconciled
        made = self._downgrade(outcome, group, [], now_ms)
        if not is_settled:
            self._classic.rebalancing.prepare(outcome, made, _to_classic(now_ms), now_ms)
        return made

    def _downgrade(
        self, outcome: Outcome, group: ConsumerGroup, without: list[Member], now_ms: int
    ) -> ClassicGroup:
        """Return the classic group, stable with the current assignments of its members."""
        leaving = {member.member_id for member in without}
        made = ClassicGroup(group.group_id, group.history)
        made.generation = group.epoch
        assignments: dict[str, bytes] = {}
        for member in group.members.values():
            if member.member_id in leaving:
                continue
            classic = member.classic
            assert classic is not None
            protocols = tuple((entry.name, bytes(entry.metadata)) for entry in classic.supported_protocols)
            made.add(
                ClassicMember(
                    member.member_id,
                    instance_id=member.instance_id,
                    client_id=member.client_id,
                    client_host=member.client_host,
                    rebalance_timeout_ms=member.rebalance_timeout_ms,
                    session_timeout_ms=classic.session_timeout_ms,
                    protocols=protocols,
                ),
                PROTOCOL_TYPE,
            )
            assignments[member.member_id] = write_assignment(
                member.assigned, read_version(protocols[0][1]), self._context.topics
            )
        made.protocol_name = made.select_protocol()
        self._write(outcome, group.tombstones(), now_ms)
        self._context.groups[group.group_id] = made
        self._context.write(outcome, *classic_group_record(made, assignments, now_ms), now_ms)
        for each in made.members.values():
            self._classic.rebalancing.extend_session(made, each, now_ms)
        return made

    def _write(self, outcome: Outcome, records: list[Record], now_ms: int) -> None:
        for key, value in records:
            self._context.write(outcome, key, value, now_ms)


def _to_classic(now_ms: int) -> Trigger:
    return Trigger(PROTOCOL_CHANGED, now_ms, detail="consumer to classic")


def _member_of(old: ClassicMember, subscription: ConsumerProtocolSubscription) -> Member:
    member = Member(old.member_id)
    member.instance_id = old.instance_id
    member.rack_id = subscription.rack_id or None
    member.client_id = old.client_id
    member.client_host = old.client_host
    member.subscribed_topics = tuple(dict.fromkeys(subscription.topics))
    member.rebalance_timeout_ms = old.rebalance_timeout_ms
    member.classic = ClassicMemberMetadata(
        session_timeout_ms=old.session_timeout_ms,
        supported_protocols=[
            ClassicProtocolEntry(name=name, metadata=metadata) for name, metadata in old.protocols
        ],
    )
    return member


def _claim(member: Member, partitions: Partitions, taken: dict[bytes, dict[int, None]]) -> None:
    for topic_id, numbers in partitions.items():
        others = taken.setdefault(topic_id, {})
        mine = [partition for partition in numbers if partition not in others]
        others.update(dict.fromkeys(mine))
        if mine:
            member.assigned.setdefault(topic_id, {}).update(dict.fromkeys(mine, member.epoch))


def shared_protocols(members: list[Member]) -> list[str]:
    """Return the classic protocols that all members support, in the first member's order of preference."""
    spoken = [
        [entry.name for entry in member.classic.supported_protocols]
        for member in members
        if member.classic is not None
    ]
    if not spoken:
        return []
    return [name for name in spoken[0] if all(name in others for others in spoken)]


def _upgrade_records(group: ClassicGroup, members: list[Member], now_ms: int) -> list[Record]:
    """Every member has the assignment of the generation. The hash is that of no topics: the new member causes
    another one."""
    group_id = group.group_id
    records = [member_record(group_id, member.member_id, member) for member in members]
    records.append(group_record(group_id, group.generation, 0))
    for member in members:
        target = {topic_id: tuple(sorted(numbers)) for topic_id, numbers in member.assigned.items()}
        records.append(target_record(group_id, member.member_id, target))
    # The time of the assignment is 0, so that the one for the new member is not delayed.
    records.append(target_epoch_record(group_id, group.generation, 0))
    records += [
        current_record(
            group_id,
            member.member_id,
            epoch=group.generation,
            previous_epoch=group.generation,
            state=STABLE,
            assigned=member.assigned,
            revoking={},
        )
        for member in members
    ]
    return records
