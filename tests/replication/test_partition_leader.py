"""The leader's rules, one by one: ISR, high watermark, proposals and their answers, acknowledgements."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.alter_partition_request import AlterPartitionRequest
from ottla.replication.isr_change import IsrChange, alter_partition_request
from ottla.replication.leader import (
    HIGH_WATERMARK_MOVED,
    ISR_CHANGE_WANTED,
    LOG_START_MOVED,
    REFUSED,
    RETRY_ISR_CHANGE,
    LeaderState,
)
from ottla.replication.progress import SessionFetchTime
from tests.support.replication.leading import LAG_MS, fetch, lead, partition


class TestHighWatermark:
    def test_waits_for_every_member_of_the_isr(self) -> None:
        leader = lead()
        assert not fetch(leader, 2, 8) & HIGH_WATERMARK_MOVED
        assert fetch(leader, 3, 6) & HIGH_WATERMARK_MOVED
        assert leader.high_watermark == 6

    def test_of_a_single_replica_is_the_log_end(self) -> None:
        leader = lead(partition(isr=(1,), replicas=(1,)))
        assert leader.high_watermark == 10
        assert leader.log_appended(12, 0) == HIGH_WATERMARK_MOVED
        assert leader.high_watermark == 12

    def test_waits_for_the_disk_where_asked(self) -> None:
        leader = lead(partition(isr=(1,), replicas=(1,)))
        assert leader.log_appended(12, 0, counts=False) == 0
        assert leader.high_watermark == 10
        assert leader.log_flushed(11, 0) == HIGH_WATERMARK_MOVED
        assert leader.high_watermark == 11

    def test_never_goes_back(self) -> None:
        leader = lead()
        fetch(leader, 2, 8)
        fetch(leader, 3, 8)
        assert fetch(leader, 2, 3) == 0
        assert leader.high_watermark == 8

    def test_stands_still_below_min_isr(self) -> None:
        leader = lead(partition(isr=(1,)), end=10, high_watermark=4)
        assert leader.tick(0) & HIGH_WATERMARK_MOVED == 0
        assert leader.high_watermark == 4
        assert leader.min_isr_changed(1, 0) == HIGH_WATERMARK_MOVED
        assert leader.high_watermark == 10

    def test_min_isr_is_at_most_the_number_of_replicas(self) -> None:
        leader = lead(partition(isr=(1,), replicas=(1,)), min_isr=3)
        assert leader.effective_min_isr == 1
        assert leader.admit() == ErrorCode.NONE

    def test_waits_for_who_is_caught_up_and_about_to_join(self) -> None:
        leader = lead(partition(isr=(1, 2)))
        fetch(leader, 3, 10)
        leader.log_appended(12, 10)
        fetch(leader, 2, 12, now_ms=10)
        assert leader.high_watermark == 10
        assert fetch(leader, 3, 11, now_ms=12) & HIGH_WATERMARK_MOVED
        assert leader.high_watermark == 11

    def test_does_not_wait_for_who_may_not_join(self) -> None:
        leader = lead(partition(isr=(1, 2)), eligible=lambda node_id, epoch: node_id != 3)
        fetch(leader, 3, 10)
        leader.log_appended(12, 10)
        fetch(leader, 2, 12, now_ms=10)
        assert leader.high_watermark == 12

    def test_does_not_wait_for_who_fell_behind(self) -> None:
        leader = lead(partition(isr=(1, 2)))
        fetch(leader, 3, 4)
        fetch(leader, 2, 10)
        assert leader.high_watermark == 10

    def test_follows_when_a_laggard_is_given_up_by_time(self) -> None:
        leader = lead(partition(isr=(1, 2)))
        fetch(leader, 3, 10)
        leader.log_appended(12, 10)
        fetch(leader, 2, 12, now_ms=10)
        assert leader.tick(LAG_MS) & HIGH_WATERMARK_MOVED == 0
        assert leader.tick(LAG_MS + 1) & HIGH_WATERMARK_MOVED
        assert leader.high_watermark == 12

    def test_counts_the_member_that_is_joining(self) -> None:
        leader = lead(partition(isr=(1, 2)), eligible=lambda node_id, epoch: True)
        fetch(leader, 2, 10)
        fetch(leader, 3, 10)
        change = leader.isr_change_proposal(0)
        assert change is not None and leader.maximal_isr == (1, 2, 3) and leader.isr == (1, 2)
        leader.log_appended(20, 1000)
        fetch(leader, 2, 20, now_ms=1000)  # 3 is not caught up by any rule any more
        assert leader.high_watermark == 10

    def test_begins_where_the_follower_had_it(self) -> None:
        assert lead(high_watermark=7).high_watermark == 7
        assert lead(high_watermark=70).high_watermark == 10


class TestJoining:
    def test_at_the_high_watermark_and_the_epoch_start(self) -> None:
        leader = lead(partition(isr=(1, 2)), end=10, high_watermark=6)
        assert not fetch(leader, 3, 9) & ISR_CHANGE_WANTED  # the epoch began at 10
        assert fetch(leader, 3, 10) & ISR_CHANGE_WANTED
        change = leader.isr_change_proposal(0)
        assert change is not None
        assert (change.isr, change.expands, change.broker_epochs) == ((1, 2, 3), True, {2: -1, 3: 7})
        assert (change.leader_epoch, change.partition_epoch) == (5, 10)

    def test_not_below_the_high_watermark(self) -> None:
        leader = lead(partition(isr=(1, 2)))
        leader.log_appended(20, 200)
        fetch(leader, 2, 20, now_ms=200)
        assert leader.high_watermark == 20
        assert not fetch(leader, 3, 19, now_ms=200) & ISR_CHANGE_WANTED
        assert fetch(leader, 3, 20, now_ms=200) & ISR_CHANGE_WANTED

    @pytest.mark.parametrize("known_epoch", [6, 8])
    def test_only_the_incarnation_that_the_metadata_know(self, known_epoch: int) -> None:
        leader = lead(partition(isr=(1, 2)), eligible=lambda node_id, epoch: epoch == known_epoch)
        assert not fetch(leader, 3, 10) & ISR_CHANGE_WANTED

    def test_an_old_incarnation_is_refused(self) -> None:
        leader = lead()
        fetch(leader, 2, 8, broker_epoch=7)
        assert fetch(leader, 2, 10, broker_epoch=6) == REFUSED
        assert leader.followers[2].end_offset == 8
        assert fetch(leader, 2, 3, broker_epoch=8) != REFUSED
        assert leader.followers[2].end_offset == 3

    def test_who_is_no_replica_is_refused(self) -> None:
        assert fetch(lead(), 9, 10) == REFUSED

    def test_one_change_at_a_time(self) -> None:
        leader = lead(partition(isr=(1,)))
        fetch(leader, 2, 10)
        assert leader.isr_change_proposal(0) is not None
        assert not fetch(leader, 3, 10) & ISR_CHANGE_WANTED
        assert leader.isr_change_proposal(0) is None
        assert not leader.tick(5000) & ISR_CHANGE_WANTED

    def test_who_fell_silent_does_not_join(self) -> None:
        leader = lead(partition(isr=(1, 2)))
        fetch(leader, 3, 10)
        fetch(leader, 2, 10, now_ms=LAG_MS + 1)
        assert leader.isr_change_proposal(LAG_MS + 1) is None


class TestLeaving:
    def test_after_the_lag_limit_without_being_caught_up(self) -> None:
        leader = lead(end=10)
        leader.log_appended(11, 0)
        for now_ms in (0, 50, 100, 150):
            fetch(leader, 2, 11, now_ms=now_ms)
        assert not leader.tick(LAG_MS) & ISR_CHANGE_WANTED
        assert leader.tick(LAG_MS + 1) & ISR_CHANGE_WANTED
        change = leader.isr_change_proposal(LAG_MS + 1)
        assert change is not None and change.isr == (1, 2) and not change.expands
        assert leader.maximal_isr == (1, 2, 3)  # until the controller has agreed

    def test_not_while_it_has_everything(self) -> None:
        leader = lead(end=10)
        fetch(leader, 2, 10)
        fetch(leader, 3, 10)
        assert leader.tick(10_000_000) == 0

    def test_not_while_each_fetch_reaches_where_the_log_ended_before(self) -> None:
        leader = lead(end=10)
        fetch(leader, 2, 10)
        for now_ms in range(10, 500, 10):
            leader.log_appended(10 + now_ms, now_ms)
            fetch(leader, 3, now_ms, now_ms=now_ms)  # always one round late, never level
        leaving = leader.isr_change_proposal(500)
        assert leaving is not None and leaving.isr == (1, 3)

    def test_always_behind_the_fetch_before(self) -> None:
        leader = lead(end=10)
        for now_ms in range(10, 500, 10):
            leader.log_appended(10 + now_ms, now_ms)
            fetch(leader, 2, 10 + now_ms, now_ms=now_ms)
            fetch(leader, 3, 5 + now_ms // 2, now_ms=now_ms)
        leaving = leader.isr_change_proposal(500)
        assert leaving is not None and leaving.isr == (1, 2)

    def test_fetches_of_the_session_keep_an_idle_follower_caught_up(self) -> None:
        leader = lead(end=10)
        session_time = SessionFetchTime(0)
        fetch(leader, 2, 10, session_time=session_time)
        fetch(leader, 3, 10)
        session_time.last_fetch_ms = 10_000
        leader.log_appended(11, 10_010)
        session_time.last_fetch_ms = 99_999  # no longer ours: something was appended
        change = leader.isr_change_proposal(10_000 + LAG_MS)
        assert change is not None and change.isr == (1, 2)
        assert leader.followers[2].last_caught_up_ms == 10_000

    def test_a_fetch_after_an_idle_time_counts_from_the_session(self) -> None:
        leader = lead(end=10)
        session_time = SessionFetchTime(0)
        fetch(leader, 2, 10, session_time=session_time)
        session_time.last_fetch_ms = 5_000
        leader.log_appended(11, 5_010)
        fetch(leader, 2, 10, now_ms=5_020, session_time=session_time)
        assert leader.followers[2].last_caught_up_ms == 5_000


def proposed(leader: LeaderState) -> IsrChange:
    fetch(leader, 3, 10)
    change = leader.isr_change_proposal(0)
    assert change is not None
    return change


class TestAnswers:
    def test_accepted(self) -> None:
        leader = lead(partition(isr=(1, 2)))
        change = proposed(leader)
        flags = leader.alter_partition_result(
            change, ErrorCode.NONE, 0, leader_epoch=5, isr=(1, 2, 3), partition_epoch=11
        )
        assert flags == 0
        assert (leader.isr, leader.maximal_isr, leader.pending) == ((1, 2, 3), (1, 2, 3), None)
        assert leader.partition_epoch == 11

    @pytest.mark.parametrize("code", [ErrorCode.INELIGIBLE_REPLICA, ErrorCode.OPERATION_NOT_ATTEMPTED])
    def test_certainly_not_applied(self, code: ErrorCode) -> None:
        leader = lead(partition(isr=(1, 2)))
        assert leader.alter_partition_result(proposed(leader), code, 0) == 0
        assert (leader.pending, leader.maximal_isr) == (None, (1, 2))
        assert not fetch(leader, 3, 10, now_ms=49) & ISR_CHANGE_WANTED  # the controller gets a rest
        assert fetch(leader, 3, 10, now_ms=50) & ISR_CHANGE_WANTED

    @pytest.mark.parametrize(
        "code",
        [
            ErrorCode.FENCED_LEADER_EPOCH,
            ErrorCode.INVALID_UPDATE_VERSION,
            ErrorCode.NEW_LEADER_ELECTED,
            ErrorCode.UNKNOWN_TOPIC_ID,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ErrorCode.INVALID_REQUEST,
        ],
    )
    def test_metadata_will_tell(self, code: ErrorCode) -> None:
        leader = lead(partition(isr=(1, 2)))
        change = proposed(leader)
        assert leader.alter_partition_result(change, code, 0) == 0
        assert (leader.pending, leader.maximal_isr) == (change, (1, 2, 3))
        leader.metadata_changed(partition(isr=(1, 2), partition_epoch=11), 0)
        assert (leader.pending, leader.maximal_isr) == (None, (1, 2))

    @pytest.mark.parametrize(
        "code",
        [
            ErrorCode.REQUEST_TIMED_OUT,
            ErrorCode.NOT_CONTROLLER,
            ErrorCode.STALE_BROKER_EPOCH,
            ErrorCode.UNKNOWN_SERVER_ERROR,
            ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ],
    )
    def test_unknown_outcome_is_tried_again(self, code: ErrorCode) -> None:
        leader = lead(partition(isr=(1, 2)))
        change = proposed(leader)
        assert leader.alter_partition_result(change, code, 0) == RETRY_ISR_CHANGE
        assert (leader.pending, leader.maximal_isr) == (change, (1, 2, 3))

    def test_to_what_is_no_longer_pending(self) -> None:
        leader = lead(partition(isr=(1, 2)))
        change = proposed(leader)
        leader.metadata_changed(partition(isr=(1,), partition_epoch=12), 0)
        answer: dict[str, Any] = {"leader_epoch": 5, "isr": (1, 2, 3), "partition_epoch": 11}
        assert leader.alter_partition_result(change, ErrorCode.NONE, 0, **answer) == 0
        assert leader.isr == (1,)

    @pytest.mark.parametrize(("leader_epoch", "partition_epoch"), [(6, 11), (4, 11), (5, 9)])
    def test_of_another_epoch(self, leader_epoch: int, partition_epoch: int) -> None:
        leader = lead(partition(isr=(1, 2)))
        change = proposed(leader)
        answer = {"leader_epoch": leader_epoch, "partition_epoch": partition_epoch}
        leader.alter_partition_result(change, ErrorCode.NONE, 0, isr=(1, 2, 3), **answer)
        assert leader.isr == (1, 2)

    def test_request_carries_the_incarnations(self) -> None:
        leader = lead(partition(isr=(1, 2)))
        topic_id = bytes(range(16))
        request = alter_partition_request(1, 40, [(topic_id, 3, proposed(leader))])
        again = AlterPartitionRequest.decode(3, request.encode(3))
        data = again.topics[0].partitions[0]
        assert (again.broker_id, again.broker_epoch, again.topics[0].topic_id) == (1, 40, topic_id)
        assert [(each.broker_id, each.broker_epoch) for each in data.new_isr_with_epochs] == [
            (1, 40),
            (2, -1),
            (3, 7),
        ]
        assert (data.partition_index, data.leader_epoch, data.partition_epoch) == (3, 5, 10)


class TestMetadata:
    def test_old_news(self) -> None:
        leader = lead()
        assert leader.metadata_changed(partition(isr=(1,), partition_epoch=9), 0) == 0
        assert leader.isr == (1, 2, 3)

    def test_of_the_same_epoch_leave_the_proposal_open(self) -> None:
        leader = lead(partition(isr=(1, 2)))
        change = proposed(leader)
        leader.metadata_changed(partition(isr=(1, 2)), 0)
        assert leader.pending is change

    def test_a_smaller_isr_lets_the_high_watermark_go(self) -> None:
        leader = lead()
        fetch(leader, 2, 10)
        flags = leader.metadata_changed(partition(isr=(1, 2), partition_epoch=11), LAG_MS + 1)
        assert flags & HIGH_WATERMARK_MOVED
        assert leader.high_watermark == 10

    def test_replicas_come_and_go(self) -> None:
        leader = lead()
        fetch(leader, 2, 10)
        image = partition(isr=(1, 2), replicas=(1, 2, 4), partition_epoch=11)
        leader.metadata_changed(image, 0)
        assert set(leader.followers) == {2, 4}
        assert leader.followers[2].end_offset == 10
        assert leader.followers[4].end_offset == -1

    def test_a_new_epoch_of_the_same_leader(self) -> None:
        leader = lead()
        fetch(leader, 2, 10)
        leader.log_appended(15, 0)
        leader.metadata_changed(partition(leader_epoch=6, partition_epoch=11), 0)
        assert (leader.leader_epoch, leader.epoch_start_offset) == (6, 15)
        assert leader.followers[2].end_offset == 10

    def test_after_somebody_else_led_nothing_is_known_of_followers(self) -> None:
        leader = lead()
        fetch(leader, 2, 10)
        fetch(leader, 3, 10)
        leader.metadata_changed(partition(leader_epoch=7, partition_epoch=12), 0)
        assert [each.end_offset for each in leader.followers.values()] == [-1, -1]
        assert leader.log_appended(11, 0) == 0

    def test_offsets_are_settled_when_the_epoch_start_is_committed(self) -> None:
        leader = lead(high_watermark=9)
        assert not leader.offsets_are_settled
        fetch(leader, 2, 10)
        fetch(leader, 3, 10)
        assert leader.offsets_are_settled

    def test_of_another_leader_are_not_for_us(self) -> None:
        image = partition(partition_epoch=11)
        image.leader = 2
        with pytest.raises(AssertionError):
            lead().metadata_changed(image, 0)


class TestAcknowledgements:
    def test_refused_below_min_isr(self) -> None:
        assert lead(partition(isr=(1,))).admit() == ErrorCode.NOT_ENOUGH_REPLICAS
        assert lead(partition(isr=(1, 2))).admit() == ErrorCode.NONE

    def test_a_joining_member_does_not_count_for_admission(self) -> None:
        leader = lead(partition(isr=(1,)))
        fetch(leader, 2, 10)
        assert leader.isr_change_proposal(0) is not None
        assert leader.admit() == ErrorCode.NOT_ENOUGH_REPLICAS

    def test_done_when_the_high_watermark_has_passed(self) -> None:
        leader = lead()
        assert leader.check_ack(10) is None
        fetch(leader, 2, 10)
        fetch(leader, 3, 10)
        assert leader.check_ack(10) == ErrorCode.NONE
        assert leader.check_ack(11) is None

    def test_committed_but_the_isr_has_shrunk(self) -> None:
        leader = lead()
        fetch(leader, 2, 10)
        fetch(leader, 3, 10)
        leader.metadata_changed(partition(isr=(1,), partition_epoch=11), 0)
        assert leader.check_ack(10) == ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND

    def test_low_watermark_is_the_smallest_log_start(self) -> None:
        leader = lead()
        leader.log_start_moved(5)
        assert leader.low_watermark(lambda node_id: True) == -1
        assert fetch(leader, 2, 10, log_start_offset=5) & LOG_START_MOVED
        fetch(leader, 3, 10, log_start_offset=2)
        assert leader.low_watermark(lambda node_id: True) == 2
        assert leader.low_watermark(lambda node_id: node_id != 3) == 5
