"""Requests to the active controller: in this process, or over the wire to the leader of the quorum.

Heartbeats have a connection of their own: a long request before them must not make a broker look dead, and
the loss of that connection signals to the controller that the broker is gone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ottla.broker.background import result_of
from ottla.broker.metadata.controller_loop import NotController
from ottla.broker.net.peer import Peer, PeerLost
from ottla.protocol.api import API_BY_KEY
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.frames import SIZE_BYTES, encode_request, read_response_header
from ottla.protocol.message import Message
from ottla.protocol.messages.envelope_request import EnvelopeRequest
from ottla.protocol.messages.envelope_response import EnvelopeResponse
from ottla.quorum.raft.voters import Endpoint

if TYPE_CHECKING:
    from ottla.broker.identity import NodeIdentity
    from ottla.broker.metadata.controller_host import ControllerHost

RETRY_MS = 50
CLIENT_ADDRESS = bytes((127, 0, 0, 1))
LIFECYCLE_KEYS = frozenset((ApiKey.BROKER_REGISTRATION, ApiKey.BROKER_HEARTBEAT))


class ControllerUnreachable(Exception):
    """No controller has responded in time."""


class ControllerChannel:
    def __init__(self, controllers: ControllerHost, identity: NodeIdentity, default_timeout_ms: int) -> None:
        self._controllers = controllers
        self._identity = identity
        self._default_timeout_ms = default_timeout_ms
        self._peers: dict[tuple[Endpoint, bool], Peer] = {}
        self._on_heartbeats_lost: Callable[[], None] | None = None

    def close(self) -> None:
        for peer in self._peers.values():
            peer.close()

    def when_heartbeats_lost(self, callback: Callable[[], None]) -> None:
        """Have `callback` called each time the connection of the heartbeats is lost."""
        self._on_heartbeats_lost = callback

    async def decide_here(self, message: Message) -> Any:
        """The response if this node runs the controller, else NotController."""
        return await self._controllers.decide(message)

    async def ask(
        self,
        message: Message,
        *,
        timeout_ms: int | None = None,
        client: tuple[int, str | None] | None = None,
    ) -> Any:
        """Send a request to the active controller and return its response.

        Without `client` (version and client id) the request is this node's own. The current controller is
        tried until one responds. A request whose controller was lost may have been carried out: the retry
        finds out, as for every client of a controller that moves.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + (self._default_timeout_ms if timeout_ms is None else timeout_ms) / 1000
        while True:
            change = self._controllers.next_change()
            left_ms = int((deadline - loop.time()) * 1000)
            if left_ms <= 0:
                raise ControllerUnreachable(
                    f"no controller responded (last known: {self._controllers.leader_id})"
                )
            try:
                if self._controllers.active is not None:
                    return await self._controllers.decide(message)
                endpoint = self._controllers.leader_endpoint
                if endpoint is not None and self._controllers.leader_id != self._identity.node_id:
                    call = result_of(self._call(endpoint, message, client, left_ms))
                    return await _unless(change, call)
            except (NotController, PeerLost):
                pass
            await asyncio.wait([change], timeout=min(RETRY_MS, left_ms) / 1000)

    async def _call(
        self, endpoint: Endpoint, message: Message, client: tuple[int, str | None] | None, timeout_ms: int
    ) -> Any:
        peer = self._peer(endpoint, message.API_KEY in LIFECYCLE_KEYS)
        if client is not None:
            return await _forward(peer, message, *client, timeout_ms)
        response = await peer.call(
            message, API_BY_KEY[message.API_KEY].response_class(), timeout_ms=timeout_ms
        )
        if _is_refused(response):
            raise NotController(f"{endpoint.host}:{endpoint.port} is not the controller")
        return response

    def _peer(self, endpoint: Endpoint, lifecycle: bool) -> Peer:
        peer = self._peers.get((endpoint, lifecycle))
        if peer is None:
            # Drop the connection to the previous controller.
            for key in [key for key in self._peers if key[1] == lifecycle]:
                self._peers.pop(key).close()
            on_lost = self._on_heartbeats_lost if lifecycle else None
            client_id = f"broker-{self._identity.node_id}"
            peer = Peer(endpoint.host, endpoint.port, client_id, on_lost=on_lost)
            self._peers[endpoint, lifecycle] = peer
        return peer


def _is_refused(response: Message) -> bool:
    """Whether the node was not the controller. CreateTopics reports it per topic."""
    items = (response, *getattr(response, "topics", ()))
    return any(getattr(item, "error_code", 0) == ErrorCode.NOT_CONTROLLER for item in items)


async def _forward(
    peer: Peer, message: Message, version: int, client_id: str | None, timeout_ms: int
) -> Message:
    frame = encode_request(version, 0, client_id, message)[SIZE_BYTES:]
    envelope = EnvelopeRequest(request_data=bytes(frame), client_host_address=CLIENT_ADDRESS)
    response = await peer.call(envelope, EnvelopeResponse, timeout_ms=timeout_ms)
    if response.error_code or response.response_data is None:
        raise NotController(f"{peer} refused the request: {ErrorCode(response.error_code).name}")
    _, pos = read_response_header(message.API_KEY, version, response.response_data)
    return API_BY_KEY[message.API_KEY].response_class().decode(version, response.response_data, pos)


async def _unless(change: asyncio.Future[None], call: asyncio.Future[Any]) -> Any:
    """The result of the call; NotController if the controller moves first."""
    try:
        await asyncio.wait([change, call], return_when=asyncio.FIRST_COMPLETED)
    finally:
        if not call.done():
            call.cancel()
            # It may fail before the cancellation arrives: retrieve the exception so that it is not logged.
            call.add_done_callback(lambda done: None if done.cancelled() else done.exception() and None)
    if call.cancelled() or not call.done():
        raise NotController("the controller has moved")
    return call.result()
