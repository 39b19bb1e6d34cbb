"""A promise tells who waits at once, and only once."""

from __future__ import annotations

import pytest

from ottla.broker.net.promise import Promise


def test_who_waits_is_told_at_once():
    promise: Promise[int] = Promise()
    told = []
    promise.add_done_callback(lambda kept: told.append(("first", kept.result(), kept.done())))
    promise.add_done_callback(lambda kept: told.append(("second", kept.result(), kept.cancelled())))
    assert not promise.done()
    promise.set_result(7)
    assert told == [("first", 7, True), ("second", 7, False)]
    promise.cancel()
    assert not promise.cancelled()
    with pytest.raises(AssertionError):
        promise.set_result(8)


def test_who_has_left_cancels_it_once():
    promise: Promise[int] = Promise()
    told: list[bool] = []
    promise.add_done_callback(lambda kept: told.append(kept.cancelled()))
    promise.cancel()
    promise.cancel()
    assert told == [True] and promise.done()
