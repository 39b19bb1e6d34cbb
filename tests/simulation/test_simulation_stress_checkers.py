"""Each checker of stressed clusters reports a violation in a small history made for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from simulator.history.health import Fencing, Gap
from simulator.history.history import History
from simulator.history.operations import PRODUCE, PartitionName
from simulator.runner import SCENARIOS
from simulator.runtime.trace import Trace
from simulator.stress import checkers
from simulator.stress.known import KNOWN, Known, split_known
from simulator.stress.watch import CONTROLLER, HealthWatcher, TaskCensus, waiter_counts
from simulator.world import World

PARTITION = PartitionName("t", 0)
SECOND_NS = 1_000_000_000
ALL = (
    *(checkers.needless_fencing, checkers.needless_election, checkers.died, checkers.start_beyond_watermark),
    *(checkers.no_controller(1.0), checkers.no_leader(1.0), checkers.late(PRODUCE, 1.0)),
    *(checkers.lost_kept_write, checkers.lost_kept_read, checkers.deletion_lost, checkers.deleted_too_much),
    *checkers.AT_REST,
)


def good() -> History:
    """Two records of three, the first one deleted; what happened to the cluster has an excuse."""
    history = History(Trace())
    for offset, value in enumerate(("a", "b", "c")):
        history.invoke("p", PRODUCE, PARTITION, (value,)).ok(offset)
        history.read("c", PARTITION, offset, value)
    history.invoke("d", checkers.DELETE_RECORDS, PARTITION, ("1",)).ok()
    history.final[PARTITION] = [(1, "b"), (2, "c")]
    health = history.health
    health.log_starts[PARTITION] = 1
    health.elections.append((SECOND_NS, 1, 1))
    health.fencings.append(Fencing(1, SECOND_NS, "it is down"))
    health.gaps += [Gap(CONTROLLER, 0, SECOND_NS), Gap("the leader of t-0", 0, SECOND_NS)]
    return history


def a_broker_is_fenced(history: History) -> None:
    history.health.fencings.append(Fencing(2, SECOND_NS, ""))


def the_quorum_elects_again(history: History) -> None:
    history.health.elections.append((2 * SECOND_NS, 2, 1))


def the_controller_is_missing(history: History) -> None:
    history.health.gaps.append(Gap(CONTROLLER, 0, 2 * SECOND_NS))


def a_leader_is_missing(history: History) -> None:
    history.health.gaps.append(Gap("the leader of t-0", 0, 2 * SECOND_NS))


def a_write_is_late(history: History) -> None:
    history.operations[0].completed_ns = 2 * SECOND_NS


def a_process_ends(history: History) -> None:
    history.health.deaths.append("node1: EMFILE")


def a_task_is_gone(history: History) -> None:
    history.health.missing_tasks.append("node1 has no task Registration._run")


def waiters_stay(history: History) -> None:
    history.health.waiting.append("node1 has 30 in Partition._waiters")


def descriptors_stay_open(history: History) -> None:
    history.health.open_handles.append("node1 has 7")


def a_kept_record_is_gone(history: History) -> None:
    history.final[PARTITION] = [(1, "b"), (2, "x")]


def a_record_that_was_read_is_gone(history: History) -> None:
    history.read("c", PARTITION, 3, "d")


def a_deletion_is_undone(history: History) -> None:
    history.invoke("d", checkers.DELETE_RECORDS, PARTITION, ("2",)).ok()


def more_is_deleted(history: History) -> None:
    history.health.log_starts[PARTITION] = 2


def uncommitted_records_are_deleted(history: History) -> None:
    history.health.starts_beyond.append("t-0 on node1 starts at 9, above 7")


@pytest.mark.parametrize(
    ("spoil", "sign"),
    [
        (a_broker_is_fenced, "needless fencing: broker 2"),
        (the_quorum_elects_again, "needless election: node1 in epoch 2"),
        (the_controller_is_missing, "no controller: for 2.0 s"),
        (a_leader_is_missing, "no leader: the leader of t-0"),
        (a_write_is_late, "late: p produce t-0"),
        (a_process_ends, "died: node1"),
        (a_task_is_gone, "dead task: node1"),
        (waiters_stay, "waiters left: node1"),
        (descriptors_stay_open, "leaked descriptors: node1"),
        (a_kept_record_is_gone, "lost: c"),
        (a_record_that_was_read_is_gone, "lost read: c saw d"),
        (a_deletion_is_undone, "deletion lost: t-0"),
        (more_is_deleted, "deleted too much: t-0"),
        (uncommitted_records_are_deleted, "start beyond"),
    ],
)
def test_a_checker_reports(spoil: Callable[[History], None], sign: str) -> None:
    history = good()
    assert [text for checker in ALL for text in checker(history)] == []
    spoil(history)
    complaints = [text for checker in ALL for text in checker(history)]
    assert len(complaints) == 1 and complaints[0].startswith(sign), complaints


def test_a_known_defect_hides_only_its_own_signs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(KNOWN, "stalls", (Known("a defect", ("late",)),))
    assert split_known("stalls", ["late: x", "and 3 more of late", "lost: y"]) == (
        ["lost: y"],
        ["late: x", "and 3 more of late"],
    )
    assert split_known("power", ["late: x", "and 3 more of late"])[1] == []


def test_known_defects_belong_to_scenarios() -> None:
    assert set(KNOWN) <= set(SCENARIOS)


def test_the_watcher_sees_fencings_gaps_and_missing_tasks() -> None:
    """A broker that stays up is cut off from the controller, and loses a task."""
    world = World(1)
    sessions = {"broker.session.timeout.ms": "1200", "broker.heartbeat.interval.ms": "300"}
    nodes = world.add_cluster(2, sessions, controllers=1)
    watcher = HealthWatcher(world, topics=())

    async def script(world: World) -> list[str]:
        await world.start_all(nodes)
        census = TaskCensus(world)
        await census.take()
        assert await census.missing() == []
        watching = world.spawn(world.process, watcher.run())
        await asyncio.sleep(3)
        world.network.isolate("node2", others=["node101"])
        await asyncio.sleep(3)
        world.network.heal()
        process = world.nodes[1].process
        assert process is not None
        process.tasks.clear()  # as if they had ended
        await asyncio.sleep(0.1)
        missing = await census.missing()
        world.nodes[101].kill()
        await asyncio.sleep(2)
        watcher.stopping = True
        await watching
        return missing

    missing = world.run(script)
    fencings = world.history.health.fencings
    assert [(each.broker_id, each.excuse) for each in fencings] == [(2, "")]
    assert missing and all(each.startswith("node1 has no task") for each in missing)
    assert any(gap.what == CONTROLLER and gap.duration_s > 1.5 for gap in world.history.health.gaps)


class Part:
    """Pretends to be a part of the broker: others are not searched."""

    __module__ = "ottla.broker.part"

    def __init__(self) -> None:
        self.parts: list[Part] = []
        self.waiting: list[Callable[[], None]] = []


def test_waiters_are_found_wherever_they_are() -> None:
    inner, outer = Part(), Part()
    outer.parts.append(inner)
    inner.waiting += [lambda: None] * 20
    assert +waiter_counts(outer) == {"Part.waiting": 20}
