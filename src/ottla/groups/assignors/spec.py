"""The input of an assignor: members with subscriptions and current partitions, topics with their sizes."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence


class MemberSpec:
    """One member. `subscribed` holds topic ids; unknown ids are left out of the assignment.

    `current` is the last assignment of the member, in any collection.
    """

    __slots__ = ("current", "instance_id", "rack_id", "subscribed")

    def __init__(
        self,
        subscribed: tuple[bytes, ...],
        current: Mapping[bytes, Collection[int]] | None = None,
        *,
        instance_id: str | None = None,
        rack_id: str | None = None,
    ) -> None:
        self.subscribed = subscribed
        self.current: Mapping[bytes, Collection[int]] = {} if current is None else current
        self.instance_id = instance_id
        self.rack_id = rack_id


class TopicSpec:
    """One topic. `racks`, if known, has the racks of the replicas of each partition."""

    __slots__ = ("partition_count", "racks")

    def __init__(self, partition_count: int, racks: Sequence[Collection[str]] | None = None) -> None:
        assert racks is None or len(racks) == partition_count, (partition_count, racks)
        self.partition_count = partition_count
        self.racks = racks
