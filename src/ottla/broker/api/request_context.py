"""What the coordinators need to know about a request besides its message."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.machines.outcome import RequestContext

if TYPE_CHECKING:
    from ottla.broker.net.request import Request


def request_context(request: Request) -> RequestContext:
    host = request.connection.peer.rpartition(":")[0]
    return RequestContext(
        api_version=request.version, client_id=request.client_id or "", client_host=f"/{host}"
    )
