"""A promise calls its callbacks at once, and only once."""

from __future__ import annotations

import pytest

from ottla.broker.net.promise import Promise


def test_callbacks_run_at_once():
    promise: Promise[int] = Promise()
    called = []
    promise.add_done_callback(lambda done: called.append(("first", done.result(), done.done())))
    promise.add_done_callback(lambda done: called.append(("second", done.result(), done.cancelled())))
    assert not promise.done()
    promise.set_result(7)
    assert called == [("first", 7, True), ("second", 7, False)]
    promise.cancel()
    assert not promise.cancelled()
    with pytest.raises(AssertionError):
        promise.set_result(8)


def test_cancelling_happens_once():
    promise: Promise[int] = Promise()
    called: list[bool] = []
    promise.add_done_callback(lambda done: called.append(done.cancelled()))
    promise.cancel()
    promise.cancel()
    assert called == [True] and promise.done()
