"""Fetch sessions: epochs, state per partition, errors, and the limit on their number."""

from __future__ import annotations

from itertools import count

import pytest

from ottla.broker.api.records.fetch_sessions import FetchContext, FetchSessionCache, SessionError
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic

TOPIC = b"\x01" * 16


def cache(slots: int = 10, eviction_ms: int = 1000) -> FetchSessionCache:
    ids = count(1)
    return FetchSessionCache(slots, eviction_ms, new_id=lambda: next(ids))


def request(
    session_id: int, epoch: int, offsets: dict[int, int] | None = None, forgotten: list[int] | None = None
) -> FetchRequest:
    partitions = [FetchPartition(partition=n, fetch_offset=offset) for n, offset in (offsets or {}).items()]
    return FetchRequest(
        session_id=session_id,
        session_epoch=epoch,
        topics=[FetchTopic(topic_id=TOPIC, partitions=partitions)] if partitions else [],
        forgotten_topics_data=(
            [ForgottenTopic(topic_id=TOPIC, partitions=forgotten)] if forgotten is not None else []
        ),
    )


def offsets_of(context: FetchContext) -> dict[int, int]:
    return {state.key.partition: state.fetch_offset for state in context.partitions}


def test_sessionless_requests_create_no_session() -> None:
    sessions = cache()
    context = sessions.open(request(0, -1, {0: 5}), True, 0)
    assert (context.session_id, context.incremental, offsets_of(context)) == (0, False, {0: 5})
    assert len(sessions) == 0


def test_a_session_adds_and_removes_partitions() -> None:
    sessions = cache()
    first = sessions.open(request(0, 0, {0: 5, 1: 6}), True, 0)
    assert first.session_id == 1 and not first.incremental
    second = sessions.open(request(1, 1, {1: 7, 2: 0}), True, 0)
    assert second.incremental and offsets_of(second) == {0: 5, 1: 7, 2: 0}
    third = sessions.open(request(1, 2, forgotten=[0, 9]), True, 0)
    assert offsets_of(third) == {1: 7, 2: 0}


def test_the_sent_state_is_kept_when_the_request_changes() -> None:
    sessions = cache()
    opened = sessions.open(request(0, 0, {0: 5}), True, 0)
    opened.partitions[0].high_watermark = 42
    again = sessions.open(request(1, 1, {0: 9}), True, 0)
    assert (again.partitions[0].fetch_offset, again.partitions[0].high_watermark) == (9, 42)


@pytest.mark.parametrize(
    ("asked", "by_id", "code"),
    [
        (request(99, 1), True, ErrorCode.FETCH_SESSION_ID_NOT_FOUND),
        (request(1, 2), True, ErrorCode.INVALID_FETCH_SESSION_EPOCH),
        (request(1, 1), False, ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR),
    ],
)
def test_requests_that_do_not_match_their_session(asked: FetchRequest, by_id: bool, code: ErrorCode) -> None:
    sessions = cache()
    sessions.open(request(0, 0, {0: 5}), True, 0)
    with pytest.raises(SessionError) as caught:
        sessions.open(asked, by_id, 0)
    assert caught.value.code == code


def test_the_epoch_wraps_to_one() -> None:
    sessions = cache()
    session = sessions.open(request(0, 0, {0: 5}), True, 0).session
    assert session is not None
    session.epoch = 2**31 - 1
    sessions.open(request(1, 2**31 - 1), True, 0)
    assert session.epoch == 1


def test_a_new_full_fetch_and_a_final_epoch_close_the_old_session() -> None:
    sessions = cache()
    sessions.open(request(0, 0, {0: 5}), True, 0)
    assert sessions.open(request(1, 0, {0: 5}), True, 0).session_id == 2
    with pytest.raises(SessionError):
        sessions.open(request(1, 1), True, 0)
    assert sessions.open(request(2, -1, {0: 5}), True, 0).session_id == 0
    assert len(sessions) == 0


def test_a_full_cache_evicts_only_idle_sessions() -> None:
    sessions = cache(slots=2, eviction_ms=1000)
    for _ in range(2):
        sessions.open(request(0, 0, {0: 5}), True, 0)
    assert sessions.open(request(0, 0, {0: 5}), True, 999).session_id == 0  # served, without a session
    sessions.open(request(1, 1), True, 1500)
    assert sessions.open(request(0, 0, {0: 5}), True, 1600).session_id == 3
    sessions.open(request(1, 2), True, 1700)  # the session in use is kept
    with pytest.raises(SessionError):
        sessions.open(request(2, 1), True, 1700)
