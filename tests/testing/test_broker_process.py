"""BrokerProcess, with programs that imitate a broker."""

from __future__ import annotations

import socket
import sys
import time

import pytest

from ottla.testing import BrokerError
from ottla.testing.ports import PORT_MAX, PORT_MIN, free_port
from ottla.testing.process_node import BrokerProcess

READY_LINE = "print('ottla 0 ready on 127.0.0.1:1234 (node 1, data in x, 1 ms)', flush=True)\n"
STOP_AT_EOF = "sys.stdin.read()\n"


@pytest.fixture
def pretend(tmp_path, monkeypatch):
    """A BrokerProcess that runs a given program instead of a broker."""
    made = []

    def make(program: str) -> BrokerProcess:
        node = BrokerProcess(
            data_dir=str(tmp_path / "data"),
            listen="127.0.0.1:1",
            settings={"a": "b"},
            log_path=str(tmp_path / "log"),
        )
        monkeypatch.setattr(
            node, "command", lambda: [sys.executable, "-c", "import sys, time, signal\n" + program]
        )
        made.append(node)
        return node

    yield make
    for node in made:
        node.kill()


def test_the_command_is_ottla_serve(tmp_path):
    node = BrokerProcess(data_dir="d", listen="h:1", settings={"a.b": "c"}, log_path=str(tmp_path / "log"))
    command = node.command()
    assert command[0] == sys.executable
    options = ["--data", "d", "--listen", "h:1", "--stop-on-stdin-eof", "--set", "a.b=c"]
    assert command[2:] == ["-m", "ottla", "serve", *options]


def test_ready_line_gives_the_address(pretend):
    node = pretend(READY_LINE + STOP_AT_EOF)
    node.start(10)
    assert node.running
    assert node.address == "127.0.0.1:1234"
    node.kill()
    assert not node.running
    node.start(10)
    assert node.running


def test_an_early_end_shows_exit_code_and_log(pretend):
    node = pretend("print('the disk is full', file=sys.stderr); sys.exit(3)")
    with pytest.raises(BrokerError, match=r"(?s)exit code 3.*the disk is full"):
        node.start(10)
    assert not node.running


def test_a_broker_that_is_never_ready_is_killed(pretend):
    node = pretend("print('still loading', file=sys.stderr, flush=True); time.sleep(60)")
    started = time.monotonic()
    with pytest.raises(BrokerError, match=r"not ready after 0\.4 s"):
        node.start(0.4)
    assert time.monotonic() - started < 5
    assert not node.running


def test_stop_must_end_with_exit_code_0(pretend):
    node = pretend(READY_LINE + "signal.signal(signal.SIGTERM, lambda *_: sys.exit(5))\ntime.sleep(60)")
    node.start(10)
    time.sleep(0.05)
    with pytest.raises(BrokerError, match=r"exit code (5|-15)"):
        node.stop(10)
    assert not node.running


def test_a_broker_that_ignores_sigterm_is_killed_and_reported(pretend):
    node = pretend("signal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + READY_LINE + "time.sleep(60)")
    node.start(10)
    with pytest.raises(BrokerError, match=r"did not stop 0\.2 s after SIGTERM"):
        node.stop(0.2)
    assert not node.running


def test_free_ports_are_free_and_not_ephemeral():
    ports = {free_port() for _ in range(20)}
    assert len(ports) > 10
    assert all(PORT_MIN <= port <= PORT_MAX for port in ports)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", ports.pop()))
