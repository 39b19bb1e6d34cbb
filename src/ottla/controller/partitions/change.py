"""How one partition changes: new ISR, replicas or leader, and everything that follows from it.

The order matters. First a reassignment whose target is in sync ends, then replicas that left the ISR
become eligible leaders (KIP-966), then a leader is sought:

    the leader that is there, if it may stay      (or replicas[0] before it, in a preferred election)
    the first replica of the ISR that may lead
    the first eligible one, if the ISR is empty   -> it alone is the ISR
    the last known leader, if none is eligible    -> unclean: it may have lost the end of its log
    any replica, where unclean elections are allowed

Without eligible leader replicas the ISR never becomes empty: its last member stays in it, because only its
copy is known to be complete. With them, members of the ISR that fall out while it is smaller than
`min.insync.replicas` stay eligible: nothing is committed in that time that they could lack.
"""

from __future__ import annotations

from ottla.controller.effects import UncleanElection
from ottla.controller.image.parts import LEADER_UNCHANGED, NO_LEADER, PartitionImage, TopicImage
from ottla.controller.partitions.directories import DIRECTORY_UNASSIGNED, first_directory
from ottla.controller.partitions.rules import PartitionRules
from ottla.protocol.message import Message
from ottla.protocol.messages.partition_change_record import PartitionChangeRecord

RECOVERED, RECOVERING = 0, 1
# The requested kind of election.
ANY, PREFERRED, UNCLEAN = range(3)

# Records, and the unclean elections among them.
Changes = tuple[list[Message], list[UncleanElection]]


class PartitionChange:
    """Collects changes; `build` returns the record, or None if nothing changes."""

    __slots__ = (
        "_elr",
        "_last_known",
        "_rules",
        "_topic",
        "_unclean",
        "adding",
        "directories",
        "election",
        "isr",
        "leader",
        "lost_copy",
        "number",
        "partition",
        "recovery_state",
        "removing",
        "replicas",
    )

    def __init__(self, rules: PartitionRules, topic: TopicImage, number: int) -> None:
        self._rules = rules
        self._topic = topic
        self.number = number
        self.partition: PartitionImage = topic.partitions[number]
        self.isr = list(self.partition.isr)
        self.replicas = list(self.partition.replicas)
        self.adding = list(self.partition.adding_replicas)
        self.removing = list(self.partition.removing_replicas)
        self.directories = list(self.partition.directories)
        self.recovery_state = self.partition.leader_recovery_state
        self.election = UNCLEAN if rules.unclean_allowed(topic.name) else ANY
        self.leader = self.partition.leader
        self.lost_copy: int | None = None  # a broker whose replica is a new, empty one
        self._elr = list(self.partition.elr)
        self._last_known = list(self.partition.last_known_elr)
        self._unclean = False

    def build(self, *, restarted: bool = False) -> PartitionChangeRecord | None:
        """`restarted`: the leader stays, but is a new process: that is a new leader epoch."""
        self._end_reassignment()
        if self.replicas != list(self.partition.replicas):
            self._move_directories()
        self._find_eligible()
        self._elect()
        if not self.isr and not self._rules.elr_on:
            self.isr = list(self.partition.isr)
        removed = not set(self.partition.replicas) <= set(self.replicas)
        new_epoch = self.leader != self.partition.leader or (
            self.leader != NO_LEADER and (restarted or removed)
        )
        self._remember_last_leader()
        record = self._record(new_epoch)
        if record is not None and self._unclean:
            epoch = self.partition.leader_epoch + 1
            self._rules.unclean_elections.append(
                UncleanElection(self._topic.name, self.number, self.leader, epoch)
            )
        return record

    def _move_directories(self) -> None:
        """Replicas that stay keep their directories."""
        before = self.partition.replicas
        if len(self.directories) != len(before):
            self.directories = [DIRECTORY_UNASSIGNED] * len(before)
        known = dict(zip(before, self.directories, strict=True))
        brokers = self._rules.image.brokers
        self.directories = [
            known[each] if each in known else first_directory(brokers.get(each)) for each in self.replicas
        ]

    def _end_reassignment(self) -> None:
        """Ends it when every replica of the target is in sync."""
        if not self.adding and not self.removing:
            return
        target = [each for each in self.replicas if each not in self.removing]
        if target and set(target) <= set(self.isr):
            self.isr = [each for each in self.isr if each in target]
            self.replicas = target
            self.adding = []
            self.removing = []

    def _find_eligible(self) -> None:
        if not self._rules.elr_on:
            return
        if len(self.isr) >= self._rules.min_isr(self._topic.name, len(self.replicas)):
            self._elr = []
            return
        fell_out = [each for each in (*self._elr, *self.partition.isr) if each in self.replicas]
        self._elr = [
            each
            for each in dict.fromkeys(fell_out)
            if each not in self.isr and each not in (self._rules.unclean_restart, self.lost_copy)
        ]

    def _may_lead(self, broker_id: int) -> bool:
        directory = None
        if len(self.directories) == len(self.replicas) and broker_id in self.replicas:
            directory = self.directories[self.replicas.index(broker_id)]
        return self._rules.may_lead(self.partition, broker_id, directory)

    def _valid(self, broker_id: int) -> bool:
        in_sync = broker_id in self.isr
        if not self.isr and self._rules.elr_on:
            in_sync = broker_id in self._elr
        return in_sync and broker_id in self.replicas and self._may_lead(broker_id)

    def _elect(self) -> None:
        leader = self._choose()
        if leader != NO_LEADER and (self._unclean or leader not in self.isr):
            self.isr = [leader]
            if self._unclean:
                self._elr = []
                self.recovery_state = RECOVERING
            else:
                self._elr = [each for each in self._elr if each != leader]
            self._find_eligible_after_election()
        self.leader = leader

    def _find_eligible_after_election(self) -> None:
        if len(self.isr) >= self._rules.min_isr(self._topic.name, len(self.replicas)):
            self._elr = []  # from now on records are committed that the others lack

    def _choose(self) -> int:
        replicas = self.replicas
        if self.election == PREFERRED and self._valid(replicas[0]):
            return replicas[0]
        if self._valid(self.partition.leader):
            return self.partition.leader
        for each in replicas:
            if self._valid(each):
                return each
        if self.election == PREFERRED:
            return NO_LEADER
        if self._rules.elr_on and not self.isr and not self._elr:
            last = self._last_leader()
            if last in replicas and self._may_lead(last):
                self._unclean = True
                return last
        if self.election == UNCLEAN:
            for each in replicas:
                if self._may_lead(each):
                    self._unclean = True
                    return each
        return NO_LEADER

    def _last_leader(self) -> int:
        if len(self._last_known) == 1:
            return self._last_known[0]
        waited_for = self.partition.isr
        return waited_for[0] if self.partition.leader == NO_LEADER and len(waited_for) == 1 else NO_LEADER

    def _remember_last_leader(self) -> None:
        if not self._rules.elr_on:
            return
        if self.leader != NO_LEADER:
            self._last_known = []
        elif not self.isr and self.partition.isr:
            led = self.partition.leader != NO_LEADER
            self._last_known = [self.partition.leader if led else self.partition.isr[0]]

    def _record(self, new_epoch: bool) -> PartitionChangeRecord | None:
        before = self.partition
        record = PartitionChangeRecord(partition_id=self.number, topic_id=self._topic.topic_id)
        changed = new_epoch
        if new_epoch:
            record.leader = self.leader
        else:
            assert record.leader == LEADER_UNCHANGED
        lists = (
            ("isr", self.isr, before.isr),
            ("replicas", self.replicas, before.replicas),
            ("removing_replicas", self.removing, before.removing_replicas),
            ("adding_replicas", self.adding, before.adding_replicas),
            ("directories", self.directories, before.directories),
            ("eligible_leader_replicas", self._elr, before.elr),
            ("last_known_elr", self._last_known, before.last_known_elr),
        )
        for name, now, then in lists:
            if now != list(then):
                setattr(record, name, now)
                changed = True
        if self.recovery_state != before.leader_recovery_state:
            record.leader_recovery_state = self.recovery_state
            changed = True
        return record if changed else None
