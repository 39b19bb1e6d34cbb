"""Committed offsets of a group for code without an event loop, which need not be a member of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ottla.client.blocking.cluster import SyncCluster
from ottla.client.core.coordinators import GROUP, Coordinators
from ottla.client.core.group_offsets import commit_offsets, fetch_offsets
from ottla.client.core.group_types import CommittedOffset, TopicPartition


class SyncGroup:
    """One group's offsets at its coordinator."""

    def __init__(self, cluster: SyncCluster, group_id: str) -> None:
        self.cluster = cluster
        self.group_id = group_id
        self._coordinators = Coordinators(cluster.core, GROUP)

    def committed(
        self, partitions: Iterable[TopicPartition] | None = None, *, timeout_ms: float | None = None
    ) -> dict[TopicPartition, CommittedOffset]:
        """What is committed for these partitions (None: for all); those without an offset are left out.

        Waits for the end of transactions that are about to commit offsets.
        """
        return self.cluster.run(
            fetch_offsets(
                self._coordinators, self.group_id, partitions, require_stable=True, timeout_ms=timeout_ms
            )
        )

    def commit(
        self, offsets: Mapping[TopicPartition, CommittedOffset | int], *, timeout_ms: float | None = None
    ) -> None:
        """Commit without being a member. A group that has members refuses that (UNKNOWN_MEMBER_ID)."""
        self.cluster.run(commit_offsets(self._coordinators, self.group_id, offsets, timeout_ms=timeout_ms))
