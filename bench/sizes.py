"""Sizes of the cases: for stable figures, for a quick check, or only to see that the cases run."""

from __future__ import annotations

from typing import NamedTuple


class Sizes(NamedTuple):
    starts: int
    idle_seconds: float
    rounds: int
    produce_rounds: int  # many and short, because prepared memory stays available only for a short time
    produce_bytes: int  # per round and batch size
    requests: int  # per round, one-record produces and small fetches
    fetch_bytes: int  # stored, and read once per round
    topics: int
    partitions_per_topic: int
    segments_few: int
    segments_many: int
    lookups: int  # per round
    latency_seconds: float
    replicated_rounds: int
    replicated_bytes: int  # per round
    replicated_partitions: int
    kills: int  # per kind
    group_hurry: bool  # shorter intervals than the defaults
    joining_members: int
    joining_rounds: int
    heartbeat_groups: int
    heartbeat_seconds: float
    rebalances: int  # number of times that a member joins and leaves
    commits: int  # per round
    committing_groups: int
    offset_records: int  # to be loaded
    spark_rows: int  # of 100 bytes
    spark_rounds: int
    spark_codecs: int
    spark_latencies: int
    transactions: int  # per round, in one partition
    commits_timed: int
    txn_rounds: int
    txn_seconds: float  # per round
    finished_transactions: int


FULL = Sizes(
    starts=10,
    idle_seconds=10,
    rounds=5,
    produce_rounds=20,
    produce_bytes=50_000_000,
    requests=40_000,
    fetch_bytes=400_000_000,
    topics=10,
    partitions_per_topic=1000,
    segments_few=10,
    segments_many=1000,
    lookups=10_000,
    latency_seconds=10,
    replicated_rounds=8,
    replicated_bytes=150_000_000,
    replicated_partitions=1000,
    kills=10,
    group_hurry=False,
    joining_members=100,
    joining_rounds=3,
    heartbeat_groups=2000,
    heartbeat_seconds=15,
    rebalances=3,
    commits=30_000,
    committing_groups=200,
    offset_records=1_000_000,
    spark_rows=6_000_000,
    spark_rounds=5,
    spark_codecs=5,
    spark_latencies=30,
    transactions=2_000,
    commits_timed=1_000,
    txn_rounds=10,
    txn_seconds=2,
    finished_transactions=100_000,
)
QUICK = FULL._replace(
    starts=5,
    idle_seconds=3,
    rounds=3,
    produce_rounds=8,
    requests=15_000,
    fetch_bytes=200_000_000,
    segments_many=200,
    lookups=5_000,
    latency_seconds=3,
    replicated_rounds=4,
    replicated_bytes=100_000_000,
    kills=3,
    joining_rounds=1,
    heartbeat_seconds=6,
    rebalances=1,
    commits=10_000,
    offset_records=300_000,
    spark_rows=3_000_000,
    spark_rounds=3,
    spark_codecs=5,
    spark_latencies=10,
    transactions=500,
    commits_timed=300,
    txn_rounds=6,
    txn_seconds=1.5,
    finished_transactions=20_000,
)
SMOKE = Sizes(
    starts=1,
    idle_seconds=0.1,
    rounds=1,
    produce_rounds=2,
    produce_bytes=2_000_000,
    requests=200,
    fetch_bytes=3_000_000,
    topics=2,
    partitions_per_topic=3,
    segments_few=2,
    segments_many=4,
    lookups=50,
    latency_seconds=0.3,
    replicated_rounds=1,
    replicated_bytes=2_000_000,
    replicated_partitions=12,
    kills=1,
    group_hurry=True,
    joining_members=5,
    joining_rounds=1,
    heartbeat_groups=3,
    heartbeat_seconds=0.1,
    rebalances=1,
    commits=200,
    committing_groups=4,
    offset_records=2_000,
    spark_rows=30_000,
    spark_rounds=1,
    spark_codecs=1,
    spark_latencies=1,
    transactions=20,
    commits_timed=10,
    txn_rounds=1,
    txn_seconds=0.3,
    finished_transactions=100,
)
