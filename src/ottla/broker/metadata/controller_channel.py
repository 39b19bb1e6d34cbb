"""The way to the active controller: in this process, or over the wire to wherever the quorum's leader is.

Heartbeats have a connection of their own: a long command before them must not make a broker look dead, and
the loss of that connection tells the controller that the broker is gone.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from ottla.broker.metadata.controller_commands import QUORUM_KEYS, decision_of
from ottla.broker.metadata.controller_loop import NotController
from ottla.broker.net.peer import Peer, PeerLost
from ottla.protocol.api import API_BY_KEY
from ottla.protocol.errors import ErrorCode
from ottla.protocol.frames import SIZE_BYTES, encode_request, read_response_header
from ottla.protocol.message import Message
from ottla.protocol.messages.envelope_request import EnvelopeRequest
from ottla.protocol.messages.envelope_response import EnvelopeResponse
from ottla.quorum.raft.voters import Endpoint

if TYPE_CHECKING:
    from ottla.broker.metadata.plane import MetadataPlane

RETRY_MS = 50
CLIENT_ADDRESS = bytes((127, 0, 0, 1))
LIFECYCLE_KEYS = frozenset((62, 63))  # BrokerRegistration, BrokerHeartbeat


class ControllerUnreachable(Exception):
    """No controller has answered in time."""


class ControllerChannel:
    def __init__(self, plane: MetadataPlane, node_id: int, default_timeout_ms: int) -> None:
        self._plane = plane
        self._node_id = node_id
        self._default_timeout_ms = default_timeout_ms
        self._peers: dict[tuple[Endpoint, bool], Peer] = {}

    def close(self) -> None:
        for peer in self._peers.values():
            peer.close()

    async def ask(self, message: Message, *, timeout_ms: int | None = None) -> Any:
        """The active controller's answer to a command of this node."""
        return await self._until_answered(message, None, timeout_ms)

    async def forward(
        self, message: Message, version: int, client_id: str | None, *, timeout_ms: int | None = None
    ) -> Any:
        """The active controller's answer to a command of a client, in the client's version."""
        return await self._until_answered(message, (version, client_id), timeout_ms)

    async def decide_here(self, message: Message) -> Any:
        """The answer if this node runs the controller, else NotController."""
        controller = self._plane.controller()
        if message.API_KEY in QUORUM_KEYS:
            return await self._plane.quorum.request(message)
        return await controller.submit(decision_of(message, self._plane.has_lost))

    async def _until_answered(
        self, message: Message, client: tuple[int, str | None] | None, timeout_ms: int | None
    ) -> Any:
        """Ask whoever is the controller until one answers. A command whose controller was lost on the way may
        have been carried out: asking again tells, as for every client of a controller that moves."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + (self._default_timeout_ms if timeout_ms is None else timeout_ms) / 1000
        while True:
            news = self._plane.leader_news()
            left_ms = int((deadline - loop.time()) * 1000)
            if left_ms <= 0:
                raise ControllerUnreachable(f"no controller answered (last known: {self._plane.leader_id})")
            try:
                if self._plane.active is not None:
                    return await self.decide_here(message)
                endpoint = self._plane.leader_endpoint
                if endpoint is not None and self._plane.leader_id != self._node_id:
                    call = asyncio.ensure_future(self._call(endpoint, message, client, left_ms))
                    return await _unless(news, call)
            except (NotController, PeerLost):
                pass
            await asyncio.wait([news], timeout=min(RETRY_MS, left_ms) / 1000)

    async def _call(
        self, endpoint: Endpoint, message: Message, client: tuple[int, str | None] | None, timeout_ms: int
    ) -> Any:
        peer = self._peer(endpoint, message.API_KEY in LIFECYCLE_KEYS)
        if client is not None:
            return await _forwarded(peer, message, *client, timeout_ms)
        response = await peer.call(
            message, API_BY_KEY[message.API_KEY].response_class(), timeout_ms=timeout_ms
        )
        if _is_refused(response):
            raise NotController(f"{endpoint.host}:{endpoint.port} is not the controller")
        return response

    def _peer(self, endpoint: Endpoint, lifecycle: bool) -> Peer:
        peer = self._peers.get((endpoint, lifecycle))
        if peer is None:
            # The connection to the last controller is of no use any more.
            for key in [key for key in self._peers if key[1] == lifecycle]:
                self._peers.pop(key).close()
            peer = Peer(endpoint.host, endpoint.port, f"broker-{self._node_id}")
            self._peers[endpoint, lifecycle] = peer
        return peer


def _is_refused(response: Message) -> bool:
    """Has a node answered that is not the controller? CreateTopics says so topic by topic."""
    items = (response, *getattr(response, "topics", ()))
    return any(getattr(item, "error_code", 0) == ErrorCode.NOT_CONTROLLER for item in items)


async def _forwarded(
    peer: Peer, message: Message, version: int, client_id: str | None, timeout_ms: int
) -> Message:
    frame = encode_request(version, 0, client_id, message)[SIZE_BYTES:]
    envelope = EnvelopeRequest(request_data=bytes(frame), client_host_address=CLIENT_ADDRESS)
    answer = await peer.call(envelope, EnvelopeResponse, timeout_ms=timeout_ms)
    if answer.error_code or answer.response_data is None:
        raise NotController(f"{peer} does not take it: {ErrorCode(answer.error_code).name}")
    _, pos = read_response_header(message.API_KEY, version, answer.response_data)
    return API_BY_KEY[message.API_KEY].response_class().decode(version, answer.response_data, pos)


async def _unless(news: asyncio.Future[None], call: asyncio.Future[Any]) -> Any:
    """The call's result; NotController if the controller moves before it is there (it may hang for long)."""
    try:
        await asyncio.wait([news, call], return_when=asyncio.FIRST_COMPLETED)
    finally:
        if not call.done():
            call.cancel()
            # It may have failed in this very moment and not know it yet: nobody wants to hear of that.
            call.add_done_callback(lambda done: None if done.cancelled() else done.exception() and None)
    if call.cancelled() or not call.done():
        raise NotController("the controller has moved")
    return call.result()
