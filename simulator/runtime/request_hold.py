"""Delaying single requests: the connection of the request is held, all others keep their speed.

    hold = RequestHold(network, "w1a", "node2", ProduceRequest.API_KEY)
    ...                                  the next produce request of w1a to node2 does not arrive
    hold.release_held()                  now it arrives

A held request arrives even if the sender has closed the connection or ended.
"""

from __future__ import annotations

from collections import deque
from typing import Protocol

from simulator.runtime.loop import SimulatedLoop
from simulator.runtime.trace import Trace
from simulator.runtime.transport import Segment, SimulatedTransport

API_KEY_BYTES = slice(4, 6)  # of a request, after its length
REQUEST_BYTES = range(10, 100_000)
END_LATER_NS = 5_000_000  # the end of a connection arrives after the data sent before it was read


class HoldingNetwork(Protocol):
    """What a hold uses of the network."""

    loop: SimulatedLoop
    trace: Trace
    holds: dict[RequestHold, None]


class RequestHold:
    """Holds the next request of one kind from one host to a port of another, or all of them.

    With `answers` the requests arrive and their responses are held.
    """

    def __init__(
        self,
        network: HoldingNetwork,
        sender: str,
        receiver: str,
        api_key: int,
        *,
        port: int | None = None,
        all_of_them: bool = False,
        answers: bool = False,
    ) -> None:
        self.caught: dict[SimulatedTransport, None] = {}
        self._network = network
        self._route = (sender, receiver)
        self._port = port
        self._api_key = api_key.to_bytes(2, "big")
        self._all = all_of_them
        self._answers = answers
        network.holds[self] = None
        network.trace("network", "-", f"hold {sender}->{receiver} api {api_key}")

    def catches(self, transport: SimulatedTransport, segment: Segment) -> bool:
        """Return whether an arriving segment starts such a request."""
        if isinstance(segment, str) or segment[API_KEY_BYTES] != self._api_key:
            return False
        if int.from_bytes(segment[:4], "big") not in REQUEST_BYTES:
            return False  # inside another request
        if (transport.local[0], transport.remote[0]) != self._route:
            return False
        if self._port is not None and transport.remote[1] != self._port:
            return False
        if self.caught and not self._all:
            return False
        held = transport.peer if self._answers else transport
        held.held = True
        self.caught[held] = None
        self._network.trace("network", held.local[0], f"held {held.label}")
        return not self._answers

    def reset_senders(self) -> None:
        """Reset the connections at the senders. The held data still arrives."""
        for transport in self.caught:
            transport.lost(ConnectionResetError(104, "Connection reset by peer"))

    def release_held(self) -> None:
        self._network.holds.pop(self, None)
        for transport in self.caught:
            self._network.trace("network", transport.local[0], f"let go {transport.label}")
            transport.held = False
            waiting, transport.stalled = transport.stalled, deque()
            for segment in waiting:
                if isinstance(segment, str):
                    when_ns = self._network.loop.now_ns + END_LATER_NS
                    self._network.loop.kernel_at(when_ns, transport.peer.receive, segment)
                else:
                    transport.peer.receive(segment)
        self.caught.clear()
