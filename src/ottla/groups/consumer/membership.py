"""Membership of consumer groups: the operations that both protocols share."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ottla.groups.consumer.group import ConsumerGroup
from ottla.groups.consumer.member import LEAVING_STATIC, STABLE, UNREVOKED_PARTITIONS, Member, ResolvedRegex
from ottla.groups.consumer.pattern_syntax import PatternError
from ottla.groups.consumer.patterns import Patterns
from ottla.groups.consumer.reconcile import next_step
from ottla.groups.consumer.records import (
    current_record,
    group_record,
    member_record,
    member_tombstones,
    regex_record,
    target_epoch_record,
    target_record,
)
from ottla.groups.consumer.settings import assignment_interval_ms, session_timeout_ms
from ottla.groups.consumer.target import compute_targets, metadata_hash, supported_assignors, topic_hashes
from ottla.groups.context import ShardContext
from ottla.groups.embedded_protocol import Partitions
from ottla.groups.history import REBALANCE_TIMED_OUT, SESSION_TIMED_OUT, TOPICS_CHANGED, Trigger
from ottla.machines.outcome import Outcome, Record
from ottla.machines.timers import Action

# The minimum interval at which a group resolves its patterns again when topics keep changing.
REGEX_LOOK_INTERVAL_MS = 1000
# The limit of changed topics that the rebalance history names.
TOPICS_SHOWN_MAX = 5


class Membership:
    """`turn_classic` may downgrade a group without members of the new protocol to a classic group."""

    __slots__ = ("assignors", "context", "patterns", "turn_classic")

    def __init__(
        self,
        context: ShardContext,
        turn_classic: Callable[[Outcome, ConsumerGroup, list[Member], Trigger, int], bool],
    ) -> None:
        self.context = context
        self.patterns = Patterns(context.topics)
        self.assignors = supported_assignors(context.config.consumer_assignors)
        self.turn_classic = turn_classic

    def write(self, outcome: Outcome, records: Iterable[Record], now_ms: int) -> None:
        for key, value in records:
            self.context.write(outcome, key, value, now_ms)

    # Members.

    def replace_static(
        self, outcome: Outcome, group: ConsumerGroup, old: Member, member_id: str, now_ms: int
    ) -> None:
        """Give the assignment of a static member to its new member id; other members are not affected."""
        records = member_tombstones(group.group_id, old.member_id)
        records.append(member_record(group.group_id, member_id, old))
        records.append(target_record(group.group_id, member_id, group.targets.get(old.member_id, {})))
        records.append(
            current_record(
                group.group_id,
                member_id,
                epoch=0,
                previous_epoch=0,
                state=STABLE,
                assigned=old.assigned,
                revoking={},
            )
        )
        self.write(outcome, records, now_ms)
        # Until now the id may have belonged to a separate member.
        self.drop_unused_regexes(outcome, group, now_ms)

    def leave_for_restart(self, outcome: Outcome, group: ConsumerGroup, member: Member, now_ms: int) -> None:
        record = current_record(
            group.group_id,
            member.member_id,
            epoch=LEAVING_STATIC,
            previous_epoch=member.epoch,
            state=STABLE,
            assigned=member.assigned,
            revoking={},
        )
        self.write(outcome, [record], now_ms)
        if member.progress is not None:
            member.progress.clear()
        self.keep_alive(group, member, now_ms)

    def remove(
        self, outcome: Outcome, group: ConsumerGroup, members: list[Member], trigger: Trigger, now_ms: int
    ) -> None:
        if self.turn_classic(outcome, group, members, trigger, now_ms):
            return
        for member in members:
            self.write(outcome, member_tombstones(group.group_id, member.member_id), now_ms)
        self.drop_unused_regexes(outcome, group, now_ms)
        self.bump(outcome, group, trigger, now_ms)
        self.assign_if_due(outcome, group, now_ms)
        if not group.members:
            group.history.end(now_ms, group.epoch, 0)

    # Timers.

    def keep_alive(self, group: ConsumerGroup, member: Member, now_ms: int) -> None:
        """Extend the member's session."""
        if member.classic is not None:
            timeout_ms = member.classic.session_timeout_ms
        else:
            timeout_ms = session_timeout_ms(self.context.config, group.group_id)
        if member.session is None:
            member.session = self.context.timers.start(
                self._removal(group, member, SESSION_TIMED_OUT), now_ms + timeout_ms
            )
        else:
            self.context.timers.arm(member.session, now_ms + timeout_ms)

    def expect_progress(self, group: ConsumerGroup, member: Member, now_ms: int) -> None:
        """Start the member's rebalance timeout for its revocations."""
        deadline_ms = now_ms + max(member.rebalance_timeout_ms, 0)
        if member.progress is None:
            member.progress = self.context.timers.start(
                self._removal(group, member, REBALANCE_TIMED_OUT), deadline_ms
            )
        else:
            self.context.timers.arm(member.progress, deadline_ms)

    def _removal(self, group: ConsumerGroup, member: Member, what: str) -> Action:
        def remove(outcome: Outcome, now_ms: int) -> None:
            assert group.members.get(member.member_id) is member, "timers of removed members are discarded"
            self.remove(outcome, group, [member], trigger_of(what, member, now_ms), now_ms)

        return remove

    def loaded(self, outcome: Outcome, now_ms: int) -> None:
        groups = [group for group in self.context.groups.values() if isinstance(group, ConsumerGroup)]
        for group in groups:
            for member in group.members.values():
                self.keep_alive(group, member, now_ms)
                if member.state == UNREVOKED_PARTITIONS and not member.uses_classic_protocol:
                    self.expect_progress(group, member, now_ms)
            self.assign_if_due(outcome, group, now_ms)

    # Subscriptions.

    def resolve_regex(self, outcome: Outcome, group: ConsumerGroup, pattern: str, now_ms: int) -> None:
        """Resolve a pattern. Raises PatternError, unless it was resolved for the same topics before."""
        topics = self.patterns.resolve(pattern)
        known = group.regexes.get(pattern)
        if known is None or known.topics != topics:
            resolved = ResolvedRegex(topics, self.context.topics.epoch, now_ms)
            self.write(outcome, [regex_record(group.group_id, pattern, resolved)], now_ms)

    def drop_unused_regexes(self, outcome: Outcome, group: ConsumerGroup, now_ms: int) -> None:
        used = {member.subscribed_regex for member in group.members.values()}
        unused = [pattern for pattern in group.regexes if pattern not in used]
        self.write(outcome, [regex_record(group.group_id, pattern, None) for pattern in unused], now_ms)

    def _refresh_regexes(self, outcome: Outcome, group: ConsumerGroup, now_ms: int) -> bool:
        """Resolve all patterns again; False if the last time was too recent."""
        used = dict.fromkeys(member.subscribed_regex for member in group.members.values())
        used.pop("", None)
        if not used:
            return True
        if now_ms - group.regex_looked_ms < REGEX_LOOK_INTERVAL_MS:
            return False
        group.regex_looked_ms = now_ms
        for pattern in used:
            try:
                self.resolve_regex(outcome, group, pattern, now_ms)
            except PatternError:
                # There are too many topics by now: the pattern keeps the topics that it last matched.
                continue
        return True

    # Epochs and assignments.

    def refresh(self, outcome: Outcome, group: ConsumerGroup, trigger: Trigger | None, now_ms: int) -> None:
        """Begin a new epoch if there is a reason: `trigger`, or a change of the subscribed topics."""
        topics = self.context.topics
        if group.topics_epoch != topics.epoch and self._refresh_regexes(outcome, group, now_ms):
            group.topics_epoch = topics.epoch
        if trigger is None:
            hashes = topic_hashes(group.subscribed_topics, topics)
            if metadata_hash(hashes) == group.metadata_hash:
                group.topic_hashes = hashes
                return
            trigger = Trigger(TOPICS_CHANGED, now_ms, detail=_changed_topics(group.topic_hashes, hashes))
        self.bump(outcome, group, trigger, now_ms)

    def bump(self, outcome: Outcome, group: ConsumerGroup, trigger: Trigger, now_ms: int) -> None:
        group.topic_hashes = topic_hashes(group.subscribed_topics, self.context.topics)
        digest = metadata_hash(group.topic_hashes)
        self.write(outcome, [group_record(group.group_id, group.epoch + 1, digest)], now_ms)
        group.history.trigger(trigger)

    def assign_if_due(self, outcome: Outcome, group: ConsumerGroup, now_ms: int) -> None:
        if not group.members or group.epoch <= group.assignment_epoch:
            return
        due_ms = group.assigned_at_ms + assignment_interval_ms(self.context.config, group.group_id)
        # A clock that was set back must not delay assignments.
        in_future = group.assigned_at_ms > now_ms
        if len(group.members) == 1 or group.assignment_epoch <= 0 or now_ms >= due_ms or in_future:
            self._assign(outcome, group, now_ms)
        elif group.assignment_timer is None:
            group.assignment_timer = self.context.timers.start(
                lambda outcome, now_ms: self.assign_if_due(outcome, group, now_ms), due_ms
            )
        elif not group.assignment_timer.is_set:
            self.context.timers.arm(group.assignment_timer, due_ms)

    def _assign(self, outcome: Outcome, group: ConsumerGroup, now_ms: int) -> None:
        targets = compute_targets(group, self.context.topics, self.assignors[0])
        records = [
            target_record(group.group_id, member_id, target)
            for member_id, target in targets.items()
            if target != group.targets.get(member_id)
        ]
        records.append(target_epoch_record(group.group_id, group.epoch, now_ms))
        self.write(outcome, records, now_ms)

    def reconcile(
        self, outcome: Outcome, group: ConsumerGroup, member: Member, owned: Partitions | None, now_ms: int
    ) -> None:
        """Move the member one step towards its target, if possible."""
        target = group.targets.get(member.member_id, {})
        step = next_step(member, target, group.assignment_epoch, group.owner, owned)
        if step is None:
            return
        record = current_record(
            group.group_id,
            member.member_id,
            epoch=step.epoch,
            previous_epoch=member.previous_epoch if step.epoch == member.epoch else member.epoch,
            state=step.state,
            assigned=step.assigned,
            revoking=step.revoking,
        )
        self.write(outcome, [record], now_ms)
        if not member.uses_classic_protocol:
            if step.state == UNREVOKED_PARTITIONS:
                self.expect_progress(group, member, now_ms)
            elif member.progress is not None:
                member.progress.clear()
        self.note_end(group, now_ms)

    def note_end(self, group: ConsumerGroup, now_ms: int) -> None:
        """End the rebalance in the history once every member has its target assignment."""
        if (
            group.history.current is not None
            and group.epoch == group.assignment_epoch
            and group.is_reconciled
        ):
            group.history.end(now_ms, group.epoch, len(group.members))


def _changed_topics(before: dict[str, int], after: dict[str, int]) -> str:
    """Describe the changes; empty if the previous topics are unknown."""
    if not before:
        return ""
    changed = [name for name in {**before, **after} if before.get(name) != after.get(name)]
    shown = sorted(changed)[:TOPICS_SHOWN_MAX]
    return ", ".join(shown) + (" and more" if len(changed) > len(shown) else "")


def trigger_of(what: str, member: Member, now_ms: int, detail: str = "") -> Trigger:
    return Trigger(what, now_ms, member.member_id, member.client_id, member.client_host, detail)
