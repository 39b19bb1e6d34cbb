"""What all kinds of groups have in common, for everything that does not depend on how members join."""

from __future__ import annotations

from typing import ClassVar, Final

from ottla.groups.history import RebalanceHistory
from ottla.machines.outcome import Record
from ottla.protocol.errors import ErrorCode

CLASSIC: Final = "Classic"
CONSUMER: Final = "Consumer"


class Group:
    """A group of any type. Its offsets are kept beside it, so that they outlive a change of type."""

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
        """No members."""
        raise NotImplementedError

    def is_subscribed_to(self, topic: str) -> bool:
        """Does a member read it, or may one for all we know: then its offsets are not to be dropped."""
        raise NotImplementedError

    def check_offset_commit(
        self, member_id: str, instance_id: str | None, generation: int, api_version: int, transactional: bool
    ) -> ErrorCode:
        """May this member commit; `generation` is the member epoch in consumer groups."""
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
        """When the retention of an offset began, that was committed at `commit_ms`; None: it has not."""
        raise NotImplementedError

    def tombstones(self) -> list[Record]:
        """Records that remove the group itself, its offsets apart."""
        raise NotImplementedError

    def discard(self) -> None:
        """The group is dropped or replaced: let its timers go."""
        raise NotImplementedError
