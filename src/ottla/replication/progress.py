"""What a leader knows of one follower: its log end, and when it was last caught up.

The rules (replica.lag.time.max.ms is the lag limit):

- A fetch at offset F says that the follower has everything below F.
- A fetch at or after the leader's log end makes the follower caught up as of this fetch.
- A fetch at or after the log end that the leader had at the previous fetch makes it caught up as of that one:
  a follower that always fetches what there was a moment ago keeps up, however fast the leader writes.
- A follower is caught up while its log end is the leader's, or while its last such time is within the limit.

Most partitions are idle, and the fetches of an idle partition bring nothing new. So the partitions of a fetch
session share one `SessionFetchTime`, which the shell sets once per fetch. While a follower is idle (it had
everything at its last own fetch, and nothing was appended since), each fetch of the session counts for it.
"""

from __future__ import annotations

LONG_AGO_MS = -(2**62)
UNKNOWN_OFFSET = -1
NO_BROKER_EPOCH = -1


class SessionFetchTime:
    """When a follower's fetch session was last used; shared by the partitions of the session."""

    __slots__ = ("last_fetch_ms",)

    def __init__(self, now_ms: int) -> None:
        self.last_fetch_ms = now_ms


class FollowerProgress:
    """One follower of one partition, as its leader sees it."""

    __slots__ = (
        "_last_caught_up_ms",
        "_last_fetch_ms",
        "_session_time",
        "broker_epoch",
        "end_offset",
        "last_fetch_leader_end",
        "log_start_offset",
        "node_id",
    )

    def __init__(self, node_id: int, in_sync: bool, now_ms: int) -> None:
        self.node_id = node_id
        self.end_offset = UNKNOWN_OFFSET
        self.log_start_offset = UNKNOWN_OFFSET
        self.broker_epoch = NO_BROKER_EPOCH
        self.last_fetch_leader_end = UNKNOWN_OFFSET
        # A member of the ISR has the whole limit to fetch from a new leader.
        self._last_caught_up_ms = now_ms if in_sync else LONG_AGO_MS
        self._last_fetch_ms = LONG_AGO_MS
        self._session_time: SessionFetchTime | None = None  # set while the follower is idle

    def __repr__(self) -> str:
        return f"FollowerProgress({self.node_id}, end {self.end_offset}, broker epoch {self.broker_epoch})"

    @property
    def last_caught_up_ms(self) -> int:
        if self._session_time is None:
            return self._last_caught_up_ms
        return max(self._last_caught_up_ms, self._session_time.last_fetch_ms)

    @property
    def last_fetch_ms(self) -> int:
        if self._session_time is None:
            return self._last_fetch_ms
        return max(self._last_fetch_ms, self._session_time.last_fetch_ms)

    def fetched(
        self,
        fetch_offset: int,
        log_start_offset: int,
        leader_end_offset: int,
        broker_epoch: int,
        now_ms: int,
        session_time: SessionFetchTime | None,
    ) -> None:
        self.leader_appended()
        if fetch_offset >= leader_end_offset:
            self._last_caught_up_ms = max(self._last_caught_up_ms, now_ms)
            self._session_time = session_time
        elif fetch_offset >= self.last_fetch_leader_end:
            self._last_caught_up_ms = max(self._last_caught_up_ms, self._last_fetch_ms)
        self.end_offset = fetch_offset
        self.log_start_offset = log_start_offset
        self.broker_epoch = broker_epoch
        self.last_fetch_leader_end = leader_end_offset
        self._last_fetch_ms = now_ms

    def leader_appended(self) -> None:
        """The follower is no longer idle: keep the times that it had until now."""
        if self._session_time is not None:
            self._last_caught_up_ms = self.last_caught_up_ms
            self._last_fetch_ms = self.last_fetch_ms
            self._session_time = None

    def new_epoch(self, in_sync: bool, leader_end_offset: int, now_ms: int) -> None:
        """The same leader begins another epoch: its log is the same, so the follower's offset still holds."""
        self._session_time = None
        self.last_fetch_leader_end = leader_end_offset
        self._last_caught_up_ms = now_ms if in_sync else LONG_AGO_MS
        self._last_fetch_ms = now_ms if in_sync else LONG_AGO_MS

    def is_caught_up(self, leader_end_offset: int, now_ms: int, lag_time_max_ms: int) -> bool:
        return self.end_offset == leader_end_offset or now_ms - self.last_caught_up_ms <= lag_time_max_ms
