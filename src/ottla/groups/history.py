"""Why a group rebalanced: a short history of its rebalances, for `ottla group describe`."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Final, NamedTuple

# The causes of a rebalance.
MEMBER_JOINED: Final = "member joined"
MEMBER_REJOINED: Final = "member requested a rebalance"
LEADER_REJOINED: Final = "leader requested a rebalance"
MEMBER_LEFT: Final = "member left"
MEMBER_REMOVED: Final = "member removed by an admin"
SESSION_TIMED_OUT: Final = "member's session timed out"
REBALANCE_TIMED_OUT: Final = "member missed the rebalance timeout"
SYNC_TIMED_OUT: Final = "member did not sync in time"
SUBSCRIPTION_CHANGED: Final = "member's subscription or metadata changed"
STATIC_MEMBER_REPLACED: Final = "static member replaced"
TOPICS_CHANGED: Final = "topics changed"
GROUP_TOO_LARGE: Final = "group larger than allowed"
PROTOCOL_CHANGED: Final = "group changed its protocol"

# The limit per rebalance: many members may join at once, and the history must stay small.
TRIGGERS_MAX = 16


class Trigger(NamedTuple):
    """One cause. `detail` holds the client's reason, or the topic that changed."""

    what: str
    at_ms: int
    member_id: str = ""
    client_id: str = ""
    client_host: str = ""
    detail: str = ""


class Rebalance:
    """One rebalance; `ended_ms` is -1 while it is in progress."""

    __slots__ = ("began_ms", "ended_ms", "generation", "member_count", "triggers", "triggers_left_out")

    def __init__(self, began_ms: int) -> None:
        self.began_ms = began_ms
        self.ended_ms = -1
        self.generation = -1  # the generation, or group epoch, that it led to
        self.member_count = 0
        self.triggers: list[Trigger] = []
        self.triggers_left_out = 0

    @property
    def duration_ms(self) -> int:
        return -1 if self.ended_ms < 0 else self.ended_ms - self.began_ms

    def add(self, trigger: Trigger) -> None:
        if len(self.triggers) < TRIGGERS_MAX:
            self.triggers.append(trigger)
        else:
            self.triggers_left_out += 1


class RebalanceHistory:
    """The last rebalances of a group, the newest last. Soft state: a new coordinator starts with none."""

    __slots__ = ("_rebalances",)

    def __init__(self, length: int) -> None:
        self._rebalances: deque[Rebalance] = deque(maxlen=length)

    @property
    def current(self) -> Rebalance | None:
        """The rebalance in progress, if any."""
        if self._rebalances and self._rebalances[-1].ended_ms < 0:
            return self._rebalances[-1]
        return None

    def trigger(self, trigger: Trigger) -> None:
        """Start a rebalance, or add a cause to the one in progress."""
        rebalance = self.current
        if rebalance is None:
            rebalance = Rebalance(trigger.at_ms)
            self._rebalances.append(rebalance)
        rebalance.add(trigger)

    def end(self, now_ms: int, generation: int, member_count: int) -> None:
        """End the rebalance in progress, if any."""
        rebalance = self.current
        if rebalance is not None:
            rebalance.ended_ms = now_ms
            rebalance.generation = generation
            rebalance.member_count = member_count

    def __iter__(self) -> Iterator[Rebalance]:
        return iter(self._rebalances)

    def __len__(self) -> int:
        return len(self._rebalances)
