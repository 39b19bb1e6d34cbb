"""WriteTxnMarkers (27): a coordinator ends transactions in partitions that this broker leads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.broker.coordinators.marker_writer import write_markers
from ottla.protocol.messages.write_txn_markers_request import WriteTxnMarkersRequest

if TYPE_CHECKING:
    from ottla.broker.net.request import Request
    from ottla.broker.node import Node

API_KEY = 27


def handle(broker: Node, request: Request, message: WriteTxnMarkersRequest) -> Any:
    return write_markers(broker, message)
