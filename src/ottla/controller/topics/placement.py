"""Chooses brokers for new partitions: leaders round-robin, followers shifted, racks apart where possible.

Brokers stand on a ring in which racks alternate. Partition i is led by broker start + i of the ring; its
followers are found by walking on from there, and the first step of that walk grows with every round, so
that the partitions of one leader have different followers. On the walk a rack that has no replica yet goes
before the others. Brokers that are fenced come last: they can follow when they are back, but not lead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from ottla.controller.image.parts import BrokerImage
from ottla.controller.refusal import Refusal
from ottla.protocol.errors import ErrorCode


def place_partitions(
    brokers: Iterable[BrokerImage], partitions: int, replication_factor: int, draw: Callable[[int], int]
) -> list[list[int]]:
    """The replicas of each partition, the leader first. `draw(n)` gives a random number below n."""
    live = [broker for broker in brokers if broker.active and _has_room(broker)]
    down = [broker for broker in brokers if not broker.active and _has_room(broker)]
    why = f"Unable to replicate the partition {replication_factor} time(s): "
    if not live:
        text = "All brokers are currently fenced or in controlled shutdown."
        raise Refusal(ErrorCode.INVALID_REPLICATION_FACTOR, why + text)
    if replication_factor > len(live) + len(down):
        text = f"The cluster has {len(live) + len(down)} broker(s)."
        raise Refusal(ErrorCode.INVALID_REPLICATION_FACTOR, why + text)
    ring = _alternate_racks(live)
    spare = _alternate_racks(down)
    start = draw(len(ring))
    shift = draw(len(ring))
    return [
        _replicas(ring, spare, replication_factor, leader=start + index, step=shift + index // len(ring))
        for index in range(partitions)
    ]


def _has_room(broker: BrokerImage) -> bool:
    """A broker whose directories are all cordoned takes no new partitions."""
    return not broker.cordoned_log_dirs or bool(set(broker.log_dirs) - set(broker.cordoned_log_dirs))


def _alternate_racks(brokers: Sequence[BrokerImage]) -> list[BrokerImage]:
    racks: dict[str, list[BrokerImage]] = {}
    for broker in sorted(brokers, key=lambda each: each.broker_id):
        racks.setdefault(broker.rack or "", []).append(broker)
    columns = [racks[name] for name in sorted(racks)]
    longest = max((len(column) for column in columns), default=0)
    return [column[row] for row in range(longest) for column in columns if row < len(column)]


def _replicas(
    ring: list[BrokerImage], spare: list[BrokerImage], count: int, *, leader: int, step: int
) -> list[int]:
    size = len(ring)
    first = leader % size
    chosen = [ring[first]]
    if count > 1:
        others = ring[first + 1 :] + ring[:first]
        turn = step % len(others) if others else 0
        _pick_racks_apart(chosen, others[turn:] + others[:turn], count)
        _pick_racks_apart(chosen, spare, count)
    assert len(chosen) == count, "there were brokers for every replica"
    return [broker.broker_id for broker in chosen]


def _pick_racks_apart(chosen: list[BrokerImage], walk: list[BrokerImage], count: int) -> None:
    used = {broker.rack for broker in chosen}
    left = []
    for broker in walk:
        if len(chosen) < count and broker.rack not in used:
            chosen.append(broker)
            used.add(broker.rack)
        else:
            left.append(broker)
    chosen.extend(left[: count - len(chosen)])
