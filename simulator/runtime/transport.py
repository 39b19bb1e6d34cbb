"""One side of a simulated connection: asyncio's transport over segments that the network delivers.

Written bytes are sent in segments of random sizes as long as the receiver's window is open. If the receiver
does not read, its window fills, then the sender's buffer, and writing is paused, as with TCP.
"""

from __future__ import annotations

import asyncio
import zlib
from collections import deque
from collections.abc import Mapping
from contextvars import Context
from typing import Any, Protocol

from simulator.runtime.loop import Process, SimulatedLoop
from simulator.runtime.trace import Trace

WINDOW_BYTES = 256 * 1024
SEGMENT_BYTES_MAX = 64 * 1024
READ_BYTES_MAX = 256 * 1024
HIGH_WATER_BYTES = 64 * 1024
FIN = "fin"
RST = "rst"

Segment = bytes | str


class TransportNetwork(Protocol):
    """What a transport uses of the network."""

    loop: SimulatedLoop
    trace: Trace
    open: dict[SimulatedTransport, None]
    stalled: dict[SimulatedTransport, None]

    @property
    def holds(self) -> Mapping[Any, None]: ...

    def arrival_ns(self, sender: str, receiver: str, nbytes: int) -> int: ...

    def departure_ns(self) -> int: ...

    def cut_bytes(self, available: int) -> int: ...

    def can_reach(self, sender: str, receiver: str) -> bool: ...

    def holds_up(self, transport: SimulatedTransport, segment: Segment) -> bool: ...


class SimulatedTransport(asyncio.Transport):
    def __init__(
        self,
        network: TransportNetwork,
        process: Process,
        context: Context,
        local: tuple[str, int],
        remote: tuple[str, int],
        number: int,
    ) -> None:
        super().__init__()
        self.network = network
        self.process = process
        self.local = local
        self.remote = remote
        self.number = number
        self.peer: SimulatedTransport
        self.closed = False  # connection_lost is called or scheduled
        self.held = False  # nothing reaches the other side, see RequestHold
        self.last_used_ns = network.loop.now_ns
        self.stalled: deque[Segment] = deque()  # blocked; retransmitted when the link is unblocked
        self.parked_credit_bytes = 0  # read by the peer, but the acknowledgement is blocked
        self._context = context
        self._protocol: asyncio.BaseProtocol | None = None
        self._out = bytearray()
        self._pump_scheduled = False
        self._in_flight_bytes = 0
        self._last_arrival_ns = 0
        self._high = HIGH_WATER_BYTES
        self._low = HIGH_WATER_BYTES // 4
        self._writing_paused = False
        self._inbox = bytearray()
        self._reading = True
        self._read_scheduled = False
        self._eof_arrived = False
        self._closing = False
        self._fin_sent = False
        self._lost_by: Exception | None = None

    @property
    def label(self) -> str:
        return f"#{self.number} {self.local[0]}->{self.remote[0]}"

    def start(self, protocol: asyncio.BaseProtocol) -> None:
        """Attach the protocol; called in the process that owns the connection."""
        self._protocol = protocol
        protocol.connection_made(self)
        if self.closed:
            self.network.loop.call_soon(protocol.connection_lost, self._lost_by, context=self._context)
        self._schedule_read()

    # -- asyncio.Transport

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return {"peername": self.remote, "sockname": self.local}.get(name, default)

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = protocol

    def get_protocol(self) -> asyncio.BaseProtocol:
        assert self._protocol is not None
        return self._protocol

    def is_closing(self) -> bool:
        return self._closing or self.closed

    def is_reading(self) -> bool:
        return self._reading

    def pause_reading(self) -> None:
        self._reading = False

    def resume_reading(self) -> None:
        self._reading = True
        self._schedule_read()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high = HIGH_WATER_BYTES if high is None else high
        self._low = self._high // 4 if low is None else low

    def get_write_buffer_size(self) -> int:
        return len(self._out)

    def get_write_buffer_limits(self) -> tuple[int, int]:
        return self._low, self._high

    def can_write_eof(self) -> bool:
        return False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self.closed or self._closing or not self.process.alive:
            return
        self._out += data
        if not self._pump_scheduled:
            self._pump_scheduled = True
            # What blocks the sender in this callback comes before its bytes.
            when_ns = self.network.departure_ns() + self.process.stall_ns
            self.network.loop.kernel_at(when_ns, self._depart)
        if len(self._out) > self._high and not self._writing_paused and self._protocol is not None:
            self._writing_paused = True
            self._protocol.pause_writing()

    def close(self) -> None:
        """Stop reading; written data is still sent."""
        if self.closed or self._closing or not self.process.alive:
            return
        self._closing = True
        self._reading = False
        self._pump()

    def abort(self) -> None:
        if self.closed or not self.process.alive:
            return
        self._out.clear()
        self._closing = True
        self._dispatch(RST)
        self.lost(None)

    # -- sending

    def _depart(self) -> None:
        """Send the writes of a short time together, as TCP does."""
        self._pump_scheduled = False
        self._pump()

    def _pump(self) -> None:
        """Send what the window allows."""
        while self._out and self._in_flight_bytes < WINDOW_BYTES and not self.closed:
            count = self.network.cut_bytes(min(len(self._out), SEGMENT_BYTES_MAX))
            piece = bytes(self._out[:count])
            del self._out[:count]
            self._in_flight_bytes += count
            self._dispatch(piece)
        if self._closing and not self._out and not self._fin_sent and not self.closed:
            self._fin_sent = True
            self._dispatch(FIN)
            self.lost(None)

    def _dispatch(self, segment: Segment) -> None:
        self.last_used_ns = self.peer.last_used_ns = self.network.loop.now_ns
        when_ns = self.network.arrival_ns(self.local[0], self.remote[0], len(segment))
        self._last_arrival_ns = max(self._last_arrival_ns + 1, when_ns)
        self.network.loop.kernel_at(self._last_arrival_ns, self._arrive, segment)

    def _arrive(self, segment: Segment) -> None:
        """A segment arrives, or is blocked."""
        if self.network.holds and not self.held:
            self.held = self.network.holds_up(self, segment)
        if self.held:
            self.stalled.append(segment)
        elif self.stalled or not self.network.can_reach(self.local[0], self.remote[0]):
            self.stalled.append(segment)
            self.network.stalled[self] = None
        else:
            self.peer.receive(segment)

    def retransmit(self) -> None:
        """Try the stalled segments again."""
        if not self.stalled or self.held:
            return
        if not self.network.can_reach(self.local[0], self.remote[0]):
            self.network.stalled[self] = None
            return
        waiting, self.stalled = self.stalled, deque()
        for segment in waiting:
            self.peer.receive(segment)

    def credit(self, count: int) -> None:
        """The peer has read `nbytes`: open the window."""
        if not self.network.can_reach(self.remote[0], self.local[0]):
            self.parked_credit_bytes += count
            self.network.stalled[self] = None
            return
        self._in_flight_bytes -= count
        self._pump()
        if self._writing_paused and len(self._out) <= self._low and not self.closed:
            self.network.loop.call_soon(self._resume_writing, context=self._context)

    def unpark_credit(self) -> None:
        if self.parked_credit_bytes:
            count, self.parked_credit_bytes = self.parked_credit_bytes, 0
            self.credit(count)

    def _resume_writing(self) -> None:
        if self._writing_paused and len(self._out) <= self._low and not self.closed:
            self._writing_paused = False
            assert self._protocol is not None
            self._protocol.resume_writing()

    # -- receiving

    def receive(self, segment: Segment) -> None:
        """A segment has arrived at this host."""
        if segment == RST:
            self.lost(ConnectionResetError(104, "Connection reset by peer"))
            return
        if self.closed or not self.process.alive:
            if segment != FIN:  # no such connection: reset
                self.peer.reset_from_afar()
            return
        if isinstance(segment, str):
            self._eof_arrived = True
        else:
            self.network.trace("segment", self.local[0], _about(self.peer, segment))
            self._inbox += segment
        self._schedule_read()

    def reset_from_afar(self) -> None:
        """The other host has no such connection any more."""
        if not self.closed:
            when_ns = self.network.arrival_ns(self.remote[0], self.local[0], 0)
            error = ConnectionResetError(104, "Connection reset by peer")
            self.network.loop.kernel_at(when_ns, self.lost, error)

    def _schedule_read(self) -> None:
        if self._read_scheduled or not self._reading or self._protocol is None or self.closed:
            return
        if self._inbox or self._eof_arrived:
            self._read_scheduled = True
            self.network.loop.call_soon(self._read, context=self._context)

    def _read(self) -> None:
        """Pass one chunk to the protocol, as one readable event does."""
        self._read_scheduled = False
        if not self._reading or self.closed:
            return
        try:
            if self._inbox:
                self.peer.credit(self._hand_over())
            elif self._eof_arrived:
                self._eof_arrived = False
                if not self.get_protocol().eof_received():  # type: ignore[attr-defined]
                    self.close()
                return
        except Exception as error:
            self.network.loop.call_exception_handler({"message": "protocol failed", "exception": error})
            self.abort()
            return
        self._schedule_read()

    def _hand_over(self) -> int:
        protocol = self.get_protocol()
        if isinstance(protocol, asyncio.BufferedProtocol):
            space = memoryview(protocol.get_buffer(-1))
            count = min(len(space), len(self._inbox))
            space[:count] = self._inbox[:count]
            del self._inbox[:count]
            protocol.buffer_updated(count)
            return count
        assert isinstance(protocol, asyncio.Protocol)
        data = bytes(self._inbox[:READ_BYTES_MAX])
        del self._inbox[:READ_BYTES_MAX]
        protocol.data_received(data)
        return len(data)

    # -- closing

    def lost(self, error: Exception | None) -> None:
        """Close this side of the connection."""
        if self.closed:
            return
        self.closed = True
        self._inbox.clear()
        self._out.clear()
        self.network.open.pop(self, None)
        self.network.trace("closed", self.local[0], f"{self.label} {error or ''}")
        self._lost_by = error
        if self._protocol is not None:
            self.network.loop.call_soon(self._protocol.connection_lost, error, context=self._context)

    def process_ended(self, *, silent: bool) -> None:
        """The process ended. Its kernel resets the connection, unless the machine lost power."""
        if not self.closed:
            self.closed = True
            self.network.open.pop(self, None)
            if not silent:
                self._dispatch(RST)


def _about(sender: SimulatedTransport, segment: bytes) -> str:
    return f"{sender.label} {len(segment)} {zlib.crc32(segment):08x}"
