"""DescribeGroups, ListGroups and DeleteGroups."""

from __future__ import annotations

from collections.abc import Iterable

from ottla.groups.classic.group import DEAD, STABLE, ClassicGroup
from ottla.groups.classic.member import ClassicMember
from ottla.groups.context import ShardContext
from ottla.groups.offsets.commit import Commit
from ottla.machines.outcome import Outcome
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.delete_groups_response import DeletableGroupResult, DeleteGroupsResponse
from ottla.protocol.messages.describe_groups_response import DescribedGroup, DescribedGroupMember
from ottla.protocol.messages.list_groups_response import ListedGroup
from ottla.protocol.versions import DESCRIBE_GROUPS_GROUP_ID_NOT_FOUND_SINCE


class Admin:
    __slots__ = ("_commit", "context")

    def __init__(self, context: ShardContext, commit: Commit) -> None:
        self.context = context
        self._commit = commit

    def describe(self, group_id: str, api_version: int) -> DescribedGroup:
        """Describe a classic group. A group of another type is reported as not found."""
        group = self.context.groups.get(group_id)
        if not isinstance(group, ClassicGroup):
            described = DescribedGroup(group_id=group_id, group_state=DEAD)
            if api_version >= DESCRIBE_GROUPS_GROUP_ID_NOT_FOUND_SINCE:
                described.error_code = ErrorCode.GROUP_ID_NOT_FOUND
                described.error_message = f"Group {group_id} not found."
                if group is not None:
                    described.error_message = f"Group {group_id} is not a classic group."
            return described
        # Before the assignment, the metadata of members may belong to different protocols.
        protocol_name = group.protocol_name if group.state == STABLE else None
        return DescribedGroup(
            group_id=group_id,
            group_state=group.state_name,
            protocol_type=group.protocol_type,
            protocol_data=protocol_name or "",
            members=[_described(member, protocol_name) for member in group.members.values()],
        )

    def listed(self, states: Iterable[str] = (), types: Iterable[str] = ()) -> list[ListedGroup]:
        """List groups in one of these states and of one of these types; an empty filter matches all."""
        wanted_states = [state.strip().lower() for state in states]
        wanted_types = [each.lower() for each in types]
        return [
            ListedGroup(
                group_id=group.group_id,
                protocol_type=group.protocol_type,
                group_state=group.state_name,
                group_type=group.TYPE,
            )
            for group in self.context.groups.values()
            if (not wanted_states or group.state_name.lower() in wanted_states)
            and (not wanted_types or group.TYPE in wanted_types)
        ]

    def delete(self, group_ids: Iterable[str], now_ms: int) -> Outcome:
        outcome = Outcome()
        results = []
        for group_id in group_ids:
            group = self.context.groups.get(group_id)
            code = ErrorCode.GROUP_ID_NOT_FOUND if group is None else group.check_delete()
            if group is not None and not code:
                self._commit.delete_all(outcome, group_id, now_ms)
                for key, value in group.tombstones():
                    self.context.write(outcome, key, value, now_ms)
            results.append(
                DeletableGroupResult(
                    group_id=group_id, error_code=code, error_message=_why_not_deleted(group_id, code)
                )
            )
        outcome.reply = DeleteGroupsResponse(results=results)
        return outcome


def _why_not_deleted(group_id: str, code: ErrorCode) -> str | None:
    if code == ErrorCode.GROUP_ID_NOT_FOUND:
        return f"Group {group_id} not found."
    return f"Group {group_id} has members." if code == ErrorCode.NON_EMPTY_GROUP else None


def _described(member: ClassicMember, protocol_name: str | None) -> DescribedGroupMember:
    described = DescribedGroupMember(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
    )
    if protocol_name is not None:
        described.member_metadata = member.metadata(protocol_name)
        described.member_assignment = member.assignment
    return described
