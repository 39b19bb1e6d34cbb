"""Runs the brokers of a cluster as processes: starts them, restarts those that die, stops them all.

Brokers never outlive the supervisor: the stdin of each is a pipe from the supervisor, and it stops when the
pipe closes, which happens however the supervisor ends.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
import time
from collections.abc import Callable, Sequence

from ottla.cli.cluster.directory import ClusterDir
from ottla.cli.cluster.events import Events, how_it_ended
from ottla.launch.local_cluster import HOST, Member, voter_count

EXIT_OK = 0
EXIT_FAILED = 1
EXIT_USAGE = 2

READY = re.compile(rb"ready on (\S+) ")
RESTART_FIRST_S = 1.0
RESTART_MAX_S = 30.0
# A broker that ran this long has recovered: the restart delay starts over.
STEADY_S = 10.0
STILL_WAITING_S = 30.0
STOP_TIMEOUT_S = 45.0


class Supervised:
    """The state of one supervised broker."""

    def __init__(self, member: Member) -> None:
        self.member = member
        self.node_id = member.node_id
        self.process: asyncio.subprocess.Process | None = None
        self.ready = False
        self.killed = False


class Supervisor:
    def __init__(
        self,
        members: Sequence[Member],
        directory: ClusterDir,
        events: Events,
        command_of: Callable[[Member], list[str]],
        *,
        restart: bool = True,
        restart_first_s: float = RESTART_FIRST_S,
        stop_timeout_s: float = STOP_TIMEOUT_S,
    ) -> None:
        self._supervised = [Supervised(member) for member in members]
        self._directory = directory
        self._events = events
        self._command_of = command_of
        self._restart = restart
        self._restart_first_s = restart_first_s
        self._stop_timeout_s = stop_timeout_s
        self._stopping = asyncio.Event()
        self._exit_code = EXIT_OK

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(f"{HOST}:{one.member.client_port}" for one in self._supervised)

    async def run(self) -> int:
        """Run until a signal arrives or no broker is left; return the exit code."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._on_signal)
        self._announce_start()
        keepers = [asyncio.create_task(self._keep(one)) for one in self._supervised]
        waiting = loop.call_later(STILL_WAITING_S, self._still_waiting)
        ending = asyncio.create_task(self._stop_on_signal())
        try:
            await asyncio.gather(*keepers)
        finally:
            waiting.cancel()
            ending.cancel()
        stopped = "stopped" if self._stopping.is_set() else "no broker is running: the cluster has ended"
        if not self._stopping.is_set():
            self._exit_code = EXIT_FAILED
        self._events.emit("stopped", stopped, exit_code=self._exit_code)
        return self._exit_code

    def _announce_start(self) -> None:
        count = len(self._supervised)
        voters = voter_count(count)
        voting = "all of them voters" if voters == count else f"voters 0 to {voters - 1}"
        brokers = f"{count} brokers (0 to {count - 1}, {voting})" if count > 1 else "1 broker"
        self._events.emit(
            "starting",
            f"starting {brokers}, cluster {self._directory.cluster_id}, data in {self._directory.path}",
            brokers=count,
            voters=list(range(voters)),
            cluster_id=self._directory.cluster_id,
            data=self._directory.path,
        )

    # -- one member

    async def _keep(self, one: Supervised) -> None:
        """Run a broker, and restart it, until the cluster stops."""
        pause_s = self._restart_first_s
        while not self._stopping.is_set():
            started_s = time.monotonic()
            try:
                code, was_ready = await self._run_once(one)
            except OSError as error:
                # For example a full disk or too many processes: the others continue, and this one is retried.
                text = f"broker {one.node_id} cannot be started: {error}"
                self._events.emit("broker-failed", text, broker=one.node_id, error=str(error))
                code, was_ready = EXIT_FAILED, False
            if self._stopping.is_set():
                if code != 0 and self._exit_code == EXIT_OK:  # otherwise the reason of the stop is reported
                    self._exit_code = EXIT_FAILED
                how = "stopped" if code == 0 else how_it_ended(code)
                text = f"broker {one.node_id} {how}"
                self._events.emit("broker-stopped", text, broker=one.node_id, exit_code=code)
                return
            # A retry does not fix invalid arguments.
            hopeless = code == EXIT_USAGE and not was_ready
            if hopeless or not self._restart:
                then = "its configuration is invalid" if hopeless else "not restarted (--no-restart)"
                log_path = self._directory.log_path(one.node_id)
                self._events.died(one.node_id, code, then, log_path, was_ready=was_ready)
                if hopeless:
                    self._exit_code = EXIT_USAGE
                    self._stopping.set()
                return
            if time.monotonic() - started_s >= STEADY_S:
                pause_s = self._restart_first_s
            then = f"restarting in {pause_s:g} s"
            self._events.died(
                one.node_id, code, then, self._directory.log_path(one.node_id), was_ready=was_ready
            )
            await self._pause(pause_s)
            pause_s = min(pause_s * 2, RESTART_MAX_S)

    async def _run_once(self, one: Supervised) -> tuple[int, bool]:
        """Run the process once; return its exit code and whether it was ever ready."""
        self._directory.prepare(one.node_id)
        log_path = self._directory.log_path(one.node_id)
        with open(log_path, "ab") as log:  # noqa: ASYNC230 (the child's, nothing is written here)
            process = await asyncio.create_subprocess_exec(
                *self._command_of(one.member),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
                # A new session: Ctrl-C reaches only the supervisor, which then stops the brokers.
                start_new_session=True,
            )
        one.process = process
        text = f"broker {one.node_id} starting (pid {process.pid}, log in {log_path})"
        self._events.emit("broker-starting", text, broker=one.node_id, pid=process.pid, log=log_path)
        if self._stopping.is_set():
            process.terminate()
        was_ready = False
        assert process.stdout is not None
        while line := await process.stdout.readline():
            found = READY.search(line)
            if found is not None and not was_ready:
                was_ready = one.ready = True
                self._announce_ready(one, found.group(1).decode())
        code = await process.wait()
        one.ready = False
        one.process = None
        return code, was_ready

    def _announce_ready(self, one: Supervised, address: str) -> None:
        self._events.emit(
            "broker-ready", f"broker {one.node_id} ready on {address}", broker=one.node_id, address=address
        )
        if all(other.ready for other in self._supervised) and not self._stopping.is_set():
            count = len(self._supervised)
            noun = "broker" if count == 1 else "brokers"
            self._events.emit(
                "ready",
                f"ready: {count} {noun}, bootstrap.servers={self.bootstrap_servers}",
                brokers=count,
                bootstrap_servers=self.bootstrap_servers,
            )

    async def _pause(self, seconds: float) -> None:
        """Wait until the time has passed or the cluster stops."""
        loop = asyncio.get_running_loop()
        over = loop.create_future()
        timer = loop.call_later(seconds, over.set_result, None)
        stopping = asyncio.ensure_future(self._stopping.wait())
        await asyncio.wait((over, stopping), return_when=asyncio.FIRST_COMPLETED)
        timer.cancel()
        stopping.cancel()

    def _still_waiting(self) -> None:
        late = [one for one in self._supervised if not one.ready and one.process is not None]
        if late and not self._stopping.is_set():
            ids = ", ".join(str(one.node_id) for one in late)
            log_path = self._directory.log_path(late[0].node_id)
            text = f"still waiting for broker {ids} after {STILL_WAITING_S:g} s; see {log_path}"
            self._events.emit("waiting", text, brokers=[one.node_id for one in late])

    # -- the end

    def _on_signal(self) -> None:
        if self._stopping.is_set():
            self._kill_rest("a second signal")
        self._stopping.set()

    async def _stop_on_signal(self) -> None:
        await self._stopping.wait()
        running = [one.process for one in self._supervised if one.process is not None]
        self._events.emit("stopping", f"stopping {len(running)} of {len(self._supervised)} brokers")
        for process in running:
            if process.returncode is None:
                process.terminate()
                # A paused process would not receive the signal.
                process.send_signal(signal.SIGCONT)
        await asyncio.sleep(self._stop_timeout_s)
        self._kill_rest(f"still running {self._stop_timeout_s:g} s after SIGTERM")

    def _kill_rest(self, why: str) -> None:
        for one in self._supervised:
            process = one.process
            if process is not None and process.returncode is None and not one.killed:
                one.killed = True
                self._events.emit(
                    "killing", f"broker {one.node_id}: {why}, killing it", broker=one.node_id, why=why
                )
                process.kill()


def serve_command(config_path: str, log_level: str) -> list[str]:
    """The command line of `ottla serve` of this installation."""
    # -P keeps the current directory off sys.path: an `ottla.py` there must not shadow the package.
    command = [sys.executable, "-P", "-m", "ottla", "serve", "--config", os.path.abspath(config_path)]
    return [*command, "--log-level", log_level, "--stop-on-stdin-eof"]
