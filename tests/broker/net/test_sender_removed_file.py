"""The file is removed while a slow client reads it: the connection is closed, and the client retries."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import pytest

from ottla.broker.net.sender import JOIN_MAX_BYTES, SENDFILE_MIN_BYTES, SocketSender, TransportSender
from ottla.storage.files import OsFiles
from ottla.storage.log.region import FileRegion


def removed(tmp_path: Path) -> FileRegion:
    path = tmp_path / "gone"
    path.write_bytes(bytes(100))
    region = FileRegion(OsFiles().open(str(path)), 0, 100)
    path.unlink()
    return region


class Transport:
    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.aborted = False

    def write(self, data: bytes) -> None:
        self.written.append(data)

    def abort(self) -> None:
        self.aborted = True


def test_transport_sender(tmp_path: Path) -> None:
    transport = Transport()
    sender = TransportSender(transport, lambda: None)  # type: ignore[arg-type]
    sender.send([b"size", removed(tmp_path), b"rest"])
    assert transport.aborted and transport.written == [b"size"]


@pytest.mark.parametrize("nbytes", [100, JOIN_MAX_BYTES, SENDFILE_MIN_BYTES])
def test_socket_sender(tmp_path: Path, nbytes: int) -> None:
    async def scenario() -> list[OSError]:
        here, there = socket.socketpair()
        errors: list[OSError] = []
        sender = SocketSender(asyncio.get_running_loop(), here.fileno(), lambda: None, errors.append)
        region = removed(tmp_path)
        region.nbytes = nbytes
        sender.send([b"size", region])
        here.close()
        there.close()
        return errors

    assert ["gone" in str(error) for error in asyncio.run(scenario())] == [True]
