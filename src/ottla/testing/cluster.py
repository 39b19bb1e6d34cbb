"""`Cluster`: a real broker for a test, as a context manager."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Mapping
from types import TracebackType
from typing import Self

from ottla.testing.ports import free_port
from ottla.testing.process_node import BrokerError, BrokerProcess
from ottla.testing.thread_node import BrokerThread

HOST = "127.0.0.1"
PORT_TRIES_MAX = 3


def _as_text(value: object) -> str:
    """A property value as a properties file would spell it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple):
        return ",".join(map(_as_text, value))
    return str(value)


class Cluster:
    """A broker on a free port with its own data directory.

        with Cluster(config={"num.partitions": 3}) as cluster:
            producer = confluent_kafka.Producer({"bootstrap.servers": cluster.bootstrap_servers})

    The broker is a process of its own, so `kill()` is a real SIGKILL; with `in_process=True` it runs on a
    thread instead (breakpoints work, `kill` does not). The address stays the same over `stop`, `kill` and
    `restart`. A `data_dir` of your own is kept; otherwise a temporary one is removed at the end.
    """

    def __init__(
        self,
        brokers: int = 1,
        *,
        config: Mapping[str, object] | None = None,
        data_dir: str | os.PathLike[str] | None = None,
        in_process: bool = False,
        start_timeout_s: float = 30.0,
        stop_timeout_s: float = 30.0,
    ) -> None:
        if brokers != 1:
            raise ValueError(f"brokers={brokers}: replicated clusters are not available yet, use brokers=1")
        self.in_process = in_process
        self.config = {key: _as_text(value) for key, value in (config or {}).items()}
        self.start_timeout_s = start_timeout_s
        self.stop_timeout_s = stop_timeout_s
        self._given_data_dir = os.fspath(data_dir) if data_dir is not None else None
        self._work_dir: str | None = None
        self._node: BrokerProcess | BrokerThread | None = None

    @property
    def bootstrap_servers(self) -> str:
        """What clients connect to, e.g. `127.0.0.1:29123`."""
        return self._started_node().address

    @property
    def data_dir(self) -> str:
        return self._started_node().data_dir

    @property
    def running(self) -> bool:
        return self._node is not None and self._node.running

    @property
    def pid(self) -> int | None:
        """The broker's process id; None in process or when it is down."""
        return self._node.pid if self._node is not None else None

    def log(self) -> str:
        """The end of the broker's log."""
        return self._started_node().log_tail()

    def start(self) -> Self:
        """Start, or start again on the same address and data."""
        if self._node is not None:
            if not self._node.running:
                self._node.start(self.start_timeout_s)
            return self
        for tries_left in reversed(range(PORT_TRIES_MAX)):
            node = self._new_node()
            try:
                node.start(self.start_timeout_s)
            except BrokerError as error:
                # Somebody took the port between our look and the broker's bind: look for another.
                if tries_left and "in use" in str(error):
                    continue
                self._remove_work_dir()
                raise
            self._node = node
            return self
        raise AssertionError("unreachable: the last try returns or raises")

    def stop(self) -> None:
        """A clean stop; the data stays until the context ends."""
        if self._node is not None:
            self._node.stop(self.stop_timeout_s)

    def kill(self) -> None:
        """SIGKILL: no flush, no goodbye."""
        self._started_node().kill()

    def restart(self) -> None:
        """Stop cleanly if it runs, then start on the same address with the same data."""
        node = self._started_node()
        node.stop(self.stop_timeout_s)
        node.start(self.start_timeout_s)

    def create_topic(
        self, name: str, partitions: int = 1, config: Mapping[str, object] | None = None
    ) -> None:
        """Create a topic, wait until it can be used; callable from anywhere, even inside an event loop."""
        from ottla.testing.topics import create_topic

        settings = {key: _as_text(value) for key, value in (config or {}).items()}
        create_topic(self.bootstrap_servers, name, partitions, settings)

    def close(self) -> None:
        """Stop, and remove the temporary directory."""
        try:
            self.stop()
        finally:
            self._node = None
            self._remove_work_dir()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _started_node(self) -> BrokerProcess | BrokerThread:
        if self._node is None:
            raise RuntimeError("the cluster is not started: use `with Cluster() as cluster:` or call start()")
        return self._node

    def _new_node(self) -> BrokerProcess | BrokerThread:
        if self._work_dir is None:
            self._work_dir = tempfile.mkdtemp(prefix="ottla-")
        data_dir = self._given_data_dir or os.path.join(self._work_dir, "data")
        listen = f"{HOST}:{free_port(HOST)}"
        if self.in_process:
            return BrokerThread(data_dir=data_dir, listen=listen, settings=self.config)
        log_path = os.path.join(self._work_dir, "broker.log")
        return BrokerProcess(data_dir=data_dir, listen=listen, settings=self.config, log_path=log_path)

    def _remove_work_dir(self) -> None:
        if self._work_dir is not None:
            shutil.rmtree(self._work_dir, ignore_errors=True)
            self._work_dir = None
