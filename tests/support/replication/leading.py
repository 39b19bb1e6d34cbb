"""A leader of one partition, with two followers, for tests of its machine."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from ottla.replication.leader import LeaderState

LAG_MS = 100


def partition(
    isr: tuple[int, ...] = (1, 2, 3),
    replicas: tuple[int, ...] = (1, 2, 3),
    leader_epoch: int = 5,
    partition_epoch: int = 10,
) -> Any:
    return SimpleNamespace(
        replicas=replicas, isr=isr, leader=1, leader_epoch=leader_epoch, partition_epoch=partition_epoch
    )


def lead(
    image: Any = None, *, end: int = 10, high_watermark: int = 0, min_isr: int = 2, eligible: Any = None
) -> LeaderState:
    return LeaderState(
        1,
        image or partition(),
        log_start_offset=0,
        log_end_offset=end,
        high_watermark=high_watermark,
        min_isr=min_isr,
        lag_time_max_ms=LAG_MS,
        eligible=eligible or (lambda node_id, broker_epoch: True),
        now_ms=0,
    )


def fetch(leader: LeaderState, node_id: int, offset: int, now_ms: int = 0, **more: Any) -> int:
    arguments: dict[str, Any] = {
        "log_start_offset": 0,
        "leader_end_offset": leader.log_end_offset,
        "broker_epoch": 7,
        **more,
    }
    return leader.follower_fetched(node_id, offset, now_ms=now_ms, **arguments)
