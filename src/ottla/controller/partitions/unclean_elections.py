"""Elects leaders for partitions without one, where unclean elections have become allowed.

An operator who allows them while a partition is offline wants it back, so the change of the configuration and
the elections are one decision. A periodic check finds the rest: another value in the configuration file of a
new controller, more partitions than one pass takes.
"""

from __future__ import annotations

from ottla.controller.context import Context
from ottla.controller.image.parts import NO_LEADER
from ottla.controller.image.queries import all_partitions
from ottla.controller.partitions.change import Changes, PartitionChange
from ottla.controller.partitions.elect_leaders import ELECTIONS_PER_PASS
from ottla.controller.partitions.rules import UNCLEAN, Configs, PartitionRules
from ottla.machines.outcome import Outcome
from ottla.protocol.message import Message


def decide_elect_unclean(context: Context) -> Outcome[int]:
    """The reply is the number of partitions that have a leader again."""
    rules = PartitionRules(context)
    records = _elections(rules)
    return Outcome(len(records), records=records, effects=rules.unclean_elections)


def elections_after(context: Context, changed: Configs) -> Changes:
    """What follows from the new configuration of these resources."""
    before = context.image.configs
    if all(values.get(UNCLEAN) == before.get(key, {}).get(UNCLEAN) for key, values in changed.items()):
        return [], []
    rules = PartitionRules(context, changed=changed)
    return _elections(rules), rules.unclean_elections


def _elections(rules: PartitionRules) -> list[Message]:
    records: list[Message] = []
    for topic, number, partition in all_partitions(rules.image):
        if partition.leader != NO_LEADER or not rules.unclean_allowed(topic.name):
            continue
        change = PartitionChange(rules, topic, number)
        record = change.build()
        if record is not None and change.leader != NO_LEADER:
            records.append(record)
            if len(records) == ELECTIONS_PER_PASS:
                break
    return records
