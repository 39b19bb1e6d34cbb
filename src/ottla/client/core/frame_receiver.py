"""Splits the byte stream of a connection into response frames, copying large ones only once."""

from __future__ import annotations

from ottla.protocol.errors import DecodeError

BUFFER_BYTES = 64 * 1024


class FrameReceiver:
    """For `asyncio.BufferedProtocol`: supplies memory to receive into, returns whole frames.

    Small frames are copied from one reused buffer. A frame that does not fit gets memory of its own as soon
    as its size is known, and the rest of it is received directly into that.
    """

    __slots__ = ("_buffer", "_filled", "_frame", "_frame_filled", "_view", "frame_bytes_max")

    def __init__(self, frame_bytes_max: int) -> None:
        self.frame_bytes_max = frame_bytes_max
        self._buffer = bytearray(BUFFER_BYTES)
        self._view = memoryview(self._buffer)
        self._filled = 0
        self._frame: bytearray | None = None
        self._frame_filled = 0

    def memory(self) -> memoryview:
        """The memory for the next bytes; never empty."""
        if self._frame is not None:
            return memoryview(self._frame)[self._frame_filled :]
        return self._view[self._filled :]

    def received(self, nbytes: int) -> list[bytes | bytearray]:
        """Account for received bytes; the complete frames, without their size. Raises DecodeError."""
        if self._frame is not None:
            self._frame_filled += nbytes
            if self._frame_filled < len(self._frame):
                return []
            frame, self._frame = self._frame, None
            return [frame]
        self._filled += nbytes
        frames: list[bytes | bytearray] = []
        position = 0
        while self._filled - position >= 4:
            size = int.from_bytes(self._view[position : position + 4], "big", signed=True)
            if not 4 <= size <= self.frame_bytes_max:
                raise DecodeError(f"a response of {size} bytes (the limit is {self.frame_bytes_max})")
            end = position + 4 + size
            if end > self._filled:
                if size + 4 > BUFFER_BYTES // 2:
                    self._own_frame(position + 4, size)
                    return frames
                break
            frames.append(bytes(self._view[position + 4 : end]))
            position = end
        left = self._filled - position
        if position and left:
            self._buffer[:left] = self._buffer[position : self._filled]
        self._filled = left
        return frames

    def _own_frame(self, start: int, size: int) -> None:
        frame = bytearray(size)
        self._frame_filled = self._filled - start
        frame[: self._frame_filled] = self._view[start : self._filled]
        self._frame = frame
        self._filled = 0
