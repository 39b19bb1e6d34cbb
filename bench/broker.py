"""The broker under test, started as a separate process as users start it."""

from __future__ import annotations

import os
import re
import select
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from types import TracebackType
from typing import NamedTuple, Self

READY = re.compile(rb"ready on (\S+) ")
START_SECONDS_MAX = 120
STOP_SECONDS_MAX = 120
# The benchmark may run without bytecode files or in a debug mode; a user's broker does not.
UNWANTED_ENVIRONMENT = ("PYTHONDONTWRITEBYTECODE", "PYTHONDEVMODE", "PYTHONASYNCIODEBUG", "PYTHONMALLOC")


class BenchError(RuntimeError):
    """The broker did not do what the measurement needs."""


class Launch(NamedTuple):
    """How brokers are started; the same for every case of a run."""

    data_root: str
    profiles: str | None = None  # if set, every broker runs under a profiler that writes to this directory
    sampled: bool = False

    def command(self, label: str) -> list[str]:
        python = [sys.executable, "-P"]
        if self.profiles is None:
            return [*python, "-m", "ottla", "serve"]
        runner = os.path.join(os.path.dirname(os.path.abspath(__file__)), "profiled_serve.py")
        kind = "sample" if self.sampled else "trace"
        path = os.path.join(self.profiles, f"{len(os.listdir(self.profiles)):03d} {label}")
        with open(path, "xb"):
            pass  # the next broker takes another name
        return [*python, runner, kind, path, "serve"]


class Broker:
    """Uses a free port and a new directory, which is removed at the end.

    Settings may override listeners and directories.
    """

    def __init__(
        self, launch: Launch, settings: Mapping[str, str] | None = None, label: str = "broker"
    ) -> None:
        self._launch = launch
        self.settings = dict(settings or {})
        self.label = label
        self._process: subprocess.Popen[bytes] | None = None
        self._began_s = 0.0
        os.makedirs(launch.data_root, exist_ok=True)
        self.directory = tempfile.mkdtemp(prefix="ottla-bench-", dir=launch.data_root)
        self.address = ""
        self.start_s = 0.0

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                self.stop()
            else:
                self.kill()
        finally:
            self.remove()

    @property
    def data_dir(self) -> str:
        return os.path.join(self.directory, "data")

    @property
    def is_running(self) -> bool:
        return self._process is not None

    @property
    def pid(self) -> int:
        assert self._process is not None, "not running"
        return self._process.pid

    @property
    def host_and_port(self) -> tuple[str, int]:
        host, _, port = self.address.rpartition(":")
        return host, int(port)

    def start(self) -> None:
        """Start and wait for the ready line; `start_s` is how long that took."""
        self.begin_start()
        self.await_ready()

    def begin_start(self) -> None:
        assert self._process is None, "running already"
        command = [*self._launch.command(self.label), "--log-level", "warning", "--stop-on-stdin-eof"]
        if "log.dirs" not in self.settings:
            command += ["--data", self.data_dir]
        if "listeners" not in self.settings:
            command += ["--listen", "127.0.0.1:0"]
        for key, value in self.settings.items():
            command += ["--set", f"{key}={value}"]
        environment = {key: value for key, value in os.environ.items() if key not in UNWANTED_ENVIRONMENT}
        with open(os.path.join(self.directory, "log"), "ab") as log:
            self._began_s = time.perf_counter()
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, env=environment
            )

    def await_ready(self) -> None:
        ready = READY.search(self._first_line())
        self.start_s = time.perf_counter() - self._began_s
        if ready is None:
            self.kill()
            raise BenchError(f"the broker did not start\n{self.log_text()}")
        if "listeners" not in self.settings:
            self.address = ready.group(1).decode()

    def _first_line(self) -> bytes:
        assert self._process is not None and self._process.stdout is not None
        pipe = self._process.stdout
        deadline_s = time.monotonic() + START_SECONDS_MAX
        line = b""
        while not line.endswith(b"\n"):
            left_s = deadline_s - time.monotonic()
            if left_s <= 0 or not select.select([pipe], [], [], left_s)[0]:
                break
            chunk = os.read(pipe.fileno(), 4096)
            if not chunk:
                break
            line += chunk
        return line

    def log_text(self) -> str:
        with open(os.path.join(self.directory, "log"), encoding="utf-8", errors="replace") as log:
            return log.read()[-4000:]

    def stop(self) -> float:
        """Stop cleanly; return the duration."""
        if self._process is None:
            return 0.0
        began_s = time.perf_counter()
        self.begin_stop()
        self.await_end()
        return time.perf_counter() - began_s

    def begin_stop(self) -> None:
        if self._process is not None:
            self._process.terminate()

    def await_end(self) -> None:
        process = self._process
        if process is None:
            return
        try:
            code = process.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self.kill()
            raise BenchError(f"the broker did not stop\n{self.log_text()}") from None
        self._close()
        if code != 0:
            raise BenchError(f"the broker ended with exit code {code}\n{self.log_text()}")

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._close()

    def _close(self) -> None:
        process, self._process = self._process, None
        assert process is not None
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()

    def remove(self) -> None:
        shutil.rmtree(self.directory, ignore_errors=True)
