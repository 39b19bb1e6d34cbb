"""The directory of a cluster on one machine: its identity, and a lock.

DIR/cluster.json         cluster id, number of brokers and voters; updated when brokers are added
DIR/cluster.lock         locked by the running `ottla cluster`
DIR/broker-0/data        data of broker 0
DIR/broker-0/broker.log  log of broker 0, appended to at restarts
"""

from __future__ import annotations

import fcntl
import json
import os
from typing import IO

from ottla.launch.local_cluster import new_cluster_id, voter_count

LOG_BYTES_MAX = 10 * 1024 * 1024


class ClusterDirError(ValueError):
    """The directory cannot be used as requested; the message names a solution."""


class ClusterDir:
    """Opened and locked by one supervisor, until `close`."""

    def __init__(self, path: str, brokers: int) -> None:
        self.path = path
        self._lock: IO[str] | None = None
        try:
            os.makedirs(path, exist_ok=True)
            self._take_lock()
        except OSError as error:
            raise ClusterDirError(f"--data {path}: {error.strerror or error}") from error
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
        """Create the directory of a broker. A large log file is renamed; one old file is kept."""
        path = self.log_path(node_id)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        if os.path.exists(path) and os.path.getsize(path) > LOG_BYTES_MAX:
            os.replace(path, f"{path}.1")

    def _take_lock(self) -> None:
        # Opened for appending, so that the pid of the lock holder is not overwritten.
        lock = open(os.path.join(self.path, "cluster.lock"), "a+", encoding="ascii")  # noqa: SIM115
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            holder = lock.read().strip() or "unknown"
            lock.close()
            raise ClusterDirError(
                f"--data {self.path}: another `ottla cluster` (pid {holder}) uses it: "
                "stop that process or choose another directory"
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
                f"{path}: invalid file ({error}): repair it, or choose another --data directory"
            ) from error
        if brokers < had:
            raise ClusterDirError(
                f"--brokers {brokers}: {self.path} contains a cluster of {had}, and the missing brokers have "
                f"replicas: use --brokers {had} or more, or another --data directory"
            )
        if voters != had_voters:
            fitting = [count for count in range(had, 2 * had + 10) if voter_count(count) == had_voters]
            choice = f"{had} or more" if len(fitting) > 2 else " or ".join(map(str, fitting))
            raise ClusterDirError(
                f"--brokers {brokers}: {self.path} contains a cluster of {had} with "
                f"{_plural(had_voters, 'voter')}, {brokers} brokers would have {voters}, "
                "and a restart cannot change the voters: "
                f"use --brokers {choice}, or another --data directory"
            )
        if brokers > had:
            self._write(path, cluster_id, brokers, voters)
        return str(cluster_id)

    def _refuse_single_node(self) -> None:
        if os.path.exists(os.path.join(self.path, "meta.properties")):
            raise ClusterDirError(
                f"--data {self.path}: contains the data of a single `ottla serve`: choose another directory"
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
