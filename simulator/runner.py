"""All scenarios by name: set-up, faults, and the invariants that must hold.

    outcome = run_scenario("power", seed=7)
    outcome.complaints      empty if no invariant was violated

The script of a scenario is a coroutine function of the world. Add new scenarios with their checkers here.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from simulator.checkers import (
    LOSSLESS,
    LOSSY,
    Checker,
    check,
    duplicate,
    order,
    unwritten_read,
)
from simulator.compaction.checkers import COMPACTED
from simulator.compaction.scenario import cleaning
from simulator.faults import NodeDoesNotStart
from simulator.groups.checkers import GROUPS as GROUP_CHECKERS
from simulator.groups.scenario import groups
from simulator.history.operations import OK, PRODUCE
from simulator.runtime.loop import SimulationStuck, SimulationTooLong
from simulator.scenarios.cluster import cluster, metadata_only
from simulator.scenarios.single_node import bit_rot, one_node, resent, unflushed
from simulator.stress.known import split_known
from simulator.stress.stories import STRESS
from simulator.transactions.checkers import TRANSACTIONS as TRANSACTION_CHECKERS
from simulator.transactions.late_requests import late_requests
from simulator.transactions.scenario import transactions
from simulator.world import Script, World

LIMIT_S = 400.0


class Scenario(NamedTuple):
    about: str
    script: Script
    checkers: Sequence[Checker]


class Outcome(NamedTuple):
    scenario: str
    seed: int
    complaints: list[str]
    known: list[str]  # complaints that known defects explain, see stress/known.py
    fingerprint: str
    events: int
    acknowledged: int  # records, and offsets of groups
    read: int
    starts: int  # of nodes
    virtual_s: float
    real_s: float
    trace: list[str]

    @property
    def passed(self) -> bool:
        return not self.complaints


NODES: dict[str, Scenario] = {
    "power": Scenario(
        "one node, flush.messages=1: kills, power cuts, slow disk, stops",
        one_node(("kill", "power", "slow-power", "stop", "slow-disk", "reset")),
        LOSSLESS,
    ),
    "resent": Scenario(
        "one node, flush.messages=1: power cuts when new batches and a resent one are acknowledged",
        resent,
        LOSSLESS,
    ),
    "disk-full": Scenario(
        "one node, flush.messages=1: full disk at times",
        one_node(("full-disk", "power")),
        LOSSLESS,
    ),
    "network": Scenario(
        "one node: cut off in both directions or one, slow links, resets, pauses, clock jumps",
        one_node(("cut", "cut", "reset", "slow-net", "pause", "skew")),
        LOSSLESS,
    ),
    "unflushed": Scenario(
        "one node without flushes: a power cut leaves a prefix of the log",
        unflushed,
        (unwritten_read, duplicate, order, lambda history: history.surprises),
    ),
    "bit-rot": Scenario(
        "one node: stored bits flip while it is down",
        bit_rot,
        (unwritten_read, duplicate),
    ),
}

EVERY_FAULT = (
    *("kill", "kill-all", "power", "power-all", "slow-power", "stop", "rolling", "pause", "cut", "split"),
    *(
        "isolate",
        "isolate",
        "isolate",
        "double-vote",
        "double-vote",
        "reset",
        "slow-net",
        "slow-disk",
        "full-disk",
        "skew",
    ),
)

CLUSTERS: dict[str, Scenario] = {
    "quorum": Scenario(
        "three nodes, no records: metadata changes under all machine, disk and network faults",
        metadata_only(3, EVERY_FAULT),
        LOSSLESS,
    ),
    "quorum-roles": Scenario(
        "three controllers and two brokers, no records: two fault injectors",
        metadata_only(
            2,
            ("kill", "power", "slow-power", "stop", "pause", "cut", "split", "isolate", "reset", "slow-disk"),
            controllers=3,
            injectors=2,
        ),
        LOSSLESS,
    ),
    "cluster-kill": Scenario(
        "three nodes: kills, stops, rolling restarts, pauses, cuts",
        cluster(3, ("kill", "lag", "lag", "kill-all", "stop", "rolling", "pause", "reset", "isolate")),
        LOSSLESS,
    ),
    "cluster-net": Scenario(
        "three nodes: cuts in both directions or one, splits, slow links, resets, pauses, clock jumps",
        cluster(3, ("cut", "isolate", "isolate", "lag", "split", "reset", "slow-net", "pause", "skew")),
        LOSSLESS,
    ),
    "cluster-power": Scenario(
        "three nodes, flush.messages=1: power cuts of one or all, torn tails, slow and full disks",
        cluster(
            3,
            (
                "power",
                "slow-power",
                "power-all",
                "unsynced-leader",
                "unsynced-leader",
                "kill",
                "slow-disk",
                "full-disk",
            ),
            flushed=True,
        ),
        LOSSLESS,
    ),
    "cluster-tails": Scenario(
        "three nodes without flushes: one at a time loses power and the end of its logs",
        cluster(3, ("power", "power", "kill", "cut", "slow-disk"), min_isr=(2,)),
        LOSSLESS,
    ),
    "cluster-admin": Scenario(
        "three nodes: topics, configurations, replicas and leaders change under kills and cuts",
        cluster(3, ("kill", "cut", "split", "isolate", "pause", "stop"), changers=2),
        LOSSLESS,
    ),
    "cluster-5": Scenario(
        "five nodes, three replicas: two concurrent fault injectors, reassignments",
        cluster(
            5,
            ("kill", "power", "cut", "split", "isolate", "pause", "stop", "reset"),
            injectors=(2,),
            changers=1,
            min_isr=(2,),
        ),
        LOSSLESS,
    ),
    "cluster-chaos": Scenario(
        "three nodes, flush.messages=1: all faults and reassignments",
        cluster(3, (*EVERY_FAULT, "lag", "unsynced-leader"), flushed=True, changers=1, injectors=(1, 2)),
        LOSSLESS,
    ),
    "cluster-unclean": Scenario(
        "three nodes with unclean elections: records may be lost, but replicas converge",
        cluster(
            3,
            ("kill", "power", "power-all", "isolate", "lag", "split", "pause"),
            min_isr=(1,),
            flushed=True,
            configs={"unclean.leader.election.enable": "true", "flush.messages": "100000"},
        ),
        LOSSY,
    ),
    "cluster-roles": Scenario(
        "three controllers and three brokers: machine and network faults",
        cluster(3, ("kill", "kill", "cut", "split", "isolate", "pause", "stop"), controllers=3, changers=1),
        LOSSLESS,
    ),
}

GROUPS: dict[str, Scenario] = {
    "groups": Scenario(
        "three nodes, two consumer groups: members and brokers restart, coordinators move",
        groups(
            (
                "kill",
                "kill",
                "lag",
                "stop",
                "rolling",
                "pause",
                "cut",
                "split",
                "isolate",
                "reset",
                "slow-net",
            )
        ),
        GROUP_CHECKERS,
    ),
    "groups-kill": Scenario(
        "three nodes, two groups: kills, stops, rolling restarts, pauses, slow links and disks, clock jumps",
        groups(("kill", "kill-all", "stop", "rolling", "pause", "reset", "slow-net", "slow-disk", "skew")),
        GROUP_CHECKERS,
    ),
    "groups-net": Scenario(
        "three nodes, two groups: cuts, splits, isolated nodes",
        groups(("isolate", "isolate", "cut", "split", "lag", "kill", "reset")),
        GROUP_CHECKERS,
    ),
    "groups-power": Scenario(
        "three nodes without flushes, two groups: power cuts of one at a time, full disks",
        groups(("power", "slow-power", "kill", "stop", "full-disk", "pause"), min_isr=(2,), reassigns=False),
        GROUP_CHECKERS,
    ),
    "groups-flushed": Scenario(
        "three nodes that flush, two groups: power cuts of one or all, slow and full disks",
        groups(
            ("power", "slow-power", "power-all", "unsynced-leader", "kill", "slow-disk", "full-disk", "cut"),
            flushed=True,
        ),
        GROUP_CHECKERS,
    ),
}

TRANSACTIONS: dict[str, Scenario] = {
    "txn-kill": Scenario(
        "three nodes, transactions of both versions: leaders, coordinators and producers are killed",
        transactions(
            (
                "kill",
                "kill-in-flight",
                "kill-in-flight",
                "lag",
                "kill-all",
                "stop",
                "rolling",
                "pause",
                "isolate",
            )
        ),
        TRANSACTION_CHECKERS,
    ),
    "txn-net": Scenario(
        "three nodes, transactions of both versions: late and reordered requests, late markers, cuts",
        transactions(
            ("cut", "slow-net", "slow-net", "split", "isolate", "kill-in-flight", "reset", "pause", "skew"),
            slow_links=5,
        ),
        TRANSACTION_CHECKERS,
    ),
    "txn-power": Scenario(
        "three nodes that flush, transactions of both versions: power cuts, slow and full disks",
        transactions(
            (
                "power",
                "slow-power",
                "power-all",
                "unsynced-leader",
                "kill-in-flight",
                "slow-disk",
                "full-disk",
            ),
            flushed=True,
        ),
        TRANSACTION_CHECKERS,
    ),
    "txn-late": Scenario(
        "three nodes, transactions of both versions: one late write, copy, marker or end at a time",
        late_requests,
        TRANSACTION_CHECKERS,
    ),
    "txn-chaos": Scenario(
        "three nodes that flush, transactions of both versions: all faults",
        transactions(
            (*EVERY_FAULT, "lag", "unsynced-leader", "kill-in-flight"),
            flushed=True,
            slow_links=3,
            injectors=(1, 2),
        ),
        TRANSACTION_CHECKERS,
    ),
}

CLEANING: dict[str, Scenario] = {
    "cleaning": Scenario(
        "one node, a compacted topic, flush.messages=1: kills, power cuts, slow and full disks",
        cleaning(1, ("kill", "power", "slow-power", "stop", "slow-disk", "full-disk"), flushed=True),
        COMPACTED,
    ),
    "cleaning-cluster": Scenario(
        "three nodes that clean a compacted topic: kills, lag, cuts, restarts",
        cleaning(3, ("kill", "lag", "stop", "rolling", "pause", "cut", "isolate", "slow-disk")),
        COMPACTED,
    ),
    "cleaning-power": Scenario(
        "three nodes that flush, a compacted topic: power cuts of one or all, full disks",
        cleaning(
            3,
            (
                "power",
                "slow-power",
                "power-all",
                "unsynced-leader",
                "unsynced-leader",
                "isolate",
                "kill",
                "full-disk",
            ),
            flushed=True,
        ),
        COMPACTED,
    ),
}

STRESSED = {name: Scenario(*story) for name, story in STRESS.items()}

SCENARIOS = {**NODES, **CLUSTERS, **GROUPS, **TRANSACTIONS, **CLEANING, **STRESSED}


def run_scenario(
    name: str,
    seed: int,
    *,
    length: float = 1.0,
    keep_trace: bool = False,
    show: Callable[[str], None] | None = None,
) -> Outcome:
    """Run one seed of a scenario and check its history. `length`: factor for the duration of faults."""
    scenario = SCENARIOS[name]
    began_s = time.monotonic()
    world = World(seed, length=length, keep_trace=keep_trace, show=show)
    complaints = []
    try:
        world.run(scenario.script, limit_s=LIMIT_S)
    except (SimulationStuck, SimulationTooLong, NodeDoesNotStart) as error:
        complaints.append(f"{type(error).__name__}: {error}")
    except Exception as error:
        complaints.append(f"script failed: {error!r}")
    else:
        complaints += check(world.history, scenario.checkers)
    complaints += [f"uncaught: {error}" for error in world.loop.errors[:3]]
    complaints, known = split_known(name, complaints)
    history = world.history
    return Outcome(
        scenario=name,
        seed=seed,
        complaints=complaints,
        known=known,
        fingerprint=world.trace.fingerprint,
        events=world.trace.count,
        acknowledged=sum(len(operation.value) for operation in history.of_kind(PRODUCE, OK))
        + history.offset_commits
        + (history.ledger.committed_count() if history.ledger is not None else 0),
        read=len(history.reads) + sum(map(len, history.final.values())),
        starts=sum(node.starts for node in world.nodes.values()),
        virtual_s=world.loop.now_ns / 1_000_000_000,
        real_s=time.monotonic() - began_s,
        trace=world.trace.lines,
    )
