"""Event loops whose outgoing connections come from one address: so a proxy knows whom it serves."""

from __future__ import annotations

import asyncio
from typing import Any


def new_bound_loop(address: str) -> asyncio.AbstractEventLoop:
    """uvloop's loop if there is one; connections without a local address of their own get this one."""
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
