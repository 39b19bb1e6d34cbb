"""Requests in flight by peer: at most one each, and a pause after a failure."""

from __future__ import annotations

from ottla.protocol.message import Message


class Sent:
    """A request that has not been answered yet."""

    __slots__ = ("node_id", "request", "request_id", "sent_ms")

    def __init__(self, request_id: int, node_id: int, request: Message, sent_ms: int) -> None:
        self.request_id = request_id
        self.node_id = node_id
        self.request = request
        self.sent_ms = sent_ms


class Peers:
    """The requests in flight, and the back-off of each peer."""

    __slots__ = (
        "_backoff_max_ms",
        "_backoff_ms",
        "_failures",
        "_in_flight",
        "_paused",
        "_serial",
        "_timeout_ms",
    )

    def __init__(self, *, timeout_ms: int, backoff_ms: int, backoff_max_ms: int) -> None:
        self._timeout_ms = timeout_ms
        self._backoff_ms = backoff_ms
        self._backoff_max_ms = max(backoff_ms, backoff_max_ms)
        self._serial = 0
        self._in_flight: dict[int, Sent] = {}
        self._failures: dict[int, int] = {}
        self._paused: dict[int, int] = {}

    def is_ready(self, node_id: int, now_ms: int) -> bool:
        return node_id not in self._in_flight and now_ms >= self._paused.get(node_id, now_ms)

    def add(self, node_id: int, request: Message, now_ms: int) -> int:
        """Register a sent request; return the id that its response will have."""
        assert node_id not in self._in_flight, f"a request to {node_id} is in flight"
        self._serial += 1
        self._in_flight[node_id] = Sent(self._serial, node_id, request, now_ms)
        return self._serial

    def take(self, request_id: int) -> Sent | None:
        """Remove and return the request that was answered or failed; None if it is no longer in flight."""
        for node_id, sent in self._in_flight.items():
            if sent.request_id == request_id:
                del self._in_flight[node_id]
                return sent
        return None

    def succeeded(self, node_id: int) -> None:
        self._failures.pop(node_id, None)
        self._paused.pop(node_id, None)

    def failed(self, node_id: int, now_ms: int) -> None:
        """Back off from the peer, longer each time."""
        failures = self._failures.get(node_id, 0)
        self._failures[node_id] = failures + 1
        pause_ms = min(self._backoff_max_ms, self._backoff_ms << min(failures, 16))
        self._paused[node_id] = now_ms + pause_ms

    def pause(self, node_id: int, until_ms: int) -> None:
        """Send nothing before `until_ms`, without counting a failure."""
        self._paused[node_id] = until_ms

    def expire(self, now_ms: int) -> list[Sent]:
        """Remove and return requests that have timed out."""
        late = [sent for sent in self._in_flight.values() if now_ms >= sent.sent_ms + self._timeout_ms]
        for sent in late:
            del self._in_flight[sent.node_id]
        return late

    def forget_requests(self) -> None:
        """Drop all requests in flight, after a change of the role."""
        self._in_flight.clear()
        self._failures.clear()
        self._paused.clear()

    def next_wake_ms(self, now_ms: int) -> int | None:
        wakes = [sent.sent_ms + self._timeout_ms for sent in self._in_flight.values()]
        wakes += [until_ms for until_ms in self._paused.values() if until_ms > now_ms]
        return min(wakes, default=None)
