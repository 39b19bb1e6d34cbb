"""Generate orders: some per second, one in a hundred malformed, from customers who sometimes change city.

    python examples/orders/generate.py --bootstrap localhost:9092 --rate 20

Creates the topics `orders` and `customers` (compacted) if they do not exist.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import random
import time
from datetime import UTC, datetime

from ottla.client import Admin, NewTopic, Producer
from ottla.client.errors import BrokerError

NAMES = ("Ada", "Bela", "Clara", "David", "Elli", "Franz", "Greta", "Hugo", "Irma", "Josef", "Klara", "Max")
CITIES = ("Prague", "Vienna", "Berlin", "Brno", "Zurich")
PRODUCTS = {"coffee": 3.2, "cake": 4.5, "book": 18.9, "lamp": 39.0, "desk": 210.0}
MALFORMED = (b'{"order_id": "?", "quantity":', b'{"order_id": "?", "quantity": "many"}', b"not JSON at all")


async def create_topics(bootstrap: str) -> None:
    topics = [
        NewTopic("orders", partitions=3),
        NewTopic("customers", partitions=3, configs={"cleanup.policy": "compact"}),
    ]
    async with Admin(bootstrap) as admin:
        there = [topic.name for topic in await admin.list_topics()]
        for topic in topics:
            if topic.name not in there:
                try:
                    await admin.create_topics([topic])
                except BrokerError as error:
                    if error.code.name != "TOPIC_ALREADY_EXISTS":
                        raise
            await admin.wait_for_topic(topic.name)


def customer(number: int, city: str) -> bytes:
    row = {"customer_id": f"c{number}", "name": NAMES[number], "city": city}
    return json.dumps(row).encode()


def order(number: int, rng: random.Random) -> bytes:
    if rng.random() < 0.01:
        return rng.choice(MALFORMED)
    product = rng.choice(list(PRODUCTS))
    row = {
        "order_id": f"{time.time_ns():x}",
        "customer_id": f"c{number}",
        "product": product,
        "quantity": rng.randint(1, 5),
        "price": PRODUCTS[product],
        "ordered_at": datetime.now(UTC).isoformat(),
    }
    return json.dumps(row).encode()


async def generate(bootstrap: str, rate: float, count: int | None, seed: int | None) -> None:
    rng = random.Random(seed)
    await create_topics(bootstrap)
    async with Producer(bootstrap) as producer:
        for number in range(len(NAMES)):
            await producer.send("customers", customer(number, rng.choice(CITIES)), key=f"c{number}".encode())
        sent = 0
        while count is None or sent < count:
            # The first customers order the most.
            number = min(int(rng.expovariate(0.4)), len(NAMES) - 1)
            await producer.send("orders", order(number, rng), key=f"c{number}".encode())
            sent += 1
            if rng.random() < 0.005:
                await producer.send(
                    "customers", customer(number, rng.choice(CITIES)), key=f"c{number}".encode()
                )
            if rate > 0:
                await asyncio.sleep(rng.expovariate(rate))


def main() -> None:
    parser = argparse.ArgumentParser(description="Generate orders until stopped.")
    parser.add_argument("--bootstrap", default="localhost:9092", help="brokers (default: %(default)s)")
    parser.add_argument("--rate", type=float, default=20, help="orders per second, 0: as fast as possible")
    parser.add_argument("--count", type=int, help="stop after this number of orders")
    parser.add_argument("--seed", type=int, help="seed, to generate the same orders in every run")
    parser.add_argument("--topics-only", action="store_true", help="create the topics and exit")
    arguments = parser.parse_args()
    with contextlib.suppress(KeyboardInterrupt):
        if arguments.topics_only:
            asyncio.run(create_topics(arguments.bootstrap))
            return
        asyncio.run(generate(arguments.bootstrap, arguments.rate, arguments.count, arguments.seed))


if __name__ == "__main__":
    main()
