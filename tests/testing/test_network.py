"""The proxies between members: forwarding, cuts, healing."""

from __future__ import annotations

import contextlib
import gc
import socket
import threading
import time

import pytest

from ottla.testing.network import CLIENT, ProxyNetwork, address_of, links_available, member_of

pytestmark = pytest.mark.skipif(not links_available(), reason="needs several loopback addresses")


class Echo:
    """An echo server that keeps its connections."""

    def __init__(self):
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.port = self.listening.getsockname()[1]
        self.taken = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                connection, _ = self.listening.accept()
            except OSError:
                return
            self.taken.append(connection)
            threading.Thread(target=self._echo, args=(connection,), daemon=True).start()

    def _echo(self, connection):
        try:
            while data := connection.recv(65536):
                connection.sendall(data)
        except OSError:
            pass

    def close(self):
        # A close alone does not wake a thread that waits in accept.
        with contextlib.suppress(OSError):
            self.listening.shutdown(socket.SHUT_RDWR)
        self.listening.close()
        for connection in self.taken:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
            connection.close()


@pytest.fixture
def links():
    made = ProxyNetwork()
    yield made
    made.close()


@pytest.fixture
def echo():
    made = Echo()
    yield made
    made.close()


@pytest.fixture
def connect():
    made = []

    def work(port, member=None):
        source = (address_of(member), 0) if member is not None else None
        connection = socket.create_connection(("127.0.0.1", port), 5, source)
        made.append(connection)
        return connection

    yield work
    for connection in made:
        connection.close()


def says(connection, text, timeout_s=5.0):
    """Return the echo, or None after a timeout."""
    connection.settimeout(timeout_s)
    connection.sendall(text)
    return hears(connection, timeout_s)


def hears(connection, timeout_s=5.0):
    connection.settimeout(timeout_s)
    try:
        return connection.recv(100)
    except TimeoutError:
        return None


def test_members_are_identified_by_source_address():
    assert [member_of(address_of(member)) for member in (0, 1, 99)] == [0, 1, 99]
    assert member_of("127.0.0.1") == CLIENT


def test_a_cut_link_delivers_after_healing(links, echo, connect):
    port = links.add(1, echo.port)
    from_zero, from_two = connect(port, 0), connect(port, 2)
    assert says(from_zero, b"a") == b"a"
    assert says(from_two, b"b") == b"b"
    links.cut([(0, 1)])
    assert says(from_zero, b"c", 0.2) is None
    assert says(from_two, b"d") == b"d"
    late = connect(port, 0)
    assert says(late, b"e", 0.2) is None
    assert len(echo.taken) == 2
    links.heal()
    assert hears(from_zero) == b"c"
    assert hears(late) == b"e"


def test_cuts_have_a_direction_and_are_healed_one_by_one(links, echo, connect):
    to_zero, to_one = links.add(0, echo.port), links.add(1, echo.port)
    links.cut([(0, 1), (CLIENT, 0)])
    assert says(connect(to_zero, 1), b"x") == b"x"
    client = connect(to_zero)
    assert says(client, b"y", 0.2) is None
    links.heal([(CLIENT, 0)])
    assert hears(client) == b"y"
    assert says(connect(to_one, 0), b"z", 0.2) is None


def test_a_close_is_forwarded(links, echo, connect):
    connection = connect(links.add(0, echo.port), 1)
    assert says(connection, b"a") == b"a"
    echo.taken[0].shutdown(socket.SHUT_RDWR)
    assert hears(connection) == b""


def test_a_close_in_a_cut_link_arrives_after_healing(links, echo, connect):
    connection = connect(links.add(0, echo.port), 1)
    assert says(connection, b"a") == b"a"
    links.cut([(1, 0)])
    echo.taken[0].shutdown(socket.SHUT_RDWR)
    assert hears(connection, 0.2) is None
    links.heal()
    assert hears(connection) == b""


def test_a_closed_port_behind_the_proxy_closes_the_connection(links, connect):
    with socket.create_server(("127.0.0.1", 0)) as gone:
        port = gone.getsockname()[1]
    connection = connect(links.add(0, port), 1)
    connection.settimeout(5)
    with contextlib.suppress(ConnectionResetError):
        assert connection.recv(1) == b""


def test_large_transfers_arrive_complete(links, echo, connect):
    connection = connect(links.add(0, echo.port), 1)
    data = bytes(range(256)) * 40_000
    received = bytearray()

    def receive():
        while len(received) < len(data):
            received.extend(connection.recv(65536))
            time.sleep(0.0001)  # slower than the sender: the proxy must apply backpressure

    connection.settimeout(20)
    reader = threading.Thread(target=receive)
    reader.start()
    connection.sendall(data)
    reader.join(20)
    assert bytes(received) == data


def test_connections_accepted_during_close_are_closed():
    """Clients reconnect all the time; a socket that stays open fails the test."""
    over = threading.Event()

    def probe(port):
        while not over.is_set():
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 0.1):
                pass

    for _ in range(5):
        links = ProxyNetwork()
        told = links.add(0, 1)  # port 1 is closed
        over.clear()
        probing = [threading.Thread(target=probe, args=(told,)) for _ in range(2)]
        for thread in probing:
            thread.start()
        time.sleep(0.01)
        links.close()
        over.set()
        for thread in probing:
            thread.join()
        assert not links.connections
    gc.collect()
