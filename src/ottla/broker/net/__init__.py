"""Sockets: listeners, connections, buffers, senders, and connections to other nodes."""
