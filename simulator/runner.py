"""Stories to be told with many seeds: what is set up, what goes wrong, and what must hold all the same.

    outcome = run_scenario("power", seed=7)
    outcome.complaints      empty if all is well

A story is a function of the world; new ones go into SCENARIOS with their checkers.
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
from simulator.history import OK, PRODUCE
from simulator.runtime.loop import SimulationStuck, SimulationTooLong
from simulator.scenarios.cluster import cluster, metadata_only
from simulator.scenarios.single_node import bit_rot, one_node, unflushed
from simulator.transactions.checkers import TRANSACTIONS as TRANSACTION_CHECKERS
from simulator.transactions.late_requests import late
from simulator.transactions.scenario import transactions
from simulator.world import Story, World

LIMIT_S = 400.0


class Scenario(NamedTuple):
    about: str
    story: Story
    checkers: Sequence[Checker]


class Outcome(NamedTuple):
    scenario: str
    seed: int
    complaints: list[str]
    fingerprint: str
    events: int
    acknowledged: int  # records, and offsets of groups
    read: int
    starts: int  # of nodes
    virtual_s: float
    real_s: float
    trace: list[str]

    @property
    def well(self) -> bool:
        return not self.complaints


NODES: dict[str, Scenario] = {
    "power": Scenario(
        "one node, flush.messages=1: killed, without power, slow disk, stopped",
        one_node(("kill", "power", "slow-power", "stop", "slow-disk", "reset")),
        LOSSLESS,
    ),
    "disk-full": Scenario(
        "one node, flush.messages=1: no room left now and then",
        one_node(("full-disk", "power")),
        LOSSLESS,
    ),
    "network": Scenario(
        "one node: cut off both ways and one way, slow links, resets, pauses, clocks that jump",
        one_node(("cut", "cut", "reset", "slow-net", "pause", "skew")),
        LOSSLESS,
    ),
    "unflushed": Scenario(
        "one node without flushes: what a power cut leaves is a beginning of the log",
        unflushed,
        (unwritten_read, duplicate, order, lambda history: history.surprises),
    ),
    "bit-rot": Scenario(
        "one node: stored bits change while it is down",
        bit_rot,
        (unwritten_read, duplicate),
    ),
}

EVERY_FAULT = (
    *("kill", "kill-all", "power", "power-all", "slow-power", "stop", "rolling", "pause", "cut", "split"),
    *("island", "island", "island", "coup", "coup", "reset", "slow-net", "slow-disk", "full-disk", "skew"),
)

CLUSTERS: dict[str, Scenario] = {
    "quorum": Scenario(
        "three nodes, no records: metadata change amid every fault of machines, disks and network",
        metadata_only(3, EVERY_FAULT),
        LOSSLESS,
    ),
    "quorum-roles": Scenario(
        "three controllers and two brokers, no records: two troublemakers",
        metadata_only(
            2,
            ("kill", "power", "slow-power", "stop", "pause", "cut", "split", "island", "reset", "slow-disk"),
            controllers=3,
            nemeses=2,
        ),
        LOSSLESS,
    ),
    "cluster-kill": Scenario(
        "three nodes: killed, stopped, restarted in turn, paused, cut off",
        cluster(3, ("kill", "lag", "lag", "kill-all", "stop", "rolling", "pause", "reset", "island")),
        LOSSLESS,
    ),
    "cluster-net": Scenario(
        "three nodes: cut off both ways and one way, split, slow links, resets, pauses, clocks that jump",
        cluster(3, ("cut", "island", "island", "lag", "split", "reset", "slow-net", "pause", "skew")),
        LOSSLESS,
    ),
    "cluster-power": Scenario(
        "three nodes, flush.messages=1: without power, one or all; torn tails, slow and full disks",
        cluster(
            3,
            ("power", "slow-power", "power-all", "usurp", "usurp", "kill", "slow-disk", "full-disk"),
            flushed=True,
        ),
        LOSSLESS,
    ),
    "cluster-tails": Scenario(
        "three nodes without flushes: one at a time loses its power and the end of its logs",
        cluster(3, ("power", "power", "kill", "cut", "slow-disk"), min_isr=(2,)),
        LOSSLESS,
    ),
    "cluster-admin": Scenario(
        "three nodes: topics, configurations, replicas and leaders are changed amid kills and cuts",
        cluster(3, ("kill", "cut", "split", "island", "pause", "stop"), meddlers=2),
        LOSSLESS,
    ),
    "cluster-5": Scenario(
        "five nodes, three replicas: two troublemakers at once, replicas are moved",
        cluster(
            5,
            ("kill", "power", "cut", "split", "island", "pause", "stop", "reset"),
            nemeses=(2,),
            meddlers=1,
            min_isr=(2,),
        ),
        LOSSLESS,
    ),
    "cluster-chaos": Scenario(
        "three nodes, flush.messages=1: every fault there is, while replicas are moved",
        cluster(3, (*EVERY_FAULT, "lag", "usurp"), flushed=True, meddlers=1, nemeses=(1, 2)),
        LOSSLESS,
    ),
    "cluster-unclean": Scenario(
        "three nodes that let anybody lead: records get lost, but in the end all replicas hold the same",
        cluster(
            3,
            ("kill", "power", "power-all", "island", "lag", "split", "pause"),
            min_isr=(1,),
            flushed=True,
            configs={"unclean.leader.election.enable": "true", "flush.messages": "100000"},
        ),
        LOSSY,
    ),
    "cluster-roles": Scenario(
        "three controllers and three brokers: all faults of machines and network",
        cluster(3, ("kill", "kill", "cut", "split", "island", "pause", "stop"), controllers=3, meddlers=1),
        LOSSLESS,
    ),
}

GROUPS: dict[str, Scenario] = {
    "groups": Scenario(
        "three nodes, two groups of consumers: members and brokers come and go, coordinators move",
        groups(
            ("kill", "kill", "lag", "stop", "rolling", "pause", "cut", "split", "island", "reset", "slow-net")
        ),
        GROUP_CHECKERS,
    ),
    "groups-kill": Scenario(
        "three nodes, two groups: killed, stopped, restarted in turn, paused, slow, with clocks that jump",
        groups(("kill", "kill-all", "stop", "rolling", "pause", "reset", "slow-net", "slow-disk", "skew")),
        GROUP_CHECKERS,
    ),
    "groups-net": Scenario(
        "three nodes, two groups: cut off, split, kept from each other",
        groups(("island", "island", "cut", "split", "lag", "kill", "reset")),
        GROUP_CHECKERS,
    ),
    "groups-power": Scenario(
        "three nodes without flushes, two groups: without power, one at a time; full disks",
        groups(("power", "slow-power", "kill", "stop", "full-disk", "pause"), min_isr=(2,), reassigns=False),
        GROUP_CHECKERS,
    ),
    "groups-flushed": Scenario(
        "three nodes that flush, two groups: without power, one or all; slow and full disks",
        groups(
            ("power", "slow-power", "power-all", "usurp", "kill", "slow-disk", "full-disk", "cut"),
            flushed=True,
        ),
        GROUP_CHECKERS,
    ),
}

TRANSACTIONS: dict[str, Scenario] = {
    "txn-kill": Scenario(
        "three nodes, transactions of both versions: leaders, coordinators and producers die and come back",
        transactions(("kill", "orphan", "orphan", "lag", "kill-all", "stop", "rolling", "pause", "island")),
        TRANSACTION_CHECKERS,
    ),
    "txn-net": Scenario(
        "three nodes, transactions of both versions: late and reordered requests, late markers, cuts",
        transactions(
            ("cut", "slow-net", "slow-net", "split", "island", "orphan", "reset", "pause", "skew"),
            slow_links=5,
        ),
        TRANSACTION_CHECKERS,
    ),
    "txn-power": Scenario(
        "three nodes that flush, transactions of both versions: without power, one or all; slow, full disks",
        transactions(
            ("power", "slow-power", "power-all", "usurp", "orphan", "slow-disk", "full-disk"), flushed=True
        ),
        TRANSACTION_CHECKERS,
    ),
    "txn-late": Scenario(
        "three nodes, transactions of both versions: one late write, copy, marker or end at a time",
        late,
        TRANSACTION_CHECKERS,
    ),
    "txn-chaos": Scenario(
        "three nodes that flush, transactions of both versions: every fault there is",
        transactions((*EVERY_FAULT, "lag", "usurp", "orphan"), flushed=True, slow_links=3, nemeses=(1, 2)),
        TRANSACTION_CHECKERS,
    ),
}

CLEANING: dict[str, Scenario] = {
    "cleaning": Scenario(
        "one node, a compacted topic, flush.messages=1: killed, without power, slow and full disks",
        cleaning(1, ("kill", "power", "slow-power", "stop", "slow-disk", "full-disk"), flushed=True),
        COMPACTED,
    ),
    "cleaning-cluster": Scenario(
        "three nodes, each cleans its own copy of a compacted topic: killed, behind, cut off, restarted",
        cleaning(3, ("kill", "lag", "stop", "rolling", "pause", "cut", "island", "slow-disk")),
        COMPACTED,
    ),
    "cleaning-power": Scenario(
        "three nodes that flush, a compacted topic: without power, one or all; usurpers, full disks",
        cleaning(
            3,
            ("power", "slow-power", "power-all", "usurp", "usurp", "island", "kill", "full-disk"),
            flushed=True,
        ),
        COMPACTED,
    ),
}

SCENARIOS = {**NODES, **CLUSTERS, **GROUPS, **TRANSACTIONS, **CLEANING}


def run_scenario(
    name: str,
    seed: int,
    *,
    length: float = 1.0,
    keep_trace: bool = False,
    show: Callable[[str], None] | None = None,
) -> Outcome:
    """One seed of one story, judged. `length`: a share of the time that its trouble lasts."""
    scenario = SCENARIOS[name]
    began_s = time.monotonic()
    world = World(seed, length=length, keep_trace=keep_trace, show=show)
    complaints = []
    try:
        world.run(scenario.story, limit_s=LIMIT_S)
    except (SimulationStuck, SimulationTooLong, NodeDoesNotStart) as error:
        complaints.append(f"{type(error).__name__}: {error}")
    except Exception as error:
        complaints.append(f"story failed: {error!r}")
    else:
        complaints += check(world.history, scenario.checkers)
    complaints += [f"nobody caught: {error}" for error in world.loop.errors[:3]]
    history = world.history
    return Outcome(
        scenario=name,
        seed=seed,
        complaints=complaints,
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
