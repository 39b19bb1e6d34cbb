"""Create topics for tests from synchronous code."""

from __future__ import annotations

import asyncio
import re
import threading
import uuid
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any

NAME_BYTES_MAX = 249


def run_in_thread(make: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run a coroutine on a new thread and event loop: the caller may be inside a running loop."""
    errors: list[BaseException] = []

    def run() -> None:
        loop = asyncio.new_event_loop()
        try:
            loop.run_until_complete(make())
        except BaseException as error:
            errors.append(error)
        finally:
            loop.close()

    thread = threading.Thread(target=run, name="ottla-admin")
    thread.start()
    thread.join()
    if errors:
        raise errors[0]


def create_topic(
    addresses: Sequence[str],
    name: str,
    partitions: int,
    config: Mapping[str, str],
    replication_factor: int = -1,
) -> None:
    """Create a topic and wait until each of these brokers knows it and its leaders."""
    from ottla.client import Admin, NewTopic

    topic = NewTopic(name, partitions, replication_factor, dict(config))

    async def create() -> None:
        async with Admin(addresses) as admin:
            await admin.create_topics([topic])
        for address in addresses:
            async with Admin(address) as admin:
                await admin.wait_for_topic(name, partitions)

    run_in_thread(create)


def topic_name_for(test_name: str) -> str:
    """Return a unique topic name that contains the name of the test."""
    readable = re.sub(r"[^a-zA-Z0-9._-]+", "-", test_name).strip("-.")
    suffix = uuid.uuid4().hex[:8]
    return f"{readable[: NAME_BYTES_MAX - len(suffix) - 1] or 'test'}-{suffix}"
