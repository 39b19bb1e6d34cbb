"""The follower's rules, one by one: divergence, ranges, errors, high watermark, log start."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.fetch_response import EpochEndOffset, PartitionData
from ottla.replication.divergence import (
    check_leader_epoch,
    find_divergence,
    truncation_point,
)
from ottla.replication.follower import (
    APPEND,
    DELAYED,
    FETCH,
    FETCHING,
    STOP,
    STOPPED,
    AdvanceLogStart,
    DelayUntil,
    FollowerState,
    ListLeaderOffsets,
    TruncateFullyAndStartAt,
    TruncateTo,
)

NewLog = Callable[..., Any]


def epochs(*epochs_of_records: int) -> list[tuple[int, str]]:
    return [(epoch, f"{epoch}@{offset}") for offset, epoch in enumerate(epochs_of_records)]


def follow(log: Any, high_watermark: int = 0, **more: Any) -> FollowerState:
    return FollowerState(log, 1, 5, high_watermark, **more)


def diverging(epoch: int, end_offset: int) -> PartitionData:
    return PartitionData(diverging_epoch=EpochEndOffset(epoch=epoch, end_offset=end_offset))


def error(code: ErrorCode) -> PartitionData:
    return PartitionData(error_code=code)


class TestAsking:
    def test_at_the_log_end_with_the_last_record_epoch(self, new_log: NewLog) -> None:
        follower = follow(new_log(epochs(0, 0, 3)))
        assert (follower.fetch_offset, follower.last_fetched_epoch, follower.leader_epoch) == (3, 3, 5)
        assert follower.next_step() == FETCH

    def test_an_empty_log_has_no_epoch(self, new_log: NewLog) -> None:
        assert follow(new_log()).last_fetched_epoch == -1
        assert follow(new_log([], start=40)).fetch_offset == 40

    def test_an_epoch_in_which_nothing_was_written_is_not_named(self, new_log: NewLog) -> None:
        log = new_log(epochs(0, 0, 3))
        log.leader_epochs.assign(4, 3)
        assert follow(log).last_fetched_epoch == 3


class TestAppending:
    def test_high_watermark_is_the_leaders_as_far_as_the_log_goes(self, new_log: NewLog) -> None:
        log = new_log(epochs(0, 0, 0))
        follower = follow(log)
        assert follower.answered(PartitionData(high_watermark=9), 0) == APPEND
        assert follower.appended(9, 0) is None
        assert follower.high_watermark == 3
        log.append(epochs(0, 0))
        follower.appended(4, 0)
        assert follower.high_watermark == 4

    def test_what_was_committed_stays_committed(self, new_log: NewLog) -> None:
        follower = follow(new_log(epochs(0, 0, 0)), high_watermark=3)
        follower.appended(1, 0)
        assert follower.high_watermark == 3

    def test_log_start_follows_the_leader(self, new_log: NewLog) -> None:
        follower = follow(new_log(epochs(0, 0, 0)))
        assert follower.appended(2, 2) == AdvanceLogStart(2)
        assert follower.appended(2, 0) is None

    def test_log_start_stays_at_or_below_the_high_watermark(self, new_log: NewLog) -> None:
        assert follow(new_log(epochs(0, 0, 0))).appended(1, 3) == AdvanceLogStart(1)

    def test_a_broken_batch_is_asked_for_again(self, new_log: NewLog) -> None:
        follower = follow(new_log())
        assert follower.append_failed(ErrorCode.CORRUPT_MESSAGE, 100) == DelayUntil(120)

    def test_a_broken_disk_stops(self, new_log: NewLog) -> None:
        follower = follow(new_log())
        assert follower.append_failed(ErrorCode.KAFKA_STORAGE_ERROR, 100) == STOP
        assert follower.new_leader(1, 5) == STOP
        assert follower.new_leader(2, 6) == FETCH


class TestTruncation:
    def test_where_the_leaders_epoch_ended(self, new_log: NewLog) -> None:
        follower = follow(new_log(epochs(0, 0, 0, 2, 2)), high_watermark=4)
        assert follower.answered(diverging(0, 2), 0) == TruncateTo(2)
        assert follower.high_watermark == 2
        assert follower.phase == FETCHING

    def test_where_the_own_epoch_ended_if_that_is_earlier(self, new_log: NewLog) -> None:
        follower = follow(new_log(epochs(0, 0, 2, 2)))
        assert follower.answered(diverging(0, 3), 0) == TruncateTo(2)

    def test_step_by_step_through_epochs_that_the_leader_lacks(self, new_log: NewLog) -> None:
        log = new_log(epochs(0, 1, 3, 3))
        assert truncation_point(log, 2, 5, 0) == 2
        assert truncation_point(log, 1, 2, 0) == 2
        assert truncation_point(log, 0, 9, 0) == 1

    def test_all_of_it(self, new_log: NewLog) -> None:
        log = new_log(epochs(3, 3))
        assert follow(log).answered(diverging(1, 0), 0) == TruncateTo(0)
        log = new_log(epochs(3, 3), start=10)
        assert follow(log).answered(diverging(1, 4), 0) == TruncateFullyAndStartAt(4)

    def test_longer_than_the_leader(self, new_log: NewLog) -> None:
        follower = follow(new_log(epochs(0, 0, 0)), high_watermark=3)
        assert follower.answered(error(ErrorCode.OFFSET_OUT_OF_RANGE), 0) == ListLeaderOffsets(5)
        assert follower.next_step() == ListLeaderOffsets(5)
        assert follower.offsets_answered(ErrorCode.NONE, 0, 2, 0) == TruncateTo(2)
        assert (follower.high_watermark, follower.next_step()) == (2, FETCH)

    def test_an_epoch_that_no_leader_had(self, new_log: NewLog) -> None:
        """A bit of it has flipped: the checksum does not cover it, and the leader has nothing to compare."""
        follower = follow(new_log(epochs(0, 0, 1024)))
        assert follower.answered(error(ErrorCode.OFFSET_OUT_OF_RANGE), 0) == TruncateTo(2)
        assert follower.next_step() == FETCH

    def test_ends_before_the_leader_begins(self, new_log: NewLog) -> None:
        follower = follow(new_log(epochs(0, 0, 0)))
        follower.answered(error(ErrorCode.OFFSET_OUT_OF_RANGE), 0)
        assert follower.offsets_answered(ErrorCode.NONE, 7, 9, 0) == TruncateFullyAndStartAt(7)
        assert (follower.high_watermark, follower.phase) == (7, FETCHING)

    def test_in_range_after_all(self, new_log: NewLog) -> None:
        follower = follow(new_log(epochs(0, 0, 0)))
        follower.answered(error(ErrorCode.OFFSET_OUT_OF_RANGE), 0)
        assert follower.offsets_answered(ErrorCode.NONE, 1, 9, 0) == DelayUntil(20)

    def test_an_answer_that_nobody_waits_for(self, new_log: NewLog) -> None:
        follower = follow(new_log(epochs(0, 0, 0)))
        assert follower.offsets_answered(ErrorCode.NONE, 0, 1, 0) == FETCH


class TestErrors:
    def test_waits_double_up_to_the_limit_and_begin_anew(self, new_log: NewLog) -> None:
        follower = follow(new_log(), backoff_ms_max=100)
        now_ms, waits = 0, []
        for _ in range(5):
            step = follower.answered(error(ErrorCode.NOT_LEADER_OR_FOLLOWER), now_ms)
            assert isinstance(step, DelayUntil) and follower.phase == DELAYED
            assert follower.due(step.at_ms - 1) == step
            assert follower.due(step.at_ms) == FETCH
            waits.append(step.at_ms - now_ms)
            now_ms = step.at_ms
        assert waits == [20, 40, 80, 100, 100]
        assert follower.answered(PartitionData(), now_ms) == APPEND
        assert follower.answered(error(ErrorCode.UNKNOWN_LEADER_EPOCH), 0) == DelayUntil(20)

    def test_fenced_waits_for_metadata(self, new_log: NewLog) -> None:
        follower = follow(new_log())
        assert follower.answered(error(ErrorCode.FENCED_LEADER_EPOCH), 0) == STOP
        assert follower.due(10**9) == STOP and follower.phase == STOPPED
        assert follower.new_leader(2, 6, in_isr=True) == FETCH
        assert (follower.leader_id, follower.leader_epoch, follower.in_isr) == (2, 6, True)

    def test_a_new_leader_ends_a_delay_and_a_known_one_does_not(self, new_log: NewLog) -> None:
        follower = follow(new_log())
        step = follower.answered(error(ErrorCode.UNKNOWN_TOPIC_ID), 0)
        assert follower.new_leader(1, 5) == step
        assert follower.new_leader(2, 6) == FETCH

    @pytest.mark.parametrize("code", [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.REQUEST_TIMED_OUT])
    def test_failing_questions_are_put_again(self, new_log: NewLog, code: ErrorCode) -> None:
        follower = follow(new_log(epochs(0)))
        follower.answered(error(ErrorCode.OFFSET_OUT_OF_RANGE), 0)
        assert follower.offsets_answered(code, -1, -1, 0) == DelayUntil(20)


class TestDivergence:
    def test_leader_epochs_compared(self) -> None:
        assert check_leader_epoch(5, 5) == check_leader_epoch(5, -1) == ErrorCode.NONE
        assert check_leader_epoch(5, 4) == ErrorCode.FENCED_LEADER_EPOCH
        assert check_leader_epoch(5, 6) == ErrorCode.UNKNOWN_LEADER_EPOCH

    def test_none_where_the_logs_agree(self, new_log: NewLog) -> None:
        log = new_log(epochs(0, 0, 2, 2))
        assert find_divergence(log, -1, 0) is None
        assert find_divergence(log, 0, 2) is None
        assert find_divergence(log, 2, 4) is None

    def test_told_where_they_do_not(self, new_log: NewLog) -> None:
        log = new_log(epochs(0, 0, 2, 2))
        assert find_divergence(log, 0, 3) == (0, 2)
        assert find_divergence(log, 1, 2) == (0, 2)
        assert find_divergence(log, 3, 4) == (-1, -1)

    @given(data=st.data())
    def test_any_two_histories_meet_where_they_part(self, data: st.DataObject, new_log: NewLog) -> None:
        """A common beginning, then epochs that only one of the two saw: the common beginning is left."""
        common = sorted(data.draw(st.lists(st.integers(0, 3), max_size=6)))
        first_own = (common[-1] if common else 0) + 1
        of_leader = sorted(
            data.draw(st.lists(st.integers(first_own, 9).filter(lambda e: e % 2 == 0), max_size=6))
        )
        of_follower = sorted(
            data.draw(st.lists(st.integers(first_own, 9).filter(lambda e: e % 2), max_size=6))
        )
        leader = new_log([(epoch, ("common", i)) for i, epoch in enumerate(common)])
        log = new_log([(epoch, ("common", i)) for i, epoch in enumerate(common)])
        leader.append([(epoch, ("leader", i)) for i, epoch in enumerate(of_leader)])
        log.append([(epoch, ("follower", i)) for i, epoch in enumerate(of_follower)])
        leader.leader_epochs.assign(10, leader.log_end_offset)
        follower = follow(log)
        follower.new_leader(1, 10)
        for _ in range(20):
            if log.log_end_offset > leader.log_end_offset:
                follower.answered(error(ErrorCode.OFFSET_OUT_OF_RANGE), 0)
                step = follower.offsets_answered(ErrorCode.NONE, 0, leader.log_end_offset, 0)
            else:
                parted = find_divergence(leader, follower.last_fetched_epoch, log.log_end_offset)
                if parted is None:
                    break
                step = follower.answered(diverging(*parted), 0)
            assert isinstance(step, TruncateTo)
            log.truncate_to(step.offset)
        else:
            pytest.fail("still parted after twenty rounds")
        assert log.records == leader.records[: len(log.records)]
        assert len(log.records) >= len(common)
