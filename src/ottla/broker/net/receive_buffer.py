"""Bytes in: one growing buffer per connection that frames are cut from without copying.

The socket reads straight into the buffer, and a frame is a view of it. Memory follows what has really
arrived, never what a length field promises: a peer that announces 100 MB and sends nothing costs nothing.
"""

from __future__ import annotations

from struct import Struct

from ottla.broker.net.receive_budget import ReceiveBudget

INITIAL_BYTES = 8 * 1024
COMFORT_BYTES = 256 * 1024  # a busy connection's buffer grows up to this: many small frames in one read
KEEP_BYTES = 2 * 1024 * 1024  # a larger buffer is given back as soon as its frame is done
_read_size = Struct(">i").unpack_from


class BadFrame(ValueError):
    """A length field that no well-behaved peer sends."""


class ReceiveBuffer:
    __slots__ = ("_budget", "_end", "_frame_bytes_max", "_limit", "_reserved", "_start", "_view")

    def __init__(self, frame_bytes_max: int, budget: ReceiveBudget | None = None) -> None:
        self._frame_bytes_max = frame_bytes_max
        self._budget = budget
        self._reserved = 0  # of the budget, for a buffer larger than COMFORT_BYTES
        self._view = memoryview(bytearray(INITIAL_BYTES))
        self._start = 0
        self._end = 0
        self._limit = INITIAL_BYTES

    def __len__(self) -> int:
        """Bytes received and not yet taken."""
        return self._end - self._start

    @property
    def capacity_bytes(self) -> int:
        return len(self._view)

    def space(self) -> memoryview:
        """Where the next bytes of the socket go; never empty."""
        return self._view[self._end : self._limit]

    def received(self, count: int) -> None:
        self._end += count

    def next_frame(self) -> memoryview | None:
        """The next whole frame without its length field, or None; it is valid until `make_room`."""
        available = self._end - self._start
        if available < 4:
            return None
        size = _read_size(self._view, self._start)[0]
        if size < 0 or size > self._frame_bytes_max:
            raise BadFrame(
                f"frame of {size} bytes; 0 to {self._frame_bytes_max} are allowed (socket.request.max.bytes)"
            )
        if available - 4 < size:
            return None
        begin = self._start + 4
        self._start = begin + size
        return self._view[begin : begin + size]

    def shrink(self) -> None:
        """Give memory back while nothing is pending: called when the connection has been quiet."""
        if self._start == self._end and len(self._view) > INITIAL_BYTES:
            self._replace(INITIAL_BYTES)

    def make_room(self) -> bool:
        """Arrange that the next read can go on with what has begun; frames given out become invalid.

        False: it has to wait until the budget allows a buffer for it.
        """
        if self._end - self._start < 4:
            return self._make_room(INITIAL_BYTES)
        return self._make_room(_read_size(self._view, self._start)[0] + 4)

    def release(self) -> None:
        """The connection has ended: the budget is for others."""
        if self._reserved:
            reserved, self._reserved = self._reserved, 0
            assert self._budget is not None
            self._budget.give_back(reserved)

    def _make_room(self, frame_bytes: int) -> bool:
        capacity = len(self._view)
        pending = self._end - self._start
        if self._end == capacity < COMFORT_BYTES:
            self._replace(min(4 * capacity, COMFORT_BYTES))  # it came full: more is waiting
        elif pending == 0:
            if capacity > KEEP_BYTES or (
                self._budget is not None and self._reserved and self._budget.is_wanted
            ):
                self._replace(INITIAL_BYTES)
            else:
                self._start = self._end = 0
        elif frame_bytes > capacity and self._end == capacity:
            if not self._reserve(frame_bytes):
                return False
            # Grow with what has arrived, at least doubling, so that copying stays linear.
            self._replace(min(max(4 * pending, COMFORT_BYTES), frame_bytes))
        elif self._start > 0 and (self._end == capacity or self._start + frame_bytes > capacity):
            self._view[:pending] = self._view[self._start : self._end]
            self._start, self._end = 0, pending
            if frame_bytes > capacity:
                return self._make_room(frame_bytes)
        capacity = len(self._view)
        # Inside a large frame read only to its end: the next one then starts at zero and nothing is moved.
        large = frame_bytes > COMFORT_BYTES
        self._limit = min(self._start + frame_bytes, capacity) if large else capacity
        return True

    def _reserve(self, frame_bytes: int) -> bool:
        """Take the size of a large frame from the budget, as far as an earlier one has not."""
        if self._budget is None or frame_bytes <= max(COMFORT_BYTES, self._reserved):
            return True
        if not self._budget.take(frame_bytes - self._reserved):
            return False
        self._reserved = frame_bytes
        return True

    def _replace(self, capacity_bytes: int) -> None:
        if capacity_bytes <= COMFORT_BYTES:
            self.release()
        pending = self._end - self._start
        fresh = memoryview(bytearray(max(capacity_bytes, pending)))
        fresh[:pending] = self._view[self._start : self._end]
        self._view = fresh
        self._start, self._end, self._limit = 0, pending, len(fresh)
