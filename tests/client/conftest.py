"""Stub brokers on a fresh event loop, and the two shells of the client."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from tests.support.client.shells import Shell
from tests.support.client.stub import StubBroker


@pytest.fixture
def with_stub() -> Callable:
    """Run `scenario(stub)` on a fresh loop with a fresh stub broker."""

    def run(scenario: Callable, timeout_s: float = 10) -> object:
        async def whole() -> object:
            stub = StubBroker()
            await stub.start()
            try:
                async with asyncio.timeout(timeout_s):
                    return await scenario(stub)
            finally:
                for node in stub.nodes.values():
                    await node.stop()

        return asyncio.run(whole())

    return run


@pytest.fixture(params=["asyncio", "blocking"])
def shell(request: pytest.FixtureRequest) -> Shell:
    """The asyncio client, then the blocking one."""
    return Shell(request.param)
