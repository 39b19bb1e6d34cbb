"""Consumer groups as results of the client: plain values, no wire structures."""

from __future__ import annotations

from typing import NamedTuple

TopicPartition = tuple[str, int]

CLASSIC = "classic"
CONSUMER = "consumer"

# Groups without members: only these can be changed by an admin.
INACTIVE_STATES = ("Empty", "Dead")


class GroupListing(NamedTuple):
    """A group in a list; `state` and `type` are empty where an older broker does not report them."""

    group_id: str
    state: str
    type: str
    protocol_type: str
    coordinator: int


class GroupMember(NamedTuple):
    """A member. `target` and `epoch` are None and -1 in classic groups, which have neither."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    assignment: list[TopicPartition]
    target: list[TopicPartition] | None = None
    epoch: int = -1
    topics: list[str] = []  # noqa: RUF012 (never changed: NamedTuple has no factories)
    pattern: str | None = None
    rack: str | None = None
    type: str = CLASSIC

    @property
    def name(self) -> str:
        """Its instance id, else its member id."""
        return self.instance_id or self.member_id


class RebalanceCause(NamedTuple):
    """One cause of a rebalance, and the member that caused it."""

    what: str
    at_ms: int
    member_id: str
    client_id: str
    client_host: str
    detail: str


class Rebalance(NamedTuple):
    """One rebalance; `ended_ms` is -1 while it is in progress, `epoch` is the resulting generation."""

    began_ms: int
    ended_ms: int
    epoch: int
    members: int
    causes: list[RebalanceCause]
    causes_left_out: int

    @property
    def duration_ms(self) -> int:
        """-1 while it is in progress."""
        return -1 if self.ended_ms < 0 else self.ended_ms - self.began_ms


class GroupInfo(NamedTuple):
    """A group of either type.

    `type` is "classic" or "consumer" (KIP-848). Classic groups have no epochs: these are -1, or the
    generation of the last rebalance. `rebalances`, the newest last, are those that the coordinator reports.
    """

    group_id: str
    state: str
    type: str
    protocol_type: str
    assignor: str
    epoch: int
    assignment_epoch: int
    coordinator: int
    members: list[GroupMember]
    rebalances: list[Rebalance]

    @property
    def is_active(self) -> bool:
        return self.state not in INACTIVE_STATES

    @property
    def owners(self) -> dict[TopicPartition, GroupMember]:
        """The member that owns each partition."""
        return {key: member for member in self.members for key in member.assignment}


class CommittedOffset(NamedTuple):
    """The committed offset of a partition: that of the next record to be read."""

    offset: int
    leader_epoch: int = -1
    metadata: str | None = ""


class PartitionLag(NamedTuple):
    """The lag of a group in a partition.

    `committed` is -1 without a committed offset, and `lag` then -1 too: where it will start is unknown.
    `end` is -1 if the partition does not exist any more, or has no leader.
    """

    topic: str
    partition: int
    committed: int
    end: int
    lag: int
    metadata: str | None = ""
