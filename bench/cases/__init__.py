"""The measurements: each case is a function of the launch and the sizes that gives its figures."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib import import_module

from bench.broker import Launch
from bench.figures import Figure
from bench.sizes import Sizes

Case = Callable[[Launch, Sizes], Iterable[Figure]]

# In the order of the table: name, module, function.
_CASES = (
    ("floor", "floor", "floor"),
    ("start", "start", "start"),
    ("produce-librdkafka", "produce", "produce_librdkafka"),
    ("produce-wire", "produce", "produce_wire"),
    ("requests-alone", "requests", "alone"),
    ("requests-pipelined", "requests", "pipelined"),
    ("fetch", "fetch", "fetch_cached"),
    ("fetch-small", "fetch", "fetch_small"),
    ("fetch-librdkafka", "fetch", "fetch_librdkafka"),
    ("partitions", "partitions", "partitions"),
    ("lookup", "lookup", "lookup"),
    ("latency", "latency", "latency"),
    ("arrow", "arrow", "arrow"),
    ("spark-read", "spark_read", "spark_read"),
    ("spark-latency", "spark_read", "spark_latency"),
    ("spark-sink", "spark_sink", "spark_sink"),
    ("group-rebalance", "group_rebalance", "rebalance"),
    ("group-join", "group_members", "join"),
    ("group-heartbeats", "group_members", "heartbeats"),
    ("group-commits", "group_offsets", "commits"),
    ("group-load", "group_offsets", "load"),
    ("cleaning", "cleaning", "cleaning"),
    ("txn-rate", "txn_rate", "rate"),
    ("txn-commit", "txn_rate", "commit"),
    ("txn-produce", "txn_produce", "produce"),
    ("txn-produce-bare", "txn_produce", "produce_bare"),
    ("txn-finished", "txn_finished", "finished"),
    ("cluster-start", "cluster_start", "cluster_start"),
    ("cluster-produce", "cluster_produce", "cluster_produce"),
    ("cluster-partitions", "cluster_partitions", "cluster_partitions"),
    ("cluster-failover", "cluster_failover", "cluster_failover"),
)
NAMES = tuple(name for name, _, _ in _CASES)


def case(name: str) -> Case:
    for known, module, function in _CASES:
        if known == name:
            found: Case = getattr(import_module(f"bench.cases.{module}"), function)
            return found
    raise KeyError(name)


def matching(patterns: Iterable[str]) -> list[str]:
    """Return the cases whose names match or begin with one of the patterns: `fetch` selects three."""
    wanted = []
    for pattern in patterns:
        found = [name for name in NAMES if name == pattern] or [n for n in NAMES if n.startswith(pattern)]
        if not found:
            raise KeyError(pattern)
        wanted += [name for name in found if name not in wanted]
    return wanted
