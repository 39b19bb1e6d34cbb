"""One broker as a process: `ottla serve`, with methods to stop, kill and pause it."""

from __future__ import annotations

import os
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping

READY = re.compile(rb"ready on (\S+) ")
LOG_TAIL_BYTES = 8_000


class BrokerError(RuntimeError):
    """The broker did not start or stop; the message has the end of its log."""


class BrokerProcess:
    """Starts `python -m ottla serve`, waits for its ready line, stops or kills it."""

    def __init__(
        self,
        *,
        data_dir: str,
        listen: str,
        settings: Mapping[str, str],
        log_path: str,
        connect_from: str | None = None,
    ) -> None:
        self.data_dir = data_dir
        self.listen = listen
        self.settings = dict(settings)
        self.log_path = log_path
        self.address = listen
        self.connect_from = connect_from
        self.paused = False
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process is not None else None

    def command(self) -> list[str]:
        # -P keeps the directory of the tests off sys.path: an `ottla.py` there must not shadow the package.
        command = [
            sys.executable,
            "-P",
            "-m",
            "ottla",
            "serve",
        ]
        if "log.dirs" not in self.settings:
            command += ["--data", self.data_dir]
        if "listeners" not in self.settings:
            command += ["--listen", self.listen]
        if self.connect_from is not None:
            command += ["--connect-from", self.connect_from]
        command.append("--stop-on-stdin-eof")
        for key, value in self.settings.items():
            command += ["--set", f"{key}={value}"]
        return command

    def start(self, timeout_s: float) -> None:
        assert not self.running, "already running"
        with open(self.log_path, "ab") as log:
            process = subprocess.Popen(
                self.command(),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env={**os.environ, "PYTHONUNBUFFERED": "1"},
            )
        self._process = process
        line = self._first_line(process, timeout_s)
        ready = READY.search(line)
        if ready is None:
            was_running = process.poll() is None
            self.kill()
            what = (
                f"was not ready after {timeout_s:g} s"
                if was_running
                else f"ended with exit code {process.returncode}"
            )
            raise BrokerError(f"the broker on {self.listen} {what}\n{self.log_tail()}")
        # The broker may have chosen the port; planned listeners have the advertised address.
        if "listeners" not in self.settings:
            self.address = ready.group(1).decode()

    def _first_line(self, process: subprocess.Popen[bytes], timeout_s: float) -> bytes:
        """Return the first line of output, empty if the broker ends or times out."""
        assert process.stdout is not None
        deadline_s = time.monotonic() + timeout_s
        line = b""
        while not line.endswith(b"\n"):
            left_s = deadline_s - time.monotonic()
            if left_s <= 0 or not select.select([process.stdout], [], [], left_s)[0]:
                return b""
            chunk = os.read(process.stdout.fileno(), 4096)
            if not chunk:
                process.wait()
                return b""
            line += chunk
        return line

    def log_tail(self) -> str:
        """Return the end of the broker's stderr."""
        try:
            with open(self.log_path, "rb") as log:
                log.seek(0, os.SEEK_END)
                log.seek(max(0, log.tell() - LOG_TAIL_BYTES))
                text = log.read().decode("utf-8", "replace").strip()
        except OSError:
            text = ""
        return f"--- its log ---\n{text or '(empty)'}"

    def stop(self, timeout_s: float) -> None:
        """Send SIGTERM and wait; the exit code must be 0."""
        process = self._process
        if process is None:
            return
        self.resume()
        process.terminate()
        try:
            process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()
            raise BrokerError(
                f"the broker on {self.address} did not stop {timeout_s:g} s after SIGTERM\n{self.log_tail()}"
            ) from None
        code = process.returncode
        self._close()
        if code != 0:
            raise BrokerError(f"the broker on {self.address} ended with exit code {code}\n{self.log_tail()}")

    def kill(self) -> None:
        """Send SIGKILL; written data survives in the page cache."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._close()

    def pause(self) -> None:
        """Send SIGSTOP."""
        if self._process is None or not self.running:
            raise BrokerError(f"the broker on {self.address} cannot be paused: it does not run")
        self._process.send_signal(signal.SIGSTOP)
        self.paused = True

    def resume(self) -> None:
        """Send SIGCONT if the process is paused."""
        if self._process is not None and self.paused and self.running:
            self._process.send_signal(signal.SIGCONT)
        self.paused = False

    def _close(self) -> None:
        self.paused = False
        process, self._process = self._process, None
        assert process is not None
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()
