"""The minimal work of a server on this machine, for comparison: floor_server.py store|answer|send FILE

store FRAME_BYTES    receive frames, append each to the file, answer with a few bytes
send CHUNK_BYTES     answer each request with a chunk of the file by sendfile

Without protocol, checks and event loop, only the cost of the kernel is left.
"""

from __future__ import annotations

import os
import select
import socket
import sys

ANSWER = bytes(60)
REQUEST_BYTES = 80


def store(connection: socket.socket, file: int, frame_bytes: int) -> None:
    """Use the receive size of a busy broker, so that one call returns many small frames."""
    poll = select.epoll()
    poll.register(connection.fileno(), select.EPOLLIN)
    buffer = memoryview(bytearray(max(frame_bytes, 256 * 1024)))
    filled = position = 0
    while True:
        poll.poll()
        count = connection.recv_into(buffer[filled:])
        if not count:
            return
        filled += count
        frames = filled // frame_bytes
        for number in range(frames):
            start = number * frame_bytes
            position += os.pwrite(file, buffer[start : start + frame_bytes], position)
        if frames:
            connection.sendall(ANSWER * frames)
            rest = filled - frames * frame_bytes
            buffer[:rest] = buffer[filled - rest : filled]
            filled = rest


def send(connection: socket.socket, file: int, chunk_bytes: int) -> None:
    poll = select.epoll()
    poll.register(connection.fileno(), select.EPOLLIN)
    size = os.fstat(file).st_size
    position = 0
    while True:
        poll.poll()
        if not connection.recv(REQUEST_BYTES):
            return
        if position + chunk_bytes > size:
            position = 0
        end = position + chunk_bytes
        while position < end:
            position += os.sendfile(connection.fileno(), file, position, end - position)


def main() -> None:
    kind, path, nbytes = sys.argv[1:]
    listener = socket.create_server(("127.0.0.1", 0))
    print(f"ready on 127.0.0.1:{listener.getsockname()[1]} ", flush=True)
    file = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    connection, _ = listener.accept()
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    (store if kind == "store" else send)(connection, file, int(nbytes))


if __name__ == "__main__":
    main()
