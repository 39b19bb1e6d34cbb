"""Fetch sessions of followers (KIP-227), as the leader keeps them.

A session knows its partitions, and each partition knows the sessions that watch it. Only partitions that
moved are examined, so a follower of a thousand idle partitions costs one parked request and one timer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.replication.progress import SessionFetchTime

if TYPE_CHECKING:
    from typing import Protocol

    from ottla.broker.net.request import ClientConnection
    from ottla.broker.replicas.partition import Partition
    from ottla.protocol.messages.fetch_request import FetchPartition

    class ParkedFetch(Protocol):
        """A fetch that waits for a partition to move."""

        def moved(self, urgent: bool) -> None: ...

        def finish(self) -> None: ...


TopicKey = tuple[Any, int]  # topic id or name, partition


class FollowedPartition:
    """One partition of a session: what the follower requested, and what it was last sent."""

    __slots__ = (
        "fetch_offset",
        "fresh",
        "key",
        "last_fetched_epoch",
        "leader_epoch",
        "log_start_offset",
        "max_bytes",
        "partition",
        "sent_high_watermark",
        "sent_log_start_offset",
        "served",
        "session",
    )

    def __init__(self, session: FollowerSession, key: TopicKey) -> None:
        self.session = session
        self.key = key
        self.partition: Partition | None = None
        self.sent_high_watermark = -1
        self.sent_log_start_offset = -1

    def requested(self, wanted: FetchPartition) -> None:
        self.fetch_offset = wanted.fetch_offset
        self.leader_epoch = wanted.current_leader_epoch
        self.last_fetched_epoch = wanted.last_fetched_epoch
        self.log_start_offset = wanted.log_start_offset
        self.max_bytes = wanted.partition_max_bytes
        self.fresh = True  # not checked yet
        self.served = False  # was sent something, and has not fetched since

    def follow(self, partition: Partition | None) -> None:
        if partition is not self.partition:
            if self.partition is not None:
                self.partition.unwatch_log(self._moved)
            self.partition = partition
            if partition is not None:
                partition.watch_log(self._moved)

    def _moved(self) -> None:
        if not self.served:
            session, partition = self.session, self.partition
            assert partition is not None
            session.moving[self] = None
            if session.fetch is not None:
                session.fetch.moved(
                    not partition.is_leader or partition.log.log_end_offset > self.fetch_offset
                )


class FollowerSession:
    """The partitions that one follower broker fetches."""

    __slots__ = ("connection", "epoch", "fetch", "fetch_time", "id", "moving", "node_id", "partitions")

    def __init__(self, session_id: int, node_id: int, now_ms: int) -> None:
        self.id = session_id
        self.node_id = node_id
        self.connection: ClientConnection | None = None  # of its last fetch
        self.epoch = 1
        self.fetch_time = SessionFetchTime(now_ms)
        self.partitions: dict[TopicKey, FollowedPartition] = {}
        self.moving: dict[FollowedPartition, None] = {}  # to be examined, longest waiting first
        self.fetch: ParkedFetch | None = None  # the one that waits

    def add(self, key: TopicKey, wanted: FetchPartition, partition: Partition | None) -> None:
        followed = self.partitions.get(key)
        if followed is None:
            followed = self.partitions[key] = FollowedPartition(self, key)
        followed.requested(wanted)
        followed.follow(partition)
        self.moving.pop(followed, None)
        self.moving[followed] = None

    def forget(self, key: TopicKey) -> None:
        followed = self.partitions.pop(key, None)
        if followed is not None:
            followed.follow(None)
            self.moving.pop(followed, None)

    def end(self) -> None:
        if self.fetch is not None:
            self.fetch.finish()
        for followed in self.partitions.values():
            followed.follow(None)
        self.partitions.clear()
        self.moving.clear()
