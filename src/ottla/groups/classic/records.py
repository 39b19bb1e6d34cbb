"""The record of a classic group: made from a group, and applied to one."""

from __future__ import annotations

from ottla.groups.classic.group import EMPTY, STABLE, ClassicGroup
from ottla.groups.classic.member import ClassicMember
from ottla.groups.context import ShardContext
from ottla.groups.group import CLASSIC
from ottla.protocol.message import Message
from ottla.protocol.messages.group_metadata_key import GroupMetadataKey
from ottla.protocol.messages.group_metadata_value import GroupMetadataValue, MemberMetadata


def group_record(
    group: ClassicGroup, assignments: dict[str, bytes], now_ms: int
) -> tuple[GroupMetadataKey, GroupMetadataValue]:
    """Return the record of the group's current state: with these assignments, or empty."""
    name = group.protocol_name
    members = [
        MemberMetadata(
            member_id=member.member_id,
            group_instance_id=member.instance_id,
            client_id=member.client_id,
            client_host=member.client_host,
            rebalance_timeout=member.rebalance_timeout_ms,
            session_timeout=member.session_timeout_ms,
            subscription=member.metadata(name or ""),
            assignment=assignments.get(member.member_id, b""),
        )
        for member in group.members.values()
    ]
    value = GroupMetadataValue(
        protocol_type=group.protocol_type,
        generation=group.generation,
        protocol=name,
        leader=group.leader_id if members else None,
        current_state_timestamp=now_ms,
        members=members,
    )
    return GroupMetadataKey(group=group.group_id), value


def empty_group_record(group_id: str, now_ms: int) -> tuple[GroupMetadataKey, GroupMetadataValue]:
    """Return the record of a new group."""
    value = GroupMetadataValue(
        protocol_type="", generation=0, protocol=None, leader=None, current_state_timestamp=now_ms
    )
    return GroupMetadataKey(group=group_id), value


def classic_group(context: ShardContext, group_id: str) -> ClassicGroup:
    """Return the group; create it if it does not exist. It replaces a group of another type."""
    group = context.groups.get(group_id)
    if isinstance(group, ClassicGroup):
        return group
    history = context.new_history()
    if group is not None:
        history = group.history
        group.discard()
    made = context.groups[group_id] = ClassicGroup(group_id, history)
    return made


def apply_group(context: ShardContext, key: Message, value: Message | None, timestamp_ms: int) -> None:
    assert isinstance(key, GroupMetadataKey)
    if value is None:
        group = context.groups.get(key.group)
        # If the group has another type by now, this is the tombstone of its classic state.
        if group is not None and group.TYPE == CLASSIC:
            del context.groups[key.group]
            group.discard()
        return
    assert isinstance(value, GroupMetadataValue)
    group = classic_group(context, key.group)
    group.generation = value.generation
    group.protocol = value.protocol_type or None
    group.protocol_name = value.protocol
    group.state_since_ms = value.current_state_timestamp
    recorded = {member.member_id: member for member in value.members}
    for known in [*group.members.values()]:
        if known.member_id not in recorded:
            assert not known.is_joining and not known.is_syncing, "only a load may drop waiting members"
            group.remove(known)
    for metadata in value.members:
        member = group.members.get(metadata.member_id)
        if member is None:
            member = _member_of(metadata, value.protocol or "")
            group.add(member, value.protocol_type)
        else:
            _renew(group, member, metadata, value.protocol or "")
        member.assignment = bytes(metadata.assignment)
    group.leader_id = value.leader if value.leader in group.members else None
    group.state = STABLE if group.members else EMPTY
    group.find_subscribed()


def _renew(group: ClassicGroup, member: ClassicMember, metadata: MemberMetadata, protocol_name: str) -> None:
    member.client_id = metadata.client_id
    member.client_host = metadata.client_host
    member.session_timeout_ms = metadata.session_timeout
    member.rebalance_timeout_ms = _rebalance_timeout_ms(metadata)
    # The record has the selected protocol alone; the member in memory may have more.
    if member.metadata(protocol_name) != metadata.subscription:
        group.set_protocols(member, ((protocol_name, bytes(metadata.subscription)),))


def _rebalance_timeout_ms(metadata: MemberMetadata) -> int:
    # Version 0 of the record has no rebalance timeout.
    return metadata.session_timeout if metadata.rebalance_timeout < 0 else metadata.rebalance_timeout


def _member_of(metadata: MemberMetadata, protocol_name: str) -> ClassicMember:
    return ClassicMember(
        metadata.member_id,
        instance_id=metadata.group_instance_id,
        client_id=metadata.client_id,
        client_host=metadata.client_host,
        rebalance_timeout_ms=_rebalance_timeout_ms(metadata),
        session_timeout_ms=metadata.session_timeout,
        protocols=((protocol_name, bytes(metadata.subscription)),),
    )
