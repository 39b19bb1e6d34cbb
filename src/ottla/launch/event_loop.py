"""The event loop a broker runs on."""

from __future__ import annotations

import asyncio
from typing import Any


def new_event_loop(connect_from: str | None = None) -> asyncio.AbstractEventLoop:
    """Use uvloop if it is installed; bind outgoing connections to `connect_from` if it is given."""
    if connect_from is not None:
        return _new_bound_loop(connect_from)
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return loop


def _new_bound_loop(address: str) -> asyncio.AbstractEventLoop:
    """Bind outgoing connections to `address`, so that a proxy can identify the broker."""
    base: type[asyncio.AbstractEventLoop]
    try:
        import uvloop
    except ImportError:
        base = asyncio.SelectorEventLoop
    else:
        base = uvloop.Loop

    async def create_connection(self: Any, *arguments: Any, **options: Any) -> Any:
        if options.get("sock") is None and options.get("local_addr") is None:
            options["local_addr"] = (address, 0)
        return await base.create_connection(self, *arguments, **options)

    loop: asyncio.AbstractEventLoop = type("BoundLoop", (base,), {"create_connection": create_connection})()
    return loop
