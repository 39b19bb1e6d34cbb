"""Connections to the other brokers, one to each, opened on first use."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from ottla.broker.net.peer import Peer, PeerLost
from ottla.protocol.message import Message

if TYPE_CHECKING:
    from ottla.broker.identity import NodeIdentity
    from ottla.broker.metadata_cache import MetadataCache
    from ottla.config.load import BrokerConfig

PLAINTEXT = 0
Response = TypeVar("Response", bound=Message)


class PeerPool:
    """One connection per broker. Responses arrive in request order: slow requests need a separate pool."""

    def __init__(self, config: BrokerConfig, identity: NodeIdentity, metadata: MetadataCache) -> None:
        self._identity = identity
        self._metadata = metadata
        self._listener_name: str | None = config.get("inter.broker.listener.name")
        self._peers: dict[int, Peer] = {}

    async def call(
        self, node_id: int, message: Message, response_class: type[Response], timeout_ms: int
    ) -> Response:
        """Return the response of another broker. Raises PeerLost; the connection is closed then."""
        return await self._peer(node_id).call(message, response_class, timeout_ms=timeout_ms)

    def _peer(self, node_id: int) -> Peer:
        host, port = self._address(node_id)
        peer = self._peers.get(node_id)
        if peer is None or (peer.host, peer.port) != (host, port):
            if peer is not None:
                peer.close()
            peer = self._peers[node_id] = Peer(host, port, f"broker-{self._identity.node_id}")
        return peer

    def _address(self, node_id: int) -> tuple[str, int]:
        broker = self._metadata.image.brokers.get(node_id)
        wanted = self._listener_name.upper() if self._listener_name else None
        for name, host, port, protocol in () if broker is None else broker.endpoints:
            if name == wanted or (wanted is None and protocol == PLAINTEXT):
                return host, port
        raise PeerLost(f"broker {node_id} has no address", disconnected=False)

    def close(self) -> None:
        for peer in self._peers.values():
            peer.close()
        self._peers.clear()
