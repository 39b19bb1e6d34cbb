"""All stories under stress, by name: script, and what must hold.

The faults of a calm story are no reason to elect a leader or to fence a broker.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from simulator.checkers import LOSSLESS, Checker
from simulator.clients.admins import ConfigChanger
from simulator.compaction.checkers import COMPACTED
from simulator.compaction.scenario import cleaning
from simulator.history.operations import PRODUCE
from simulator.scenarios.cluster import drawn_properties
from simulator.scenarios.workload import TOPIC
from simulator.stress.checkers import (
    AT_REST,
    PRUNED,
    deleted_too_much,
    deletion_lost,
    died,
    late,
    needless_election,
    needless_fencing,
    no_controller,
    no_leader,
)
from simulator.stress.clients import PrunedConsumer, RecordDeleter, VoterChanger
from simulator.stress.scenario import stressed
from simulator.world import Script, World

SHORT_LAG_MS = "600"
ANY_TIMESTAMP = {
    "message.timestamp.before.max.ms": str(1 << 40),
    "message.timestamp.after.max.ms": str(1 << 40),
}
CALM: tuple[Checker, ...] = (needless_fencing, needless_election, no_controller(1.0), died)
NOT_COMPACTED_LAST: Mapping[str, Sequence[str]] = {
    "cleanup.policy": ("compact", "delete", "compact,delete", "delete")
}


class Story(NamedTuple):
    about: str
    script: Script
    checkers: tuple[Checker, ...]


def _short_lag(rng: random.Random) -> Mapping[str, str]:
    return {"replica.lag.time.max.ms": SHORT_LAG_MS}


def _retention(rng: random.Random) -> Mapping[str, str]:
    return {**drawn_properties(rng), "log.retention.check.interval.ms": "300"}


def _min_isr(world: World) -> Sequence[ConfigChanger]:
    return [ConfigChanger(world, "changer", TOPIC, {"min.insync.replicas": ("1", "2")})]


def _deleters(world: World) -> Sequence[RecordDeleter]:
    return [RecordDeleter(world, f"deleter{number}", TOPIC, 2) for number in (1, 2)]


def _retention_changers(world: World) -> Sequence[ConfigChanger | RecordDeleter]:
    values = {"retention.bytes": ("2000", "8000", "-1"), "retention.ms": ("1500", "604800000")}
    return [ConfigChanger(world, "changer", TOPIC, values), RecordDeleter(world, "deleter", TOPIC, 2)]


STRESS: dict[str, Story] = {
    "stalls": Story(
        "three nodes whose loops are blocked for less than a second, and busy",
        stressed(("stall", "busy"), duration_s=8.0),
        (*LOSSLESS, *CALM, *AT_REST, no_leader(1.0), late("create-topic", 4.0)),
    ),
    "long-stalls": Story(
        "three nodes whose loops are blocked for seconds while their workers go on",
        stressed(("long-stall", "stall"), duration_s=12.0),
        (*LOSSLESS, *AT_REST, needless_fencing, died),
    ),
    "slow-data": Story(
        "three nodes that flush: slow syncs in all directories but that of the metadata log",
        stressed(
            ("slow-data", "slow-data-majority"), directories=3, partitions=9, flushed=True, duration_s=7.0
        ),
        (*LOSSLESS, *CALM, *AT_REST, late("create-topic", 5.0)),
    ),
    "hung-data": Story(
        "three nodes that flush: a directory hangs that has no metadata log",
        stressed(("hang-data",), directories=3, partitions=6, flushed=True, duration_s=5.0),
        (*LOSSLESS, *CALM, *AT_REST, late("create-topic", 5.0)),
    ),
    "failed-directory": Story(
        "three nodes with three directories each: one fails, and is repaired; kills",
        stressed(("failed-directory", "failed-directory", "kill"), directories=3, partitions=4),
        (*LOSSLESS, *AT_REST, needless_fencing, died),
    ),
    "no-descriptors": Story(
        "three nodes that flush and run out of file descriptors for a while",
        stressed(("no-descriptors",), flushed=True, duration_s=8.0),
        (*LOSSLESS, *AT_REST, died),
    ),
    "clock-steps": Story(
        "three nodes whose wall clocks step by hours in both directions",
        stressed(("clock-step",), configs=ANY_TIMESTAMP),
        (*LOSSLESS, *CALM, *AT_REST, no_leader(1.0), late(PRODUCE, 5.0)),
    ),
    "idle-resets": Story(
        "three nodes: connections that carry nothing are reset",
        stressed(("idle-reset",)),
        (*LOSSLESS, *AT_REST, needless_fencing, no_controller(1.0), no_leader(1.0), died),
    ),
    "gates": Story(
        "three controllers and three brokers with a first listener that only clients reach: kills",
        stressed(("kill-controller", "kill"), gates=True, controllers=3, duration_s=8.0),
        (*LOSSLESS, *AT_REST, needless_fencing, no_controller(5.0), died),
    ),
    "min-isr": Story(
        "a controller and two brokers: min.insync.replicas is raised while the leader's metadata is late",
        stressed(
            ("raise-min-isr", "raise-min-isr", "metadata-lag"),
            brokers=2,
            controllers=1,
            partitions=1,
            properties=_short_lag,
        ),
        (*LOSSLESS, *AT_REST, died),
    ),
    "min-isr-chaos": Story(
        "three nodes: min.insync.replicas changes under kills, cuts, late metadata and stalls",
        stressed(
            ("kill", "lag", "isolate", "metadata-lag", "metadata-lag", "stall", "long-stall", "reset"),
            properties=drawn_properties,
            changers=_min_isr,
        ),
        (*LOSSLESS, *AT_REST, died),
    ),
    "deletes": Story(
        "three nodes: DeleteRecords, often with too little time, under kills, lag and cuts",
        stressed(
            ("kill", "lag", "isolate", "cut", "stop", "metadata-lag"),
            properties=drawn_properties,
            consumer_class=PrunedConsumer,
            changers=_deleters,
        ),
        (*PRUNED, *AT_REST, deletion_lost, deleted_too_much, died),
    ),
    "retention": Story(
        "three nodes: changing retention, DeleteRecords, kills, stalls and full disks",
        stressed(
            ("kill", "lag", "isolate", "stop", "full-disk", "stall"),
            properties=_retention,
            consumer_class=PrunedConsumer,
            changers=_retention_changers,
            flushed=True,
        ),
        (*PRUNED, *AT_REST, deletion_lost, died),
    ),
    "policies": Story(
        "three nodes: a compacted topic becomes a deleted one and back, under kills and power cuts",
        cleaning(
            3,
            ("kill", "power", "slow-power", "stop", "lag", "isolate"),
            flushed=True,
            changes=NOT_COMPACTED_LAST,
        ),
        COMPACTED,
    ),
    "voters": Story(
        "five nodes, three of them voters: voters are added and removed under kills, cuts and stalls",
        stressed(
            ("kill", "kill-controller", "split", "isolate", "stall", "long-stall", "stop"),
            brokers=5,
            dynamic_voters=3,
            changers=lambda world: [VoterChanger(world, "changer")],
            duration_s=8.0,
        ),
        (*LOSSLESS, *AT_REST, died),
    ),
    "long": Story(
        "three nodes with large records and segments for more than a minute: all kinds of stress",
        stressed(
            ("kill", "stall", "slow-data", "idle-reset", "busy", "isolate", "failed-directory", "lag"),
            directories=3,
            duration_s=70.0,
            record_bytes=6_000,
            pause_s=(0.2, 1.5),
            configs={"segment.ms": "604800000", "segment.bytes": "1048576"},
        ),
        (*LOSSLESS, *AT_REST, died),
    ),
}
