"""A follower's conversation with one leader: sessions, changes, delays, throttles, idle rounds."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from typing import Any

import pytest

from ottla.broker.api.records.fetch_sessions import FetchSessionCache, SessionError
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.fetch_request import FetchRequest
from ottla.protocol.messages.fetch_response import FetchableTopicResponse, FetchResponse, PartitionData
from ottla.replication.fetch_plan import FetchLimits, FetchPlan
from ottla.replication.follower import APPEND, FollowerState, ListLeaderOffsets
from ottla.replication.throttle import ReplicationQuota, ThrottledReplicas

NewLog = Callable[..., Any]
TOPIC = b"a" * 16
OTHER = b"b" * 16


def plan_of(new_log: NewLog, count: int = 3, quota: ReplicationQuota | None = None) -> FetchPlan:
    plan = FetchPlan(2, 40, FetchLimits(), quota)
    for index in range(count):
        plan.add(TOPIC, index, FollowerState(new_log([(0, "x")]), 1, 5, 0))
    return plan


def requested(request: FetchRequest | None) -> dict[tuple[bytes, int], int]:
    assert request is not None
    return {
        (topic.topic_id, each.partition): each.fetch_offset
        for topic in request.topics
        for each in topic.partitions
    }


def forgotten(request: FetchRequest | None) -> set[tuple[bytes, int]]:
    assert request is not None
    return {(topic.topic_id, each) for topic in request.forgotten_topics_data for each in topic.partitions}


def answer(*partitions: PartitionData, session_id: int = 9, topic_id: bytes = TOPIC) -> FetchResponse:
    return FetchResponse(
        session_id=session_id,
        responses=[FetchableTopicResponse(topic_id=topic_id, partitions=list(partitions))],
    )


def open_session(plan: FetchPlan, now_ms: int = 0) -> None:
    assert plan.next_request(now_ms) is not None
    plan.answered(answer(), now_ms)


class TestRequests:
    def test_the_first_is_full(self, new_log: NewLog) -> None:
        request = plan_of(new_log).next_request(0)
        assert request is not None
        assert requested(request) == {(TOPIC, 0): 1, (TOPIC, 1): 1, (TOPIC, 2): 1}
        assert (request.session_id, request.session_epoch) == (0, 0)
        assert (request.replica_state.replica_id, request.replica_state.replica_epoch) == (2, 40)
        assert (request.max_wait_ms, request.min_bytes, request.max_bytes) == (0, 1, 10 << 20)
        partition = request.topics[0].partitions[0]
        assert (partition.current_leader_epoch, partition.last_fetched_epoch) == (5, 0)
        assert (partition.log_start_offset, partition.partition_max_bytes) == (0, 1 << 20)
        again = FetchRequest.decode(17, request.encode(17))
        assert requested(again) == requested(request)

    def test_who_was_refused_asks_again_though_the_delay_was_over_at_once(self, new_log: NewLog) -> None:
        """The process may have slept between the answer and the next request: the leader waits for the
        question, which is the same as before."""
        plan = plan_of(new_log)
        open_session(plan)
        plan.next_request(0)
        refusal = PartitionData(partition_index=1, error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER)
        ((entry, data),) = plan.answered(answer(refusal), 0)
        entry.follower.answered(data, 0)
        assert requested(plan.next_request(10_000)) == {(TOPIC, 1): 1}
        plan.answered(FetchResponse(session_id=9), 10_000)
        assert requested(plan.next_request(10_000)) == {}, "once is enough"

    def test_one_at_a_time(self, new_log: NewLog) -> None:
        plan = plan_of(new_log)
        assert plan.next_request(0) is not None
        assert plan.next_request(0) is None

    def test_none_without_partitions(self, new_log: NewLog) -> None:
        plan = plan_of(new_log, 1)
        plan.remove(TOPIC, 0)
        assert plan.next_request(0) is None
        assert plan.wake_at_ms(0) is None

    def test_an_idle_one_is_empty(self, new_log: NewLog) -> None:
        plan = plan_of(new_log)
        open_session(plan)
        for epoch in range(1, 5):
            request = plan.next_request(0)
            assert request is not None and (request.session_id, request.session_epoch) == (9, epoch)
            assert requested(request) == {} and forgotten(request) == set()
            assert plan.answered(FetchResponse(session_id=9), 0) == []

    def test_an_idle_round_does_not_look_at_partitions(self, new_log: NewLog) -> None:
        plan = plan_of(new_log, 100)
        open_session(plan)

        class Untouchable(dict):  # type: ignore[type-arg]
            def __iter__(self) -> Any:
                raise AssertionError("iterated")

            values = items = __getitem__ = __iter__  # type: ignore[assignment]

        plan._entries = Untouchable(plan._entries)
        assert requested(plan.next_request(0)) == {}
        plan.answered(FetchResponse(session_id=9), 0)

    def test_after_data_only_that_partition_is_named(self, new_log: NewLog) -> None:
        plan = plan_of(new_log)
        open_session(plan)
        plan.next_request(0)
        ((entry, data),) = plan.answered(answer(PartitionData(partition_index=1, records=b"12")), 0)
        assert (entry.topic_id, entry.partition) == (TOPIC, 1)
        assert entry.follower.answered(data, 0) == APPEND
        entry.follower.log.append([(1, "y"), (1, "z")])  # type: ignore[attr-defined]
        assert requested(plan.next_request(0)) == {(TOPIC, 1): 3}

    def test_come_and_go(self, new_log: NewLog) -> None:
        plan = plan_of(new_log)
        open_session(plan)
        plan.remove(TOPIC, 0)
        plan.add(OTHER, 7, FollowerState(new_log(), 1, 2, 0))
        assert plan.has_changes
        request = plan.next_request(0)
        assert (requested(request), forgotten(request)) == ({(OTHER, 7): 0}, {(TOPIC, 0)})
        assert len(plan) == 3 and not plan.has_changes

    def test_a_new_epoch_or_log_start_is_told(self, new_log: NewLog) -> None:
        plan = plan_of(new_log)
        open_session(plan)
        first, second, _ = plan.partitions()
        first.follower.new_leader(1, 6)
        second.follower.log.advance_log_start(1)  # type: ignore[attr-defined]
        for index in range(3):
            plan.touch(TOPIC, index)
        assert set(requested(plan.next_request(0))) == {(TOPIC, 0), (TOPIC, 1)}

    def test_partitions_that_gave_data_go_to_the_end(self, new_log: NewLog) -> None:
        plan = plan_of(new_log)
        for expected in ([0, 1, 2], [1, 2, 0], [2, 0, 1]):
            request = plan.next_request(0)
            assert [index for _, index in requested(request)] == expected
            first = PartitionData(partition_index=expected[0], records=b"1")
            plan.answered(answer(first, session_id=0), 0)  # the leader keeps no session


class TestAnswers:
    def test_to_an_old_question_are_dropped_and_asked_for_anew(self, new_log: NewLog) -> None:
        plan = plan_of(new_log)
        open_session(plan)
        plan.next_request(0)
        next(iter(plan.partitions())).follower.new_leader(1, 6)
        plan.touch(TOPIC, 0)
        assert plan.answered(answer(PartitionData(partition_index=0, high_watermark=1)), 0) == []
        request = plan.next_request(0)
        assert (requested(request), forgotten(request)) == ({}, {(TOPIC, 0)})
        assert request is not None and request.max_wait_ms == 0
        plan.answered(FetchResponse(session_id=9), 0)
        assert requested(plan.next_request(0)) == {(TOPIC, 0): 1}

    def test_to_a_partition_that_left(self, new_log: NewLog) -> None:
        plan = plan_of(new_log)
        plan.next_request(0)  # full: the leader will open its session with the partition
        plan.remove(TOPIC, 0)
        assert plan.answered(answer(PartitionData(partition_index=0)), 0) == []
        assert forgotten(plan.next_request(0)) == {(TOPIC, 0)}

    def test_to_a_partition_that_left_and_came_back(self, new_log: NewLog) -> None:
        plan = plan_of(new_log)
        open_session(plan)
        plan.next_request(0)
        plan.add(TOPIC, 0, FollowerState(new_log(), 1, 5, 0))
        assert plan.answered(answer(PartitionData(partition_index=0, records=b"1")), 0) == []
        assert forgotten(plan.next_request(0)) == {(TOPIC, 0)}
        plan.answered(FetchResponse(session_id=9), 0)
        assert requested(plan.next_request(0)) == {(TOPIC, 0): 0}

    @pytest.mark.parametrize(
        ("code", "session_id"),
        [
            (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, 0),
            (ErrorCode.INVALID_FETCH_SESSION_EPOCH, 9),
            (ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR, 9),
        ],
    )
    def test_a_lost_session_is_opened_anew_at_once(
        self, new_log: NewLog, code: ErrorCode, session_id: int
    ) -> None:
        plan = plan_of(new_log)
        open_session(plan)
        plan.next_request(0)
        assert plan.answered(FetchResponse(error_code=code), 0) == []
        request = plan.next_request(0)
        assert request is not None and (request.session_id, request.session_epoch) == (session_id, 0)
        assert len(requested(request)) == 3

    def test_errors_again_and_again_are_given_time(self, new_log: NewLog) -> None:
        plan = plan_of(new_log)
        now_ms, pauses = 0, []
        for _ in range(9):
            assert plan.next_request(now_ms) is not None
            plan.answered(FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND), now_ms)
            wake_at_ms = plan.wake_at_ms(now_ms)
            pauses.append(0 if wake_at_ms is None else wake_at_ms - now_ms)
            if pauses[-1]:
                assert plan.next_request(now_ms) is None
            now_ms += pauses[-1]
        assert pauses[0] == 0 and pauses[-1] == 1000 and pauses == sorted(pauses)

    def test_a_lost_connection_ends_the_session(self, new_log: NewLog) -> None:
        plan = plan_of(new_log)
        open_session(plan)
        plan.next_request(0)
        plan.failed(0)
        request = plan.next_request(0)
        assert request is not None and (request.session_id, request.session_epoch) == (9, 0)
        assert len(requested(request)) == 3

    def test_session_epochs_wrap_to_one(self, new_log: NewLog) -> None:
        plan = plan_of(new_log)
        open_session(plan)
        plan.session_epoch = 2**31 - 1
        plan.next_request(0)
        plan.answered(FetchResponse(session_id=9), 0)
        assert plan.session_epoch == 1


class TestDelays:
    def test_an_error_leaves_the_session_until_its_time(self, new_log: NewLog) -> None:
        plan = plan_of(new_log)
        open_session(plan)
        plan.next_request(0)
        bad = PartitionData(partition_index=1, error_code=ErrorCode.UNKNOWN_LEADER_EPOCH)
        for entry, data in plan.answered(answer(bad), 0):
            entry.follower.answered(data, 0)
        request = plan.next_request(0)
        assert (requested(request), forgotten(request)) == ({}, {(TOPIC, 1)})
        assert request is not None and request.max_wait_ms == 20  # not longer than the delay
        plan.answered(FetchResponse(session_id=9), 20)
        assert requested(plan.next_request(20)) == {(TOPIC, 1): 1}

    def test_alone_it_is_waited_for(self, new_log: NewLog) -> None:
        plan = plan_of(new_log, 1)
        plan.next_request(0)
        bad = PartitionData(partition_index=0, error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER)
        for entry, data in plan.answered(answer(bad), 0):
            entry.follower.answered(data, 0)
        assert plan.next_request(5) is None
        assert plan.wake_at_ms(5) == 20
        assert forgotten(plan.next_request(20)) == {(TOPIC, 0)}

    def test_a_question_of_its_own_keeps_it_out_until_answered(self, new_log: NewLog) -> None:
        plan = plan_of(new_log)
        open_session(plan)
        plan.next_request(0)
        bad = PartitionData(partition_index=1, error_code=ErrorCode.OFFSET_OUT_OF_RANGE)
        ((entry, data),) = plan.answered(answer(bad), 0)
        assert entry.follower.answered(data, 0) == ListLeaderOffsets(5)
        assert forgotten(plan.next_request(0)) == {(TOPIC, 1)}
        plan.answered(FetchResponse(session_id=9), 0)
        assert requested(plan.next_request(0)) == {}
        plan.answered(FetchResponse(session_id=9), 0)
        entry.follower.offsets_answered(ErrorCode.NONE, 0, 0, 0)
        entry.follower.log.truncate_to(0)  # type: ignore[attr-defined]
        plan.touch(TOPIC, 1)
        assert requested(plan.next_request(0)) == {(TOPIC, 1): 0}


class TestThrottling:
    def test_leaves_out_who_catches_up_and_no_other(self, new_log: NewLog) -> None:
        quota = ReplicationQuota(100)
        plan = plan_of(new_log, 3, quota)
        entries = list(plan.partitions())
        entries[1].follower.in_isr = True
        for index in (1, 2):
            plan.set_throttled(TOPIC, index, True)
        open_session(plan)
        plan.next_request(0)
        many = [PartitionData(partition_index=index, records=b"1" * 2000) for index in range(3)]
        assert len(plan.answered(answer(*many), 0)) == 3
        assert quota.is_exceeded(0)
        request = plan.next_request(0)
        assert forgotten(request) == {(TOPIC, 2)}
        room_at_ms = quota.room_at_ms(0)
        plan.answered(FetchResponse(session_id=9), 0)
        assert requested(plan.next_request(0)) == {}
        plan.answered(FetchResponse(session_id=9), room_at_ms)
        assert requested(plan.next_request(room_at_ms)) == {(TOPIC, 2): 1}

    def test_only_throttled_bytes_count(self, new_log: NewLog) -> None:
        quota = ReplicationQuota(1)
        plan = plan_of(new_log, 2, quota)
        plan.next_request(0)
        plan.answered(answer(PartitionData(partition_index=0, records=b"1" * 5000)), 0)
        assert not quota.is_exceeded(0)

    def test_the_rate_is_that_of_the_window(self) -> None:
        quota = ReplicationQuota(100)
        quota.record(1100, 500)
        assert not quota.is_exceeded(500)
        quota.record(1, 600)
        assert quota.is_exceeded(600)
        assert quota.room_at_ms(600) == 11_000
        assert quota.is_exceeded(10_999) and not quota.is_exceeded(11_000)

    def test_room_comes_with_the_oldest_seconds_that_suffice(self) -> None:
        quota = ReplicationQuota(100)
        for second, nbytes in enumerate((300, 300, 300, 300, 300)):
            quota.record(nbytes, second * 1000)
        assert quota.room_at_ms(4000) == 12_000  # without seconds 0 and 1 there are 900 left
        quota.bytes_per_second = 10**9
        assert quota.room_at_ms(4000) == 4000

    def test_without_a_limit_nothing_is_exceeded(self) -> None:
        quota = ReplicationQuota()
        quota.record(2**40, 0)
        assert not quota.is_exceeded(0)

    def test_the_lists_of_a_topic(self) -> None:
        listed = ThrottledReplicas(["0:1", " 2:3"])
        assert listed and listed.has(0, 1) and listed.has(2, 3) and not listed.has(0, 3)
        assert ThrottledReplicas(["*"]).has(5, 5)
        assert not ThrottledReplicas([]) and not ThrottledReplicas([""]).has(0, 0)


class Leader:
    """The leader's side, with the broker's own session cache."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        serial = itertools.count(1)
        self.cache = FetchSessionCache(2, eviction_ms=0, new_id=lambda: next(serial))
        self.end_offsets: dict[tuple[bytes, int], int] = {}
        self.error_rate = 0.05
        self.session: set[Any] = set()

    def serve(self, request: FetchRequest) -> FetchResponse:
        request = FetchRequest.decode(17, request.encode(17))
        try:
            context = self.cache.open(request, True, 0)
        except SessionError as error:
            return FetchResponse(error_code=error.code)
        self.session = {(state.key[0], state.key[1]) for state in context.partitions}
        topics: dict[bytes, FetchableTopicResponse] = {}
        for state in context.partitions:
            topic_id, index = state.key
            assert isinstance(topic_id, bytes)
            end_offset = self.end_offsets.get((topic_id, index), 0)
            data = PartitionData(partition_index=index, high_watermark=end_offset)
            if self.rng.random() < self.error_rate:
                data.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
            else:  # a record is its offset
                until = min(end_offset, state.fetch_offset + self.rng.randint(1, 3))
                data.records = bytes(range(state.fetch_offset, until)) or None
                if context.incremental and not data.records and state.high_watermark == end_offset:
                    continue
                state.high_watermark = end_offset
            topics.setdefault(topic_id, FetchableTopicResponse(topic_id=topic_id)).partitions.append(data)
        return FetchResponse(session_id=context.session_id, responses=list(topics.values()))


def disturb(plan: FetchPlan, rng: random.Random) -> None:
    """Events of followers while a request is in flight."""
    for entry in rng.sample(list(plan.partitions()), min(2, len(plan))):
        log: Any = entry.follower.log
        if rng.random() < 0.5:
            log.truncate_to(rng.randint(0, log.log_end_offset))
            entry.follower.high_watermark = min(entry.follower.high_watermark, log.log_end_offset)
        else:
            entry.follower.new_leader(1, entry.follower.leader_epoch + 1)
        plan.touch(entry.topic_id, entry.partition)


def copy(plan: FetchPlan, response: FetchResponse, now_ms: int) -> None:
    for entry, data in plan.answered(response, now_ms):
        log: Any = entry.follower.log
        if entry.follower.answered(data, now_ms) == APPEND:
            for offset in data.records or b"":
                assert offset == log.log_end_offset, "an answer to another question"
                log.append([(0, offset)])
            entry.follower.appended(data.high_watermark, 0)


@pytest.mark.parametrize("seed", range(60))
def test_plan_and_session_stay_of_one_mind(seed: int, new_log: NewLog) -> None:
    """Partitions come and go, err, grow, change epochs; sessions get lost. All is copied in the end."""
    rng = random.Random(seed)
    leader, plan, now_ms = Leader(rng), FetchPlan(2, 40, FetchLimits()), 0
    for step in range(300):
        troubled = step < 200
        leader.error_rate = 0.05 if troubled else 0.0
        now_ms += rng.randint(1, 30)
        key = (rng.choice((TOPIC, OTHER)), rng.randrange(6))
        if troubled and rng.random() < 0.1:
            if rng.random() < 0.5:
                plan.remove(*key)
            else:
                plan.add(*key, FollowerState(new_log(), 1, 5, 0))
        leader.end_offsets[key] = leader.end_offsets.get(key, 0) + (rng.randint(0, 3) if troubled else 0)
        request = plan.next_request(now_ms)
        if request is None:
            continue
        in_session = {(each.topic_id, each.partition) for each in plan.partitions() if each.in_session}
        if troubled and rng.random() < 0.3:
            disturb(plan, rng)
        if troubled and rng.random() < 0.1:
            plan.remove(*key)
        response = leader.serve(request)
        if not response.error_code:
            assert leader.session == in_session
        if troubled and rng.random() < 0.1:
            plan.failed(now_ms)
            continue
        copy(plan, response, now_ms)
        if troubled and rng.random() < 0.05:
            leader.cache = Leader(rng).cache
    for entry in plan.partitions():
        end_offset = leader.end_offsets.get((entry.topic_id, entry.partition), 0)
        assert (entry.follower.fetch_offset, entry.follower.high_watermark) == (end_offset, end_offset)


class TestNews:
    """While the leader holds a request, changes do not wait for its response."""

    def test_a_second_request_tells_it(self, new_log: NewLog) -> None:
        plan = plan_of(new_log, 1)
        open_session(plan)
        held = plan.next_request(0)
        assert held is not None and held.session_epoch == 1
        assert plan.next_request(0) is None, "nothing is new"
        plan.add(OTHER, 7, FollowerState(new_log(), 1, 2, 0))
        second = plan.next_request(0)
        assert requested(second) == {(OTHER, 7): 0}
        assert second is not None and second.session_epoch == 2
        plan.add(OTHER, 8, FollowerState(new_log(), 1, 2, 0))
        assert plan.next_request(0) is None, "two at a time"
        plan.answered(FetchResponse(session_id=9), 0)
        third = plan.next_request(0)
        assert requested(third) == {(OTHER, 8): 0} and third is not None and third.session_epoch == 3

    def test_not_before_the_session_is_known(self, new_log: NewLog) -> None:
        plan = plan_of(new_log, 1)
        full = plan.next_request(0)
        assert full is not None and full.max_wait_ms == 0, "so that it is known soon"
        plan.add(OTHER, 7, FollowerState(new_log(), 1, 2, 0))
        assert plan.next_request(0) is None
        plan.answered(answer(), 0)
        assert requested(plan.next_request(0)) == {(OTHER, 7): 0}

    def test_a_leader_without_sessions_may_hold_full_requests(self, new_log: NewLog) -> None:
        plan = plan_of(new_log, 1)
        plan.next_request(0)
        plan.answered(answer(session_id=0), 0)
        again = plan.next_request(0)
        assert again is not None and again.session_epoch == 0 and again.max_wait_ms == 500

    def test_an_answer_to_what_was_asked_before_does_not_count(self, new_log: NewLog) -> None:
        plan = plan_of(new_log, 1)
        open_session(plan)
        plan.next_request(0)
        (entry,) = plan.partitions()
        entry.follower.log.truncate_to(0)  # type: ignore[attr-defined]
        plan.touch(TOPIC, 0)
        assert requested(plan.next_request(0)) == {(TOPIC, 0): 0}
        late = PartitionData(partition_index=0, records=b"at offset 1")
        assert plan.answered(answer(late), 0) == []
        assert forgotten(plan.next_request(0)) == {(TOPIC, 0)}
        plan.answered(answer(PartitionData(partition_index=0, records=b"at offset 0")), 0)
        plan.answered(FetchResponse(session_id=9), 0)
        assert requested(plan.next_request(0)) == {(TOPIC, 0): 0}

    def test_who_waits_for_the_disk_is_not_asked_for_and_stays_in_the_session(self, new_log: NewLog) -> None:
        plan = plan_of(new_log, 2)
        open_session(plan)
        plan.next_request(0)
        ((entry, data),) = plan.answered(answer(PartitionData(partition_index=1, records=b"12")), 0)
        assert entry.follower.answered(data, 0) == APPEND
        entry.follower.log.append([(1, "y")])  # type: ignore[attr-defined]
        entry.follower.wait_for_flush()
        idle = plan.next_request(0)
        assert requested(idle) == {} and forgotten(idle) == set()
        entry.follower.new_leader(1, 6)
        assert not plan.has_changes
        assert entry.follower.flush_done() and not entry.follower.flush_done()
        plan.touch(TOPIC, 1)
        assert requested(plan.next_request(0)) == {(TOPIC, 1): 2}
