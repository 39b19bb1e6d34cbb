"""Create a topic and produce payments to it.

python examples/client/produce.py [BOOTSTRAP] [--topic payments] [--count 100]
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json

from ottla.client import Admin, NewTopic, Producer, TopicExistsError

ACCOUNTS = ("alice", "bob", "carol", "dave")


async def produce(bootstrap: str, topic: str, count: int) -> None:
    async with Admin(bootstrap) as admin:
        with contextlib.suppress(TopicExistsError):
            await admin.create_topics([NewTopic(topic, partitions=3)])
        await admin.wait_for_topic(topic)
    async with Producer(bootstrap) as producer:
        sent = []
        for number in range(count):
            account = ACCOUNTS[number % len(ACCOUNTS)]
            value = json.dumps({"id": number, "account": account, "cents": 100 + number})
            # send() batches in the background; the future has the partition and offset.
            sent.append(await producer.send(topic, value.encode(), key=account.encode()))
        deliveries = await asyncio.gather(*sent)
    for partition in sorted({delivery.partition for delivery in deliveries}):
        offsets = [delivery.offset for delivery in deliveries if delivery.partition == partition]
        print(f"{topic}-{partition}: {len(offsets)} records, offsets {min(offsets)} to {max(offsets)}")
    print(f"produced {count} records")


def main() -> None:
    parser = argparse.ArgumentParser(description="Produce payments to a topic.")
    parser.add_argument("bootstrap", nargs="?", default="localhost:9092", help="brokers (%(default)s)")
    parser.add_argument("--topic", default="payments", help="the topic (%(default)s)")
    parser.add_argument("--count", type=int, default=100, help="number of records (%(default)s)")
    arguments = parser.parse_args()
    asyncio.run(produce(arguments.bootstrap, arguments.topic, arguments.count))


if __name__ == "__main__":
    main()
