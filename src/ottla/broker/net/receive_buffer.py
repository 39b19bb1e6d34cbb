"""The receive buffer of a connection: frames are views of it, without a copy.

The socket reads into the buffer. It grows with the bytes that have arrived, not with what a length field
announces: a client that announces 100 MB and sends nothing costs nothing.
"""

from __future__ import annotations

from struct import Struct

from ottla.broker.net.receive_budget import ReceiveBudget

INITIAL_BYTES = 8 * 1024
COMFORT_BYTES = 256 * 1024  # size for busy connections: many small frames in one read
KEEP_BYTES = 2 * 1024 * 1024  # a larger buffer is released as soon as its frame is handled
_read_size = Struct(">i").unpack_from


class BadFrame(ValueError):
    """A length field that is negative or over the limit."""


class ReceiveBuffer:
    __slots__ = ("_budget", "_frame_bytes_max", "_limit", "_reserved", "_start", "_view", "end")

    def __init__(self, frame_bytes_max: int, budget: ReceiveBudget | None = None) -> None:
        self._frame_bytes_max = frame_bytes_max
        self._budget = budget
        self._reserved = 0  # of the budget, for a buffer larger than COMFORT_BYTES
        self._view = memoryview(bytearray(INITIAL_BYTES))
        self._start = 0
        self.end = 0  # of the received bytes; the reader of the socket advances it
        self._limit = INITIAL_BYTES

    def __len__(self) -> int:
        """Bytes received and not yet returned as frames."""
        return self.end - self._start

    @property
    def capacity_bytes(self) -> int:
        return len(self._view)

    def space(self, sizehint: int = -1) -> memoryview:
        """Where the next bytes of the socket go; never empty. A `get_buffer` of asyncio protocols."""
        return self._view[self.end : self._limit]

    def next_frame(self) -> memoryview | None:
        """The next whole frame without its length field, or None; it is valid until `make_room`."""
        available = self.end - self._start
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
        """Release memory while no frame has begun: called when the connection is idle."""
        if self._start == self.end and len(self._view) > INITIAL_BYTES:
            self._replace(INITIAL_BYTES)

    def make_room(self) -> bool:
        """Make room for the next read; frames returned before become invalid.

        False: the frame that has begun must wait until the budget allows a buffer for it.
        """
        if self._start == self.end < (capacity := len(self._view)) <= COMFORT_BYTES:
            self._start = self.end = 0  # the common case: everything is handled
            self._limit = capacity
            return True
        if self.end - self._start < 4:
            return self._make_room(INITIAL_BYTES)
        return self._make_room(_read_size(self._view, self._start)[0] + 4)

    def release(self) -> None:
        """Return what was reserved of the budget."""
        if self._reserved:
            reserved, self._reserved = self._reserved, 0
            assert self._budget is not None
            self._budget.give_back(reserved)

    def _make_room(self, frame_bytes: int) -> bool:
        capacity = len(self._view)
        pending = self.end - self._start
        if self.end == capacity < COMFORT_BYTES:
            self._replace(min(4 * capacity, COMFORT_BYTES))  # the read filled it: more is waiting
        elif pending == 0:
            if capacity > KEEP_BYTES or (
                self._budget is not None and self._reserved and self._budget.is_wanted
            ):
                self._replace(INITIAL_BYTES)
            else:
                self._start = self.end = 0
        elif frame_bytes > capacity and self.end == capacity:
            if not self._reserve(frame_bytes):
                return False
            # Grow with what has arrived, at least doubling, so that copying stays linear.
            self._replace(min(max(4 * pending, COMFORT_BYTES), frame_bytes))
        elif self._start > 0 and (self.end == capacity or self._start + frame_bytes > capacity):
            self._view[:pending] = self._view[self._start : self.end]
            self._start, self.end = 0, pending
            if frame_bytes > capacity:
                return self._make_room(frame_bytes)
        capacity = len(self._view)
        # Read a large frame only to its end, so that the next one starts at position zero without a copy.
        large = frame_bytes > COMFORT_BYTES
        self._limit = min(self._start + frame_bytes, capacity) if large else capacity
        return True

    def _reserve(self, frame_bytes: int) -> bool:
        """Take the size of a large frame from the budget, less what is already reserved."""
        if self._budget is None or frame_bytes <= max(COMFORT_BYTES, self._reserved):
            return True
        if not self._budget.take(frame_bytes - self._reserved):
            return False
        self._reserved = frame_bytes
        return True

    def _replace(self, capacity_bytes: int) -> None:
        if capacity_bytes <= COMFORT_BYTES:
            self.release()
        pending = self.end - self._start
        fresh = memoryview(bytearray(max(capacity_bytes, pending)))
        fresh[:pending] = self._view[self._start : self.end]
        self._view = fresh
        self._start, self.end, self._limit = 0, pending, len(fresh)
