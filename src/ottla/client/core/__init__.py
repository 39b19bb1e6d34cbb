"""The client without I/O: requests, responses, retries. No asyncio, sockets or clocks."""
