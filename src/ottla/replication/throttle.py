"""Replication quotas: how fast throttled replicas may be copied, so that a reassignment leaves room for
others.

- `leader.replication.throttled.replicas` and `follower.replication.throttled.replicas` of a topic name the
  replicas ("partition:broker", or "*" for all); `leader.` and `follower.replication.throttled.rate` of a
  broker give the bytes per second.
- The rate is measured over the last `SAMPLES` seconds, as Kafka does (replication.quota.window.num).
- A replica in the ISR is never throttled, whatever the lists say: the leader waits for it, and so would every
  other replica and producer. The quota limits replicas that catch up.
"""

from __future__ import annotations

from collections.abc import Iterable

SAMPLES = 11
SAMPLE_MS = 1000
UNLIMITED = 2**63 - 1


class ReplicationQuota:
    """Bytes of throttled replicas in one direction (out of leaders, or into followers) of this broker."""

    __slots__ = ("_bytes_by_second", "bytes_per_second")

    def __init__(self, bytes_per_second: int = UNLIMITED) -> None:
        self.bytes_per_second = bytes_per_second
        self._bytes_by_second: dict[int, int] = {}  # bounded: at most SAMPLES entries

    def record(self, nbytes: int, now_ms: int) -> None:
        second = now_ms // SAMPLE_MS
        self._forget_before(second)
        self._bytes_by_second[second] = self._bytes_by_second.get(second, 0) + nbytes

    def is_exceeded(self, now_ms: int) -> bool:
        return self.room_at_ms(now_ms) > now_ms

    def room_at_ms(self, now_ms: int) -> int:
        """When the rate will be below the limit again if nothing is added; `now_ms` if it is."""
        if self.bytes_per_second >= UNLIMITED:
            return now_ms
        second = now_ms // SAMPLE_MS
        self._forget_before(second)
        excess = sum(self._bytes_by_second.values()) - self.bytes_per_second * SAMPLES
        room_at_ms = now_ms
        for sample, nbytes in sorted(self._bytes_by_second.items()):
            if excess <= 0:
                break
            excess -= nbytes
            room_at_ms = (sample + SAMPLES) * SAMPLE_MS
        return room_at_ms

    def _forget_before(self, second: int) -> None:
        if len(self._bytes_by_second) > 1 or second not in self._bytes_by_second:
            oldest = second - SAMPLES + 1
            for sample in [each for each in self._bytes_by_second if each < oldest]:
                del self._bytes_by_second[sample]


class ThrottledReplicas:
    """The value of a topic's list of throttled replicas; immutable."""

    __slots__ = ("_all", "_pairs")

    def __init__(self, entries: Iterable[str] = ()) -> None:
        """`entries` have been checked as configuration: "*", or "partition:broker" each."""
        texts = [entry.strip() for entry in entries]
        self._all = "*" in texts
        self._pairs = frozenset(
            (int(partition), int(broker))
            for partition, _, broker in (text.partition(":") for text in texts if text and text != "*")
        )

    def __bool__(self) -> bool:
        return self._all or bool(self._pairs)

    def has(self, partition: int, broker_id: int) -> bool:
        return self._all or (partition, broker_id) in self._pairs
