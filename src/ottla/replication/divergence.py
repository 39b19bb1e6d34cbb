"""Where two logs diverge: leader epochs compared, on the leader and on the follower (KIP-101, 279, 320).

Leader: a follower names the epoch of its last record and its log end. If the leader's log has no such epoch,
or that epoch ended earlier, the logs diverge, and the leader returns the largest epoch it has that is not
above the requested one, with that epoch's end.

Follower: if it knows that epoch too, the logs agree up to the smaller of the two ends. If it does not,
everything above the end of its own largest smaller epoch is unknown to the leader: it truncates there and
fetches again. Each round removes an epoch, so it ends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.protocol.errors import ErrorCode

NO_EPOCH = -1
NO_OFFSET = -1

if TYPE_CHECKING:
    from typing import Protocol

    class EpochView(Protocol):
        """Which leader epoch wrote from which offset on: `ottla.storage.log.leader_epochs.LeaderEpochs`."""

        def end_offset_for(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
            """(epoch, end offset) of the largest known epoch <= `epoch`; (-1, -1) if unknown."""

        def epoch_for_offset(self, offset: int) -> int:
            """The epoch that wrote `offset`, or -1."""

    class LogView(Protocol):
        """What the machines see of a log; `ottla.storage.log.PartitionLog` is one."""

        @property
        def log_start_offset(self) -> int: ...

        @property
        def log_end_offset(self) -> int: ...

        @property
        def leader_epochs(self) -> EpochView: ...


def check_leader_epoch(own_epoch: int, claimed_epoch: int) -> ErrorCode:
    """Compare the requester's leader epoch with our own; -1 skips the check."""
    if claimed_epoch < 0 or claimed_epoch == own_epoch:
        return ErrorCode.NONE
    return ErrorCode.FENCED_LEADER_EPOCH if claimed_epoch < own_epoch else ErrorCode.UNKNOWN_LEADER_EPOCH


def find_divergence(log: LogView, last_fetched_epoch: int, fetch_offset: int) -> tuple[int, int] | None:
    """Return None if the logs agree up to `fetch_offset`, else the DivergingEpoch of the response.

    Call it after the check of the leader epoch and before `LeaderState.follower_fetched`: the fetch offset of
    a follower that has to truncate does not count. A log longer than the leader's diverges, too. (-1, -1)
    means unknown: OFFSET_OUT_OF_RANGE.
    """
    if last_fetched_epoch == NO_EPOCH:
        return None
    epoch, end_offset = log.leader_epochs.end_offset_for(last_fetched_epoch, log.log_end_offset)
    if epoch == NO_EPOCH:
        return NO_EPOCH, NO_OFFSET
    if epoch < last_fetched_epoch or end_offset < fetch_offset:
        return epoch, end_offset
    return None


def truncation_point(log: LogView, leader_epoch: int, leader_end_offset: int, high_watermark: int) -> int:
    """Return where the follower truncates, given (epoch, end offset) of the leader. The next fetch reports
    whether the logs still diverge.
    """
    log_end_offset = log.log_end_offset
    if leader_end_offset == NO_OFFSET:
        return min(high_watermark, log_end_offset)
    if leader_epoch == NO_EPOCH:
        return min(leader_end_offset, log_end_offset)
    own_epoch, own_end_offset = log.leader_epochs.end_offset_for(leader_epoch, log_end_offset)
    if own_epoch == NO_EPOCH:
        return min(leader_end_offset, log_end_offset)
    if own_epoch != leader_epoch:
        return min(own_end_offset, log_end_offset)
    return min(own_end_offset, leader_end_offset, log_end_offset)
