"""The asyncio shell: connections, cluster, producer."""
