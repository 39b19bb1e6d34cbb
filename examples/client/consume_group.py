"""Consume a topic in a consumer group. Start it several times: the members share the partitions.

    python examples/client/consume_group.py [BOOTSTRAP] [--topic payments] [--group billing]

The next run of the same group continues after the last committed record.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from collections import Counter

from ottla.client import Consumer


async def consume(bootstrap: str, topic: str, group: str, idle_s: float) -> None:
    totals: Counter[str] = Counter()
    count = 0
    async with Consumer(bootstrap, group_id=group, auto_commit=False) as consumer:
        consumer.subscribe(topic)
        # The first poll joins the group, which can take a few seconds.
        records = await consumer.poll(timeout_ms=10_000)
        while records:
            for record in records:
                payment = json.loads(record.value or b"{}")
                totals[payment["account"]] += payment["cents"]
                count += 1
            # Commit after processing: a crash before this line reprocesses the batch (at least once).
            await consumer.commit()
            records = await consumer.poll(timeout_ms=idle_s * 1000)
    for account, cents in sorted(totals.items()):
        print(f"{account}: {cents / 100:.2f}")
    print(f"consumed {count} records in group {group}")


def main() -> None:
    parser = argparse.ArgumentParser(description="Consume payments in a consumer group.")
    parser.add_argument("bootstrap", nargs="?", default="localhost:9092", help="brokers (%(default)s)")
    parser.add_argument("--topic", default="payments", help="the topic (%(default)s)")
    parser.add_argument("--group", default="billing", help="the consumer group (%(default)s)")
    parser.add_argument(
        "--idle", type=float, default=3, help="stop after this many idle seconds (%(default)s)"
    )
    arguments = parser.parse_args()
    asyncio.run(consume(arguments.bootstrap, arguments.topic, arguments.group, arguments.idle))


if __name__ == "__main__":
    main()
