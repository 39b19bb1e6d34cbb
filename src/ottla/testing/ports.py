"""Ports for test brokers that stay free while a broker is down."""

from __future__ import annotations

import random
import socket

# Below the ephemeral port range (32768 on Linux, 49152 elsewhere). An ephemeral port could be taken while its
# broker is down, even by a client that tries to reconnect to it.
PORT_MIN = 17_000
PORT_MAX = 32_000
TRIES_MAX = 200


def free_ports(count: int, host: str = "127.0.0.1") -> list[int]:
    """Return distinct free ports."""
    found: dict[int, None] = {}
    while len(found) < count:
        found[free_port(host)] = None
    return list(found)


def free_port(host: str = "127.0.0.1") -> int:
    """Return a free TCP port, chosen at random so that parallel test runs rarely collide."""
    draw = random.SystemRandom()
    for _ in range(TRIES_MAX):
        port = draw.randint(PORT_MIN, PORT_MAX)
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((host, port))
            except OSError:
                continue
            return port
    raise OSError(f"no free port on {host} after {TRIES_MAX} attempts between {PORT_MIN} and {PORT_MAX}")
