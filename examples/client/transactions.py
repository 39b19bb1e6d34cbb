"""Consume, transform and produce in transactions: each payment becomes exactly one invoice.

    python examples/client/transactions.py [BOOTSTRAP] [--source payments] [--target invoices]

The invoices and the consumed offsets commit together. A crash at any point leaves neither or both.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json

from ottla.client import Admin, Consumer, NewTopic, Producer, TopicExistsError, TransactionFailedError


def invoice(payment: bytes) -> bytes:
    fields = json.loads(payment)
    return json.dumps({"invoice": f"INV-{fields['id']:06}", "total": fields["cents"] / 100}).encode()


async def transform(bootstrap: str, source: str, target: str, idle_s: float) -> None:
    async with Admin(bootstrap) as admin:
        with contextlib.suppress(TopicExistsError):
            await admin.create_topics([NewTopic(target, partitions=3)])
        await admin.wait_for_topic(target)
    count = 0
    async with (
        # Offsets are committed by the producer's transaction, not by the consumer.
        Consumer(
            bootstrap, group_id="invoicing", auto_commit=False, isolation_level="read_committed"
        ) as consumer,
        Producer(bootstrap, transactional_id="invoicing-1") as producer,
    ):
        consumer.subscribe(source)
        records = await consumer.poll(timeout_ms=10_000)
        while records:
            try:
                async with producer.transaction():
                    for record in records:
                        await producer.send(target, invoice(record.value or b""), key=record.key)
                    await producer.send_offsets_to_transaction(consumer.consumed_offsets(), consumer)
                count += len(records)
            except TransactionFailedError as error:
                print(f"transaction aborted, reading again from the committed offsets: {error}")
                await consumer.seek_to_committed()
            records = await consumer.poll(timeout_ms=idle_s * 1000)
    print(f"wrote {count} invoices from {source} to {target}")


def main() -> None:
    parser = argparse.ArgumentParser(description="Turn payments into invoices, exactly once.")
    parser.add_argument("bootstrap", nargs="?", default="localhost:9092", help="brokers (%(default)s)")
    parser.add_argument("--source", default="payments", help="the topic to read (%(default)s)")
    parser.add_argument("--target", default="invoices", help="the topic to write (%(default)s)")
    parser.add_argument(
        "--idle", type=float, default=3, help="stop after this many idle seconds (%(default)s)"
    )
    arguments = parser.parse_args()
    asyncio.run(transform(arguments.bootstrap, arguments.source, arguments.target, arguments.idle))


if __name__ == "__main__":
    main()
