"""The client without I/O: what to send, what answers mean, when to retry. No asyncio, sockets or clocks."""
