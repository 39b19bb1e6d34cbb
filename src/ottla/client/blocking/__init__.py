"""The client for code without an event loop: blocking sockets, Arrow tables, Spark workers."""
