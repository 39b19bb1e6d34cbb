"""A member of a consumer group: its durable state and its timers."""

from __future__ import annotations

from typing import Final, NamedTuple

from ottla.groups.embedded_protocol import Partitions
from ottla.machines.timers import Timer
from ottla.protocol.messages.consumer_group_member_metadata_value import ClassicMemberMetadata

# The states of a member in the log.
STABLE: Final = 0
UNREVOKED_PARTITIONS: Final = 1  # it has not confirmed the revocation of partitions
UNRELEASED_PARTITIONS: Final = 2  # it waits for partitions that others have not released yet
# A state of a later version: the partitions of such a member are unknown.
UNKNOWN_STATE: Final = 127

# Special values of the member epoch.
JOINING: Final = 0
LEAVING: Final = -1
LEAVING_STATIC: Final = -2  # for a restart: keeps its partitions until its session times out

# Partitions by topic id, each with the epoch in which it was assigned.
Assigned = dict[bytes, dict[int, int]]
# The target assignment of a member: partitions by topic id.
Target = dict[bytes, tuple[int, ...]]


class ResolvedRegex(NamedTuple):
    """The topics that match a pattern, with the epoch of the topics view and the time of the match."""

    topics: tuple[str, ...]
    version: int
    timestamp_ms: int


class Member:
    __slots__ = (
        "assigned",
        "classic",
        "client_host",
        "client_id",
        "epoch",
        "instance_id",
        "member_id",
        "previous_epoch",
        "progress",
        "rack_id",
        "rebalance_timeout_ms",
        "revoking",
        "server_assignor",
        "session",
        "state",
        "subscribed_regex",
        "subscribed_topics",
    )

    def __init__(self, member_id: str) -> None:
        self.member_id = member_id
        self.instance_id: str | None = None
        self.rack_id: str | None = None
        self.client_id = ""
        self.client_host = ""
        self.subscribed_topics: tuple[str, ...] = ()
        self.subscribed_regex = ""
        self.rebalance_timeout_ms = -1
        self.server_assignor: str | None = None
        # Set for a member that uses the classic protocol.
        self.classic: ClassicMemberMetadata | None = None

        self.epoch = 0
        self.previous_epoch = 0
        self.state = STABLE
        self.assigned: Assigned = {}
        self.revoking: Assigned = {}

        # Timers are set once the log is loaded. `progress` limits the time to revoke partitions or, in the
        # classic protocol, to rejoin or to sync.
        self.session: Timer | None = None
        self.progress: Timer | None = None

    @property
    def uses_classic_protocol(self) -> bool:
        return self.classic is not None

    @property
    def has_left_for_restart(self) -> bool:
        return self.epoch == LEAVING_STATIC

    def is_reconciled_to(self, epoch: int) -> bool:
        return self.state == STABLE and self.epoch == epoch

    def discard_timers(self) -> None:
        """Discard the timers: the heap would keep the member alive."""
        if self.session is not None:
            self.session.discard()
            self.session = None
        if self.progress is not None:
            self.progress.discard()
            self.progress = None


def overlap(left: Partitions, right: Partitions) -> bool:
    for topic_id, partitions in left.items():
        others = right.get(topic_id)
        if others and any(partition in others for partition in partitions):
            return True
    return False


def is_subset(part: Partitions, whole: Partitions) -> bool:
    for topic_id, partitions in part.items():
        others = whole.get(topic_id, ())
        if any(partition not in others for partition in partitions):
            return False
    return True


def is_same(left: Partitions, right: Partitions) -> bool:
    return count(left) == count(right) and is_subset(left, right)


def count(partitions: Partitions) -> int:
    return sum(map(len, partitions.values()))
