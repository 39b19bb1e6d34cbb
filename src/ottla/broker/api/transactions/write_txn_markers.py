"""WriteTxnMarkers (27): a transaction coordinator ends transactions in partitions that this broker leads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.api.declaration import ApiDeclaration
from ottla.protocol.api_keys import ApiKey

if TYPE_CHECKING:
    from ottla.broker.api.declaration import Handler
    from ottla.broker.api.parts import ApiParts


def create(parts: ApiParts) -> Handler:
    coordinators = parts.coordinators
    return lambda _, message: coordinators.marker_writer.write(message)


API = ApiDeclaration(ApiKey.WRITE_TXN_MARKERS, create)
