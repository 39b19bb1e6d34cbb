"""The asyncio client: connections, producer and consumer."""
