"""The directory of a cluster on one machine: which cluster it holds, and who runs it now.

DIR/cluster.json         the cluster's id, its brokers and voters; written once, amended when it grows
DIR/cluster.lock         held by the `ottla cluster` that runs
DIR/broker-0/data        what broker 0 stores
DIR/broker-0/broker.log  what broker 0 says, appended over its restarts
"""

from __future__ import annotations

import fcntl
import json
import os
from typing import IO

from ottla.launch.local_cluster import new_cluster_id, voter_count

LOG_BYTES_MAX = 10 * 1024 * 1024


class ClusterDirError(ValueError):
    """The directory cannot be used as asked: the text names it and the way out."""


class ClusterDir:
    """Opened and locked for one supervisor; `close` lets go of it."""

    def __init__(self, path: str, brokers: int) -> None:
        self.path = path
        self._lock: IO[str] | None = None
        try:
            os.makedirs(path, exist_ok=True)
            self._take_lock()
        except OSError as error:
            raise ClusterDirError(f"--data {path}: cannot be used: {error.strerror or error}") from error
        try:
            self.cluster_id = self._settle(brokers)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def data_dir(self, node_id: int) -> str:
        return os.path.join(self.path, f"broker-{node_id}", "data")

    def log_path(self, node_id: int) -> str:
        return os.path.join(self.path, f"broker-{node_id}", "broker.log")

    def prepare(self, node_id: int) -> None:
        """A member's place; a log that has grown large is set aside, one generation of it."""
        path = self.log_path(node_id)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        if os.path.exists(path) and os.path.getsize(path) > LOG_BYTES_MAX:
            os.replace(path, f"{path}.1")

    def _take_lock(self) -> None:
        # Opened for appending: the pid of whoever holds the lock must survive our look at it.
        lock = open(os.path.join(self.path, "cluster.lock"), "a+", encoding="ascii")  # noqa: SIM115
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            holder = lock.read().strip() or "unknown"
            lock.close()
            raise ClusterDirError(
                f"--data {self.path}: another `ottla cluster` (pid {holder}) runs it: "
                "stop that one or choose another directory"
            ) from None
        lock.truncate(0)
        lock.write(f"{os.getpid()}\n")
        lock.flush()
        self._lock = lock

    def _settle(self, brokers: int) -> str:
        path = os.path.join(self.path, "cluster.json")
        voters = voter_count(brokers)
        if not os.path.exists(path):
            self._refuse_single_node()
            cluster_id = new_cluster_id()
            self._write(path, cluster_id, brokers, voters)
            return cluster_id
        try:
            with open(path, encoding="utf-8") as file:
                known = json.load(file)
            cluster_id, had, had_voters = known["cluster_id"], int(known["brokers"]), int(known["voters"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ClusterDirError(
                f"{path}: cannot be understood ({error}): repair it, or choose another --data directory"
            ) from error
        if brokers < had:
            raise ClusterDirError(
                f"--brokers {brokers}: {self.path} holds a cluster of {had}, and the missing members have "
                f"replicas: use --brokers {had} or more, or another --data directory"
            )
        if voters != had_voters:
            fitting = [count for count in range(had, 2 * had + 10) if voter_count(count) == had_voters]
            choice = f"{had} or more" if len(fitting) > 2 else " or ".join(map(str, fitting))
            raise ClusterDirError(
                f"--brokers {brokers}: {self.path} holds a cluster of {had} with "
                f"{_plural(had_voters, 'voter')}, {brokers} brokers would have {voters}, "
                "and voters cannot be changed by a restart: "
                f"use --brokers {choice}, or another --data directory"
            )
        if brokers > had:
            self._write(path, cluster_id, brokers, voters)
        return str(cluster_id)

    def _refuse_single_node(self) -> None:
        if os.path.exists(os.path.join(self.path, "meta.properties")):
            raise ClusterDirError(
                f"--data {self.path}: holds the data of a single `ottla serve`: choose another directory"
            )

    def _write(self, path: str, cluster_id: str, brokers: int, voters: int) -> None:
        text = json.dumps({"cluster_id": cluster_id, "brokers": brokers, "voters": voters}, indent=2)
        with open(f"{path}.new", "w", encoding="utf-8") as file:
            file.write(text + "\n")
            file.flush()
            os.fsync(file.fileno())
        os.replace(f"{path}.new", path)


def _plural(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
