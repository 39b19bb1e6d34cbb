"""A file is shorter than the region that is sent: a frame never ends before its announced length.

The rest of the frame cannot be sent, and whatever follows would be taken for it: the connection is closed.
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from pathlib import Path

import pytest

from ottla.broker.net.sender import JOIN_MAX_BYTES, SENDFILE_MIN_BYTES, SocketSender, TransportSender
from ottla.storage.errors import StorageError
from ottla.storage.files import OsFiles
from ottla.storage.log.region import FileRegion

SIZES = [100, JOIN_MAX_BYTES + 1, SENDFILE_MIN_BYTES - 1, SENDFILE_MIN_BYTES, 3 * SENDFILE_MIN_BYTES]


class Transport:
    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.aborted = False

    def write(self, data: bytes) -> None:
        self.written.append(data)

    def abort(self) -> None:
        self.aborted = True


class DistrustedSegment:
    def __init__(self) -> None:
        self.count = 0

    def distrust(self) -> None:
        self.count += 1


def shortened(tmp_path: Path, nbytes: int, left_bytes: int) -> tuple[FileRegion, DistrustedSegment]:
    path = tmp_path / "short"
    path.write_bytes(bytes(nbytes))
    segment = DistrustedSegment()
    region = FileRegion(OsFiles().open(str(path)), 0, nbytes, segment=segment)
    os.truncate(path, left_bytes)
    return region, segment


def sent_by_socket_sender(parts: list[object]) -> tuple[bytes, list[OSError]]:
    """Send the parts, and one more when there is an error; return what arrived, and the errors."""

    async def scenario() -> tuple[bytes, list[OSError]]:
        loop = asyncio.get_running_loop()
        here, there = socket.socketpair()
        with here, there:
            here.setblocking(False)
            there.setblocking(False)
            failed = asyncio.Event()
            errors: list[OSError] = []

            def on_error(error: OSError) -> None:
                errors.append(error)
                failed.set()

            sender = SocketSender(loop, here.fileno(), lambda: None, on_error)
            arrived = bytearray()

            async def receive() -> None:
                while data := await loop.sock_recv(there, 1 << 20):
                    arrived.extend(data)

            receiving = asyncio.create_task(receive())
            sender.send(parts)
            async with asyncio.timeout(10):
                await failed.wait()
                sender.send([b"next answer"])
                here.close()
                await receiving
            return bytes(arrived), errors

    return asyncio.run(scenario())


@pytest.mark.parametrize("left", [0, 1, -1])
@pytest.mark.parametrize("nbytes", SIZES)
def test_socket_sender_closes(tmp_path: Path, nbytes: int, left: int) -> None:
    region, segment = shortened(tmp_path, nbytes, left % nbytes)
    arrived, errors = sent_by_socket_sender([b"size", region])
    assert len(errors) == 1 and "short" in str(errors[0])
    assert len(arrived) < 4 + nbytes and b"next answer" not in arrived
    assert segment.count == 1, "the next read of the segment verifies it"


@pytest.mark.parametrize("left", [0, 1, -1])
@pytest.mark.parametrize("nbytes", SIZES)
def test_transport_sender_aborts(tmp_path: Path, nbytes: int, left: int) -> None:
    region, segment = shortened(tmp_path, nbytes, left % nbytes)
    transport = Transport()
    sender = TransportSender(transport, lambda: None)  # type: ignore[arg-type]
    sender.send([b"size", region])
    sender.send([b"next answer"])
    assert transport.aborted and segment.count == 1
    assert sum(map(len, transport.written)) < 4 + nbytes and b"next answer" not in transport.written


@pytest.mark.parametrize("nbytes", SIZES)
def test_a_bad_sector_closes_and_is_verified_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nbytes: int
) -> None:
    """The kernel returns what is before the bad sector, and EIO to the next call."""
    region, segment = shortened(tmp_path, nbytes, nbytes)
    bad = nbytes // 2
    pread, sendfile = os.pread, os.sendfile

    def short_pread(fd: int, count: int, position: int) -> bytes:
        if position <= bad < position + count:
            if position == bad:
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            count = bad - position
        return pread(fd, count, position)

    def short_sendfile(out: int, fd: int, position: int, count: int) -> int:
        if position <= bad < position + count:
            if position == bad:
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            count = bad - position
        return sendfile(out, fd, position, count)

    monkeypatch.setattr(os, "pread", short_pread)
    monkeypatch.setattr(os, "sendfile", short_sendfile)

    arrived, errors = sent_by_socket_sender([b"size", region])
    assert [error.errno for error in errors] == [errno.EIO]
    assert len(arrived) <= 4 + bad and segment.count == 1


def test_a_short_pread_is_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fewer bytes than requested do not mean the end of the file."""
    path = tmp_path / "whole"
    path.write_bytes(bytes(range(200)))
    pread = os.pread
    monkeypatch.setattr(os, "pread", lambda fd, count, at: pread(fd, min(count, 7), at))
    file = OsFiles().open(str(path))
    assert file.read(10, 50) == bytes(range(10, 60))
    assert file.read(190, 50) == bytes(range(190, 200))


def test_a_region_reads_all_of_its_bytes_or_fails(tmp_path: Path) -> None:
    region, segment = shortened(tmp_path, 100, 99)
    with pytest.raises(StorageError, match="short: 99 of 100 bytes"):
        region.read()
    assert segment.count == 1
