"""Balance a group whose members subscribe to different topics.

1. Members keep the partitions that they own and still subscribe to.
2. A free partition goes to its least loaded subscriber, topics with the fewest subscribers first.
3. The least loaded member receives from the nearest member that has at least two partitions more. Giver and
   receiver may share no topic: then partitions move along a chain of members, one per link (the first
   gives a partition to the second, the second gives another one to the third).

Step 3 ends when no chain would reduce the difference between its two ends: the best balance that the
subscriptions allow. Each move narrows a difference, so the step terminates.
"""

from __future__ import annotations

from collections.abc import Mapping
from heapq import heapify, heapreplace

from ottla.groups.assignors.spec import MemberSpec, TopicSpec

# The partitions of a member by topic, newly assigned ones last.
_Holdings = dict[bytes, list[int]]


def assign_mixed(
    members: Mapping[str, MemberSpec], topics: Mapping[bytes, TopicSpec]
) -> dict[str, dict[bytes, tuple[int, ...]]]:
    return _Table(members, topics).balanced()


class _Table:
    __slots__ = ("held", "load", "members", "subscribed", "subscribers", "topics")

    def __init__(self, members: Mapping[str, MemberSpec], topics: Mapping[bytes, TopicSpec]) -> None:
        self.members = members
        self.topics = topics
        self.subscribed = {
            member_id: {topic_id: None for topic_id in members[member_id].subscribed if topic_id in topics}
            for member_id in sorted(members)
        }
        self.subscribers: dict[bytes, list[str]] = {}
        for member_id, topic_ids in self.subscribed.items():
            for topic_id in topic_ids:
                self.subscribers.setdefault(topic_id, []).append(member_id)
        self.held: dict[str, _Holdings] = {member_id: {} for member_id in self.subscribed}
        self.load = dict.fromkeys(self.subscribed, 0)

    def balanced(self) -> dict[str, dict[bytes, tuple[int, ...]]]:
        self._place(self._keep())
        self._relieve()
        return {
            member_id: {topic_id: tuple(sorted(holdings[topic_id])) for topic_id in sorted(holdings)}
            for member_id, holdings in self.held.items()
        }

    def _keep(self) -> dict[bytes, list[int]]:
        """Step 1; return the free partitions."""
        free = {
            topic_id: dict.fromkeys(range(self.topics[topic_id].partition_count))
            for topic_id in self.subscribers
        }
        for member_id, topic_ids in self.subscribed.items():
            for topic_id, numbers in self.members[member_id].current.items():
                if topic_id not in topic_ids:
                    continue
                unclaimed = free[topic_id]
                kept = [partition for partition in sorted(numbers) if partition in unclaimed]
                if kept:
                    for partition in kept:
                        del unclaimed[partition]
                    self.held[member_id][topic_id] = kept
                    self.load[member_id] += len(kept)
        return {topic_id: list(unclaimed) for topic_id, unclaimed in free.items() if unclaimed}

    def _place(self, free: dict[bytes, list[int]]) -> None:
        """Step 2."""
        for topic_id in sorted(free, key=lambda each: (len(self.subscribers[each]), each)):
            heap = [(self.load[member_id], member_id) for member_id in self.subscribers[topic_id]]
            heapify(heap)
            racks = self.topics[topic_id].racks
            for partition in free[topic_id]:
                load, member_id = heap[0]
                if racks is not None and self.members[member_id].rack_id not in racks[partition]:
                    member_id = self._nearer(heap, racks[partition])
                self._give(member_id, topic_id, partition)
                if member_id == heap[0][1]:
                    heapreplace(heap, (load + 1, member_id))
                else:
                    heap[heap.index((load, member_id))] = (load + 1, member_id)
                    heapify(heap)

    def _nearer(self, heap: list[tuple[int, str]], racks: object) -> str:
        """Among the least loaded members, return one in a rack of the partition, else the first."""
        load, first = heap[0]
        near = (
            member_id
            for other_load, member_id in heap
            if other_load == load and self.members[member_id].rack_id in racks  # type: ignore[operator]
        )
        return min(near, default=first)

    def _relieve(self) -> None:
        """Step 3. When a member cannot receive more, all members that can reach it are final as well."""
        unsettled = dict(self.load)
        while unsettled:
            receiver = min(unsettled, key=lambda each: (self.load[each], each))
            giver, giver_of = self._nearest_giver(receiver)
            if giver is None:
                del unsettled[receiver]
                for member_id in giver_of:
                    unsettled.pop(member_id, None)
                continue
            member_id = giver
            while member_id != receiver:
                taker, topic_id = giver_of[member_id]
                self._give(taker, topic_id, self._take(member_id, topic_id))
                member_id = taker

    def _nearest_giver(self, receiver: str) -> tuple[str | None, dict[str, tuple[str, bytes]]]:
        """Search breadth-first for a member that can give; return it, and for each visited member the
        receiver and the topic."""
        enough = self.load[receiver] + 2
        giver_of: dict[str, tuple[str, bytes]] = {}
        seen_topics: dict[bytes, None] = {}
        ring = [receiver]
        while ring:
            outer: list[str] = []
            for taker in ring:
                for topic_id in self.subscribed[taker]:
                    if topic_id in seen_topics:
                        continue
                    seen_topics[topic_id] = None
                    for member_id in self.subscribers[topic_id]:
                        if (
                            topic_id in self.held[member_id]
                            and member_id not in giver_of
                            and member_id != receiver
                        ):
                            giver_of[member_id] = (taker, topic_id)
                            outer.append(member_id)
            givers = [member_id for member_id in outer if self.load[member_id] >= enough]
            if givers:
                return max(givers, key=lambda each: self.load[each]), giver_of
            ring = outer
        return None, giver_of

    def _give(self, member_id: str, topic_id: bytes, partition: int) -> None:
        self.held[member_id].setdefault(topic_id, []).append(partition)
        self.load[member_id] += 1

    def _take(self, member_id: str, topic_id: bytes) -> int:
        """Take the last partition of the list: new partitions move before owned ones."""
        holdings = self.held[member_id]
        partition = holdings[topic_id].pop()
        if not holdings[topic_id]:
            del holdings[topic_id]
        self.load[member_id] -= 1
        return partition
