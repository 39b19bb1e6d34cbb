"""What must hold for the health of a cluster, and for topics whose records are deleted."""

from __future__ import annotations

from simulator.checkers import (
    Checker,
    duplicate,
    id_twice,
    lost_commit,
    lost_metadata,
    lost_position,
    order,
    replicas_differ,
    surprises,
    two_leaders,
    two_values,
    unavailable,
    unclean_election,
    unwritten_read,
    watermark_back,
)
from simulator.history.history import History
from simulator.history.operations import OK, OPEN, PRODUCE, PartitionName
from simulator.stress.watch import CONTROLLER

WAITERS_MAX = 12  # left in one kind of container when nothing is asked any more
HANDLES_MAX = 4  # flushes may be under way
DELETE_RECORDS = "delete-records"


def needless_fencing(history: History) -> list[str]:
    """No broker is fenced that is up, and that no fault has disturbed."""
    return [
        f"needless fencing: broker {each.broker_id} at {each.at_ns / 1_000_000_000:.2f} s"
        for each in history.health.fencings
        if not each.excuse
    ]


def needless_election(history: History) -> list[str]:
    """The quorum elects a leader once: no fault of this story is a reason for another election."""
    return [
        f"needless election: node{leader} in epoch {epoch} at {at_ns / 1_000_000_000:.2f} s"
        for at_ns, epoch, leader in history.health.elections[1:]
    ]


def no_controller(limit_s: float) -> Checker:
    """There is an active controller, but for short times."""

    def no_controller(history: History) -> list[str]:
        return [
            f"no controller: for {gap.duration_s:.1f} s from {gap.start_ns / 1_000_000_000:.2f} s on"
            for gap in history.health.gaps
            if gap.what == CONTROLLER and gap.duration_s > limit_s
        ]

    return no_controller


def no_leader(limit_s: float) -> Checker:
    """Every partition has a leader that leads, but for short times."""

    def no_leader(history: History) -> list[str]:
        return [
            f"no leader: {gap.what} is missing for {gap.duration_s:.1f} s "
            f"from {gap.start_ns / 1_000_000_000:.2f} s on"
            for gap in history.health.gaps
            if gap.what != CONTROLLER and gap.duration_s > limit_s
        ]

    return no_leader


def late(kind: str, limit_s: float) -> Checker:
    """Every operation of a kind ends in time."""

    def late(history: History) -> list[str]:
        return [
            f"late: {operation.client} {kind} {operation.target} took {duration_s:.1f} s"
            for operation in history.of_kind(kind)
            if operation.outcome != OPEN
            and (duration_s := (operation.completed_ns - operation.invoked_ns) / 1_000_000_000) > limit_s
        ]

    return late


def died(history: History) -> list[str]:
    """No process ends on its own account: no fault of this story is a reason for it."""
    return [f"died: {text}" for text in history.health.deaths]


def dead_task(history: History) -> list[str]:
    """After healing, every node has the background tasks that it began with."""
    return [f"dead task: {text}" for text in history.health.missing_tasks]


def waiters_left(history: History) -> list[str]:
    """When nothing is asked any more, nobody waits for an answer."""
    return [f"waiters left: {text}" for text in history.health.waiting]


def leaked_descriptors(history: History) -> list[str]:
    """When nothing happens any more, no duplicate of a descriptor is open."""
    return [f"leaked descriptors: {text}" for text in history.health.open_handles]


AT_REST: tuple[Checker, ...] = (dead_task, waiters_left, leaked_descriptors)
"""What every story can be asked once the cluster is healed and idle."""


# -- deleted records


def lost_kept_write(history: History) -> list[str]:
    """Every acknowledged record above the log start is in the final log, at the acknowledged offset."""
    complaints = []
    for operation in history.of_kind(PRODUCE, OK):
        assert isinstance(operation.target, PartitionName)
        if operation.result is None or operation.target not in history.final:
            continue
        there = dict(history.final[operation.target])
        start = history.health.log_starts.get(operation.target, 0)
        for offset, value in enumerate(operation.value, operation.result):
            if offset >= start and there.get(offset) != value:
                text = (
                    f"{value} was acknowledged at {operation.target}@{offset}, there is {there.get(offset)}"
                )
                complaints.append(f"lost: {text}")
    return complaints


def lost_kept_read(history: History) -> list[str]:
    """Every record that a consumer has read is in the final log, unless it was deleted."""
    final = {partition: dict(records) for partition, records in history.final.items()}
    return [
        f"lost read: {read.client} saw {read.value} at {read.partition}@{read.offset}"
        for read in history.reads
        if read.partition in final
        and read.offset >= history.health.log_starts.get(read.partition, 0)
        and read.offset not in final[read.partition]
    ]


def start_beyond_watermark(history: History) -> list[str]:
    """Only committed records are deleted."""
    return [f"start beyond the high watermark: {text}" for text in history.health.starts_beyond]


def deletion_lost(history: History) -> list[str]:
    """Acknowledged deletions stay."""
    complaints = []
    for operation in history.of_kind(DELETE_RECORDS, OK):
        assert isinstance(operation.target, PartitionName)
        start = history.health.log_starts.get(operation.target)
        if start is not None and start < int(operation.value[0]):
            text = f"{operation.target} was deleted up to {operation.value[0]} and starts at {start}"
            complaints.append(f"deletion lost: {text}")
    return complaints


def deleted_too_much(history: History) -> list[str]:
    """Nothing is deleted that nobody wanted to delete. Only for topics without retention."""
    complaints = []
    for partition, start in history.health.log_starts.items():
        wanted = [
            int(operation.value[0])
            for operation in history.of_kind(DELETE_RECORDS)
            if operation.target == partition
        ]
        if start > max(wanted, default=0):
            complaints.append(
                f"deleted too much: {partition} starts at {start}, wanted {max(wanted, default=0)}"
            )
    return complaints


PRUNED: tuple[Checker, ...] = (
    lost_kept_write,
    duplicate,
    unwritten_read,
    two_values,
    lost_kept_read,
    lost_position,
    watermark_back,
    order,
    two_leaders,
    replicas_differ,
    lost_metadata,
    lost_commit,
    unclean_election,
    id_twice,
    unavailable,
    surprises,
    start_beyond_watermark,
)
"""The guarantees of topics whose records are deleted, by retention or on request."""
