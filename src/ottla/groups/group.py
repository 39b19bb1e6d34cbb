"""The base class of all group types: everything that does not depend on the membership protocol."""

from __future__ import annotations

from typing import ClassVar, Final

from ottla.groups.history import RebalanceHistory
from ottla.machines.outcome import Record
from ottla.protocol.errors import ErrorCode

CLASSIC: Final = "classic"
CONSUMER: Final = "consumer"


class Group:
    """A group of any type. Its offsets are stored separately, so that they survive a change of type."""

    __slots__ = ("group_id", "history")
    TYPE: ClassVar[str] = ""  # as ListGroups names it

    def __init__(self, group_id: str, history: RebalanceHistory) -> None:
        self.group_id = group_id
        self.history = history

    @property
    def state_name(self) -> str:
        """As ListGroups and the describe APIs name it."""
        raise NotImplementedError

    @property
    def protocol_type(self) -> str:
        raise NotImplementedError

    @property
    def is_empty(self) -> bool:
        """Whether the group has no members."""
        raise NotImplementedError

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether a member subscribes, or may subscribe, to the topic: then its offsets must be kept."""
        raise NotImplementedError

    def check_offset_commit(
        self, member_id: str, instance_id: str | None, generation: int, api_version: int, transactional: bool
    ) -> ErrorCode:
        """Whether this member may commit; `generation` is the member epoch in consumer groups."""
        raise NotImplementedError

    def check_partition_commit(
        self, member_id: str, generation: int, topic_id: bytes, partition: int
    ) -> ErrorCode:
        """A member with an older epoch may still commit partitions that it never lost; checked per
        partition."""
        return ErrorCode.NONE

    def check_offset_fetch(self, member_id: str | None, member_epoch: int) -> ErrorCode:
        raise NotImplementedError

    def check_offset_delete(self) -> ErrorCode:
        raise NotImplementedError

    def check_delete(self) -> ErrorCode:
        raise NotImplementedError

    def offsets_expire_from_ms(self, topic: str, commit_ms: int) -> int | None:
        """When retention began for an offset committed at `commit_ms`; None if it has not begun."""
        raise NotImplementedError

    def tombstones(self) -> list[Record]:
        """Return the records that remove the group itself, without its offsets."""
        raise NotImplementedError

    def discard(self) -> None:
        """Discard the timers of a group that is removed or replaced."""
        raise NotImplementedError
