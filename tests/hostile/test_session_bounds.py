"""The limit of all fetch sessions together."""

from __future__ import annotations

from itertools import count

import pytest

from ottla.broker.api.records.fetch_sessions import FetchSessionCache, SessionError
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic


def cache(partitions_max: int) -> FetchSessionCache:
    ids = count(1)
    return FetchSessionCache(10, 1000, new_id=lambda: next(ids), partitions_max=partitions_max)


def request(session_id: int, epoch: int, wanted: range, forgotten: range = range(0)) -> FetchRequest:
    return FetchRequest(
        session_id=session_id,
        session_epoch=epoch,
        topics=[FetchTopic(topic="t", partitions=[FetchPartition(partition=n) for n in wanted])],
        forgotten_topics_data=[ForgottenTopic(topic="t", partitions=list(forgotten))],
    )


def test_a_session_beyond_the_bound_is_not_kept_but_served() -> None:
    sessions = cache(10)
    assert sessions.open(request(0, 0, range(6)), False, 0).session_id == 1
    refused = sessions.open(request(0, 0, range(5)), False, 0)
    assert (refused.session_id, len(refused.partitions)) == (0, 5)
    assert sessions.open(request(0, 0, range(11)), False, 5000).session_id == 0
    assert len(sessions) == 1
    assert sessions.open(request(0, 0, range(4)), False, 0).session_id == 2


def test_idle_and_closed_sessions_are_evicted() -> None:
    sessions = cache(10)
    for _ in range(2):
        sessions.open(request(0, 0, range(5)), False, 0)
    assert sessions.open(request(0, 0, range(10)), False, 2000).session_id == 3
    assert len(sessions) == 1
    sessions.open(request(3, -1, range(0)), False, 2000)
    assert sessions.open(request(0, 0, range(10)), False, 2000).session_id == 4


def test_a_session_that_grows_beyond_the_bound_ends() -> None:
    sessions = cache(10)
    sessions.open(request(0, 0, range(6)), False, 0)
    context = sessions.open(request(1, 1, range(6, 10), range(2)), False, 0)
    assert len(context.partitions) == 8
    with pytest.raises(SessionError) as error:
        sessions.open(request(1, 2, range(20, 23)), False, 0)
    assert error.value.code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert len(sessions) == 0
    assert sessions.open(request(0, 0, range(10)), False, 0).session_id == 2
