"""The response to a change of the ISR arrives before the metadata that have it: what counts when."""

from __future__ import annotations

from typing import Any

from ottla.protocol.errors import ErrorCode
from ottla.replication.leader import HIGH_WATERMARK_MOVED, ISR_CHANGE_WANTED, LeaderState
from tests.support.replication.leading import LAG_MS, fetch, lead, partition


def accepted(leader: LeaderState, isr: tuple[int, ...], partition_epoch: int, now_ms: int) -> int:
    """The controller accepts what the leader proposes now; its own metadata do not have it yet."""
    change = leader.isr_change_proposal(now_ms)
    assert change is not None and change.isr == isr
    return leader.alter_partition_result(
        change, ErrorCode.NONE, now_ms, leader_epoch=5, isr=isr, partition_epoch=partition_epoch
    )


class TestResponseBeforeMetadata:
    """The controller may have counted with a minimum that the leader does not know yet."""

    LATE_MS = LAG_MS + 1

    def shrunk(self) -> LeaderState:
        """Of two members, with a minimum of one, one has left by the response alone."""
        leader = lead(partition(isr=(1, 2), replicas=(1, 2)), min_isr=1)
        fetch(leader, 2, 8)
        accepted(leader, (1,), 11, self.LATE_MS)
        assert (leader.isr, leader.high_watermark) == ((1,), 8)
        return leader

    def test_a_shrink_waits_for_the_metadata(self) -> None:
        leader = self.shrunk()
        assert leader.log_appended(12, self.LATE_MS) == 0
        flags = leader.metadata_changed(partition((1,), (1, 2), partition_epoch=11), self.LATE_MS)
        assert flags == HIGH_WATERMARK_MOVED
        assert leader.high_watermark == 12

    def test_a_larger_minimum_comes_with_the_metadata(self) -> None:
        leader = self.shrunk()
        leader.min_isr_changed(2, self.LATE_MS)
        assert leader.metadata_changed(partition((1,), (1, 2), partition_epoch=11), self.LATE_MS) == 0
        assert leader.high_watermark == 8

    def test_the_metadata_may_come_first(self) -> None:
        leader = lead(partition(isr=(1, 2), replicas=(1, 2)), min_isr=1)
        fetch(leader, 2, 8)
        change = leader.isr_change_proposal(self.LATE_MS)
        assert change is not None
        flags = leader.metadata_changed(partition((1,), (1, 2), partition_epoch=11), self.LATE_MS)
        assert flags == HIGH_WATERMARK_MOVED
        late: dict[str, Any] = {"leader_epoch": 5, "isr": (1,), "partition_epoch": 11}
        assert leader.alter_partition_result(change, ErrorCode.NONE, self.LATE_MS, **late) == 0
        assert leader.high_watermark == 10

    def test_older_metadata_do_not_confirm_it(self) -> None:
        leader = self.shrunk()
        accepted_too = fetch(leader, 2, 10, now_ms=self.LATE_MS)
        assert accepted_too & ISR_CHANGE_WANTED
        accepted(leader, (1, 2), 12, self.LATE_MS)
        leader.log_appended(12, self.LATE_MS)
        leader.metadata_changed(partition((1,), (1, 2), partition_epoch=11), self.LATE_MS)
        assert (leader.isr, leader.partition_epoch, leader.high_watermark) == ((1, 2), 12, 10)

    def test_a_new_member_completes_the_minimum_with_the_metadata(self) -> None:
        leader = lead(partition(isr=(1,)), high_watermark=4, min_isr=2)
        assert fetch(leader, 2, 10) & ISR_CHANGE_WANTED
        accepted(leader, (1, 2), 11, 0)
        assert (leader.admit(), leader.high_watermark) == (ErrorCode.NONE, 4)
        assert leader.metadata_changed(partition((1, 2), partition_epoch=11), 0) & HIGH_WATERMARK_MOVED
        assert leader.high_watermark == 10

    def test_who_joined_and_left_in_between_is_waited_for(self) -> None:
        leader = lead(partition(isr=(1, 2)))
        fetch(leader, 2, 10)
        fetch(leader, 3, 10)
        accepted(leader, (1, 2, 3), 11, 0)
        leader.log_appended(12, 1)
        fetch(leader, 2, 12, now_ms=2 * LAG_MS)
        accepted(leader, (1, 2), 12, 2 * LAG_MS)
        assert leader.high_watermark == 10
        leader.metadata_changed(partition((1, 2, 3), partition_epoch=11), 2 * LAG_MS)
        assert leader.high_watermark == 10
        leader.metadata_changed(partition((1, 2), partition_epoch=12), 2 * LAG_MS)
        assert leader.high_watermark == 12
