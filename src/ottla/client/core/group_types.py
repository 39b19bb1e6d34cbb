"""Consumer groups as the client gives them: plain values, no wire structures."""

from __future__ import annotations

from typing import NamedTuple

TopicPartition = tuple[str, int]

CLASSIC = "classic"
CONSUMER = "consumer"

# Members that are not there need no owner: only these groups can be changed from outside.
INACTIVE_STATES = ("Empty", "Dead")


class GroupListing(NamedTuple):
    """A group in a list; `state` and `type` are empty where an older broker does not say."""

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
        """The shortest that tells it from the others: its instance id, else its member id."""
        return self.instance_id or self.member_id


class RebalanceCause(NamedTuple):
    """One thing that set a rebalance off, and whose doing it was."""

    what: str
    at_ms: int
    member_id: str
    client_id: str
    client_host: str
    detail: str


class Rebalance(NamedTuple):
    """One rebalance; `ended_ms` is -1 while it goes on, `epoch` is the generation that it led to."""

    began_ms: int
    ended_ms: int
    epoch: int
    members: int
    causes: list[RebalanceCause]
    causes_left_out: int

    @property
    def duration_ms(self) -> int:
        """-1 while it goes on."""
        return -1 if self.ended_ms < 0 else self.ended_ms - self.began_ms


class GroupInfo(NamedTuple):
    """A group of either type.

    `type` is "classic" or "consumer" (KIP-848). Classic groups tell no epochs: these are -1, or what the last
    rebalance led to. `rebalances`, the newest last, is what the coordinator remembers, if it tells.
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
        """Who reads which partition."""
        return {key: member for member in self.members for key in member.assignment}


class CommittedOffset(NamedTuple):
    """Where a group stands in a partition: the offset of the next record to be read."""

    offset: int
    leader_epoch: int = -1
    metadata: str | None = ""


class PartitionLag(NamedTuple):
    """What a group has still to read of a partition.

    `committed` is -1 where the group has committed nothing, and `lag` then -1 too: it is not known where it
    will begin. An `end` of -1 stands for a partition that is not there any more, or cannot be asked.
    """

    topic: str
    partition: int
    committed: int
    end: int
    lag: int
    metadata: str | None = ""
